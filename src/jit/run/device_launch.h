// A kernel of a device as the run time sees it. Implemented in jit/ (device_kernels.h).
//
// Such a kernel has no code for this processor, and says so when it is asked for some: whatever runs a plan on the host cannot touch a device's memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>

#include "jit/run/kernel_code.h"

namespace escapement {

// The device's driver refused. What it says stands in the text.
class DeviceFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A launch made ready for one set of sizes; then only addresses change.
class PreparedLaunch {
 public:
  virtual ~PreparedLaunch() = default;
  virtual size_t scratch_bytes() const = 0;   // of the device's memory that it needs besides its operands, while it runs
  // Puts it into the stream and returns. `data`: of each parameter its element at index 0. Throws DeviceFailure.
  virtual void launch(std::span<void* const> data, void* scratch, void* stream) = 0;
};

class DeviceKernelCode : public KernelCode {
 public:
  bool has(Variant) const final { return false; }
  KernelFunction function(Variant variant) final;   // throw InternalError
  void run(Variant variant, const KernelArgs& args, int64_t outer_begin, int64_t outer_end, int64_t inner_begin, int64_t inner_end) final;
  // Throws DeviceFailure, InternalError.
  virtual std::unique_ptr<PreparedLaunch> prepare(const Geometry& geometry, std::span<const uint64_t> scalars, int ordinal) = 0;
};

}  // namespace escapement
