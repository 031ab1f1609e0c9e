// LLVM's code generator for NVIDIA's GPUs. Not safe for use by several threads at once. Private to src/jit/llvm/device.
#pragma once

#include <memory>
#include <string>

#include "jit/llvm/device/kernel.h"

namespace llvm {
class TargetMachine;
}

namespace escapement {

class PtxMachine {
 public:
  explicit PtxMachine(DeviceTarget target);
  ~PtxMachine();
  llvm::DataLayout data_layout() const;
  const llvm::Triple& triple() const;
  std::string assemble(llvm::Module& module);   // PTX; the module is changed

 private:
  std::unique_ptr<llvm::TargetMachine> machine_;
};

}  // namespace escapement
