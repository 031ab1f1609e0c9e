// A launch on a device: which kernel of a nest suits the sizes and layouts of a call, on how many threads, and its argument block.
//
// Everything is a formula of the sizes and of the device's limits; nothing is measured, and nothing of it changes a bit of the results. Prepared when
// a shape changes; then only the addresses in the argument block change from call to call, in place.
#pragma once

#include <span>
#include <vector>

#include "jit/cuda/device.h"
#include "jit/run/device_code.h"
#include "jit/run/kernel_code.h"

namespace escapement::cuda {

struct GridStep {
  DeviceVariant variant;
  uint32_t blocks = 0, threads = 0;
  friend bool operator==(const GridStep&, const GridStep&) = default;
};

// One kernel, or two for long rows in parts; none where there is nothing to write.
struct DeviceLaunch {
  std::vector<GridStep> steps;
  Geometry geometry;              // as the kernels see it: axes in order, merged
  std::vector<uint64_t> words;    // ArgumentBlock
  uint64_t scratch_bytes = 0;     // that must be at words[scratch()] where it is not 0
};

DeviceLaunch prepare(const LoopNest& nest, Geometry geometry, std::span<const uint64_t> scalars, const DeviceLimits& limits);

// The most bytes that a kernel may take by value; a nest whose block is longer has no kernels on a device.
inline constexpr size_t kMostArgumentBytes = 4096;
bool fits_device(const LoopNest& nest);

// A call's addresses: of each parameter's element at index 0, of the failure word (null: the nest gathers nothing), of the scratch.
void set_addresses(const LoopNest& nest, std::span<const Address> data, Address failure, Address scratch, DeviceLaunch& launch);

// `functions`: of each step. Returns when the launch is in the stream, not when it has run. Throws DeviceError.
void launch(Device& device, std::span<const Function> functions, DeviceLaunch& launch, Stream stream);

}  // namespace escapement::cuda
