// See device.h.
#include "jit/llvm/device/device.h"

#include <map>
#include <mutex>

#include "jit/llvm/device/ptx.h"
#include "jit/llvm/modules.h"

namespace escapement {

namespace {

OwnedModule emitted(const std::vector<DeviceSource>& sources, const llvm::DataLayout& layout, const llvm::Triple& triple) {
  OwnedModule result = new_module(layout, triple);
  for (const DeviceSource& source : sources) emit_device(*result.module, source);
  verify(*result.module);
  return result;
}

class Twin final : public DeviceTwin {
 public:
  Twin(std::unique_ptr<CompiledModules> code, const std::string& name, unsigned shared_bytes)
      : code_(std::move(code)), thread_(reinterpret_cast<DeviceThread>(code_->addresses({name})[0])), shared_bytes_(shared_bytes) {}
  ~Twin() override {
    const std::shared_lock lock(inside_llvm());
    code_.reset();
  }
  DeviceThread thread() const override { return thread_; }
  unsigned shared_bytes() const override { return shared_bytes_; }

 private:
  std::unique_ptr<CompiledModules> code_;
  DeviceThread thread_;
  unsigned shared_bytes_;
};

// A machine is slow to make and serves one thread at a time: it is taken from those that are idle.
class PtxMachines {
 public:
  std::unique_ptr<PtxMachine> take(DeviceTarget target) {
    const std::lock_guard lock(mutex_);
    auto& idle = idle_[target.compute];
    if (idle.empty()) return std::make_unique<PtxMachine>(target);
    std::unique_ptr<PtxMachine> machine = std::move(idle.back());
    idle.pop_back();
    return machine;
  }
  void give_back(DeviceTarget target, std::unique_ptr<PtxMachine> machine) {
    const std::lock_guard lock(mutex_);
    idle_[target.compute].push_back(std::move(machine));
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<std::unique_ptr<PtxMachine>>> idle_;
};

PtxMachines& machines() {
  static PtxMachines* machines = new PtxMachines;
  return *machines;
}

}  // namespace

std::string device_ir(const std::vector<DeviceSource>& sources) {
  const std::shared_lock lock(inside_llvm());
  const OwnedModule module = emitted(sources, llvm::DataLayout(""), llvm::Triple());
  return text_of(*module.module);
}

// What an exception leaves of LLVM's is neither used again nor taken apart (orc.cpp).
std::string device_ptx(const std::vector<DeviceSource>& sources, DeviceTarget target) {
  const std::shared_lock lock(inside_llvm());
  Jit::instance();   // LLVM's settings for the process
  PtxMachine* const machine = machines().take(target).release();
  const OwnedModule module = emitted(sources, machine->data_layout(), machine->triple());
  lower_to_ptx(*module.module);
  verify(*module.module);
  std::string text = machine->assemble(*module.module);
  machines().give_back(target, std::unique_ptr<PtxMachine>(machine));
  return text;
}

std::unique_ptr<DeviceTwin> device_twin(const DeviceSource& source) {
  const std::shared_lock lock(inside_llvm());
  Jit& jit = Jit::instance();
  std::vector<OwnedModule> modules;
  modules.push_back(emitted({source}, jit.data_layout(), jit.triple()));
  llvm::Module& module = *modules[0].module;
  const auto shared = std::stoul(module.getFunction(source.name)->getFnAttribute(kSharedAttribute).getValueAsString().str());
  lower_to_twin(module);
  verify(module);
  return std::make_unique<Twin>(jit.add(std::move(modules), {source.name}), source.name, static_cast<unsigned>(shared));
}

}  // namespace escapement
