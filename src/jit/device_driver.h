// The process's driver and its devices, opened when a tensor of a device is first met.
#pragma once

#include <string>

#include "jit/cuda/device.h"

namespace escapement {

// Why nothing can be launched on the device of that number, with a remedy; empty: it can. Answered once for each, and kept. Thread safe.
const std::string& why_no_device(int ordinal);
// A device that can be launched on. Never given back: kernels may be used while the process ends.
cuda::Device& device_of(int ordinal);

// Whether the driver is the tests' twin, which runs a kernel's host code in its place (tests/simt/driver_twin.h): ESCAPEMENT_CUDA_DRIVER names one that has
// a function that no real driver has, or that cannot be opened. It serves torch's PrivateUse1 devices, and no others.
bool driver_is_twin();
// To the twin: the code that stands for a kernel. `written`: bit p, through parameter p.
struct TwinCode {
  const char* name;
  void* thread;            // DeviceThread
  unsigned shared_bytes, params;
  uint64_t written;
};
void offer_to_twin(const TwinCode& code);

}  // namespace escapement
