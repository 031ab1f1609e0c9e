// See device.h.
#include "jit/cuda/device.h"

#include <array>

namespace escapement::cuda {

namespace {

// CUdevice_attribute
constexpr int kMultiprocessors = 16, kThreadsOfMultiprocessor = 39, kComputeMajor = 75, kComputeMinor = 76;
// CUjit_option
constexpr int kErrorLog = 5, kErrorLogBytes = 6;

void* as_value(size_t number) { return reinterpret_cast<void*>(number); }

}  // namespace

Device::Device(const Driver& driver, int ordinal) : driver_(driver) {
  driver_.call<&DriverTable::cuDeviceGet>(&device_, ordinal);
  limits_.compute = 10 * attribute(kComputeMajor) + attribute(kComputeMinor);
  limits_.multiprocessors = static_cast<unsigned>(attribute(kMultiprocessors));
  limits_.threads = static_cast<unsigned>(attribute(kThreadsOfMultiprocessor));
  driver_.call<&DriverTable::cuDevicePrimaryCtxRetain>(&context_, device_);
}

Device::~Device() { driver_.status<&DriverTable::cuDevicePrimaryCtxRelease_v2>(device_); }

std::string Device::name() const {
  std::array<char, 256> text{};
  driver_.call<&DriverTable::cuDeviceGetName>(text.data(), static_cast<int>(text.size()), device_);
  return text.data();
}

int Device::attribute(int number) const {
  int value = 0;
  driver_.call<&DriverTable::cuDeviceGetAttribute>(&value, number, device_);
  return value;
}

void Device::refuse_if_ended() const {
  if (ended_ != 0) throw DeviceError("the device was ended by an earlier error (" + std::to_string(ended_) + "); start a new process", ended_);
}

void Device::note(const DeviceError& error) {
  if (error.ends_device()) ended_ = error.status;
}

LoadedModule::LoadedModule(Device& device, const std::string& ptx) : device_(device) { load(ptx.c_str()); }

LoadedModule::LoadedModule(Device& device, const std::vector<char>& code) : device_(device) { load(code.data()); }

void LoadedModule::load(const void* image) {
  std::array<char, 4096> log{};
  std::array<int, 2> names{kErrorLog, kErrorLogBytes};
  std::array<void*, 2> values{log.data(), as_value(log.size())};
  device_.within([&] {
    try {
      device_.driver().call<&DriverTable::cuModuleLoadDataEx>(&module_, image, 2u, names.data(), values.data());
    } catch (const DeviceError& error) {
      throw DeviceError(std::string(error.what()) + (log[0] ? ": " : "") + log.data(), error.status);
    }
  });
}

LoadedModule::~LoadedModule() {
  device_.attempt([&] { device_.driver().call<&DriverTable::cuModuleUnload>(module_); });
}

Function LoadedModule::function(const std::string& name) const {
  Function found = nullptr;
  device_.within([&] { device_.driver().call<&DriverTable::cuModuleGetFunction>(&found, module_, name.c_str()); });
  return found;
}

}  // namespace escapement::cuda
