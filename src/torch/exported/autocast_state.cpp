// See autocast_state.h.
#include "torch/exported/autocast_state.h"

#include <ATen/autocast_mode.h>

namespace escapement {

AutocastState AutocastState::now() {
  return {at::autocast::is_autocast_enabled(at::kCPU), at::autocast::is_autocast_cache_enabled(), at::autocast::get_autocast_dtype(at::kCPU)};
}

// Casts that were kept belong to the state that they were made in.
void AutocastState::set() const {
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, enabled);
  at::autocast::set_autocast_cache_enabled(cache);
  at::autocast::set_autocast_dtype(at::kCPU, dtype);
}

int64_t AutocastState::packed() const { return int64_t{enabled} | int64_t{cache} << 1 | static_cast<int64_t>(dtype) << 2; }

AutocastState AutocastState::unpacked(int64_t value) { return {(value & 1) != 0, (value & 2) != 0, static_cast<c10::ScalarType>(value >> 2)}; }

}  // namespace escapement
