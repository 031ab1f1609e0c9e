// One device: its primary context, which torch uses, too, its limits, and kernels loaded into it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "jit/cuda/driver.h"

namespace escapement::cuda {

struct DeviceLimits {
  int compute = 80;                        // 10 * major + minor
  unsigned multiprocessors = 1;
  unsigned threads = 2048;                 // of a multiprocessor at once
};

class Device {
 public:
  Device(const Driver& driver, int ordinal);   // throws DeviceError
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return driver_; }
  const DeviceLimits& limits() const { return limits_; }
  std::string name() const;

  // Runs `work` with the device's context current. Once a call has ended the device, later ones throw what ended it, and do nothing.
  template <class Work>
  void within(Work work) {
    refuse_if_ended();
    const Current current(*this);
    try {
      work();
    } catch (const DeviceError& error) {
      note(error);
      throw;
    }
  }
  // The same for who gives something back: where that fails nobody can do anything about it.
  template <class Work>
  void attempt(Work work) noexcept {
    try {
      if (!is_ended()) within(work);
    } catch (const DeviceError&) {
    }
  }
  bool is_ended() const { return ended_ != 0; }

 private:
  class Current {
   public:
    explicit Current(const Device& device) : driver_(device.driver_) { driver_.call<&DriverTable::cuCtxPushCurrent_v2>(device.context_); }
    ~Current() {
      Context popped;
      driver_.status<&DriverTable::cuCtxPopCurrent_v2>(&popped);
    }

   private:
    const Driver& driver_;
  };
  void refuse_if_ended() const;
  void note(const DeviceError& error);
  int attribute(int number) const;

  const Driver& driver_;
  int device_ = 0;
  Context context_ = nullptr;
  DeviceLimits limits_;
  std::atomic<int> ended_{0};   // the status that ended it
};

// Kernels of one PTX text.
class LoadedModule {
 public:
  LoadedModule(Device& device, const std::string& ptx);          // throws DeviceError, with what the driver's assembler says
  LoadedModule(Device& device, const std::vector<char>& code);   // of Linker::link
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  Function function(const std::string& name) const;

 private:
  void load(const void* image);

  Device& device_;
  Module module_ = nullptr;
};

}  // namespace escapement::cuda
