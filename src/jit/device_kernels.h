// Loop nests as kernels of devices, shared by structure as the host's are (kernel_cache.h): PTX is made for a variant that a launch may well ask for
// when a program is compiled, for others at first need, and loaded into a device at the first launch there. What is loaded stays: a kernel may
// still be in a stream when its last program is gone.
#pragma once

#include <memory>
#include <vector>

#include "jit/run/device_launch.h"
#include "kernels/plan.h"

namespace escapement {

// For all kernels of a plan, in order. Throws InternalError, with Reason::device_kernel where a nest has no kernel on a device.
std::vector<std::shared_ptr<KernelCode>> device_code_for(const std::vector<Kernel>& kernels);

}  // namespace escapement
