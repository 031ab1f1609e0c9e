// The launches of one context on a device: into torch's current stream, with memory of torch's allocator. That allocator is ordered by streams, so what
// a launch needs may be let go of as soon as it is in the stream.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "jit/run/device_launch.h"

namespace escapement {

class DeviceCall {
 public:
  explicit DeviceCall(c10::Device device) : device_(device) {}
  void begin();   // a call, which is torch's current stream's
  void launch(PreparedLaunch& launch, std::span<void* const> data);

 private:
  void* nothing();

  const c10::Device device_;
  void* stream_ = nullptr;
  at::Tensor nothing_;            // for operands without elements, which have no address; nobody writes it
  std::vector<void*> addresses_;
};

// A number in a device's memory. Waits for it.
int64_t read_integer(const at::Tensor& element);

}  // namespace escapement
