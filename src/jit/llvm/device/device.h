// Loop nests as kernels of a device: device IR, which is the same for every machine, and what becomes of it: PTX for a GPU, or code of the host for
// the SIMT twin, which runs each thread by itself (tests/simt). Names nothing of LLVM.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/llvm/device/machine.h"
#include "jit/run/device_code.h"

namespace escapement {

struct DeviceSource {
  const LoopNest* nest;
  DeviceVariant variant;
  std::string name;       // of the kernel
};

// What PTX is made for. It runs on every later machine, too.
struct DeviceTarget {
  int compute = 80;       // compute capability, 10 * major + minor
};

class DeviceTwin {
 public:
  virtual ~DeviceTwin() = default;
  virtual DeviceThread thread() const = 0;
  virtual unsigned shared_bytes() const = 0;   // of a block
};

// All throw InternalError. Thread safe.
std::string device_ir(const std::vector<DeviceSource>& sources);
std::string device_ptx(const std::vector<DeviceSource>& sources, DeviceTarget target);
std::unique_ptr<DeviceTwin> device_twin(const DeviceSource& source);

}  // namespace escapement
