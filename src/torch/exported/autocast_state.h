// Autocast of this thread on the CPU, as a value: what a block of an exported program changes, and what is put back after it.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace escapement {

struct AutocastState {
  bool enabled = false, cache = false;
  c10::ScalarType dtype = c10::ScalarType::BFloat16;

  static AutocastState now();
  void set() const;
  int64_t packed() const;
  static AutocastState unpacked(int64_t value);
};

// Puts back, however it is left, what this thread had.
class AutocastScope {
 public:
  AutocastScope() : before_(AutocastState::now()) {}
  ~AutocastScope() { before_.set(); }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const AutocastState before_;
};

}  // namespace escapement
