// See device_launch.h.
#include "jit/run/device_launch.h"

#include "support/error.h"

namespace escapement {

namespace {

[[noreturn]] void refuse() { throw InternalError("a kernel of a device is asked for code of this processor"); }

}  // namespace

KernelFunction DeviceKernelCode::function(Variant) { refuse(); }

void DeviceKernelCode::run(Variant, const KernelArgs&, int64_t, int64_t, int64_t, int64_t) { refuse(); }

}  // namespace escapement
