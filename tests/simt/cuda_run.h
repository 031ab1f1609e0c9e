// A nest from its text of PTX to its results, through src/jit/cuda and the twin driver: what a caller of the device does, in the order in which it does it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/nest_memory.h"
#include "jit/cuda/launch.h"
#include "jit/llvm/device/device.h"
#include "simt/driver_twin.h"

namespace escapement::testing {

const char* twin_driver_path();
const TwinControl& twin_driver();   // of the library that a Driver on that path opens

// PTX and host twins of every variant of a nest; made once.
struct DeviceCode {
  explicit DeviceCode(const LoopNest& nest, bool with_twins = true);
  const LoopNest& nest;
  std::string ptx;
  std::vector<std::unique_ptr<DeviceTwin>> twins;
  void offer() const;   // to the twin driver
};
std::string kernel_name(DeviceVariant variant);

class DeviceMemory {
 public:
  DeviceMemory(cuda::Device& device, size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept : device_(other.device_), address_(std::exchange(other.address_, 0)) {}
  cuda::Address address() const { return address_; }

 private:
  cuda::Device& device_;
  cuda::Address address_ = 0;
};

class DeviceStream {
 public:
  explicit DeviceStream(cuda::Device& device);
  ~DeviceStream();
  cuda::Stream handle() const { return stream_; }
  void upload(const DeviceMemory& to, const void* from, size_t bytes);
  void download(void* to, const DeviceMemory& from, size_t bytes);
  void wait();

 private:
  cuda::Device& device_;
  cuda::Stream stream_ = nullptr;
};

// Everything from opening the driver to the results in `memory`; the device's limits may be made smaller, so that other teams are taken.
void run_on_device(const DeviceCode& code, const Launch& launch, Memory& memory, unsigned multiprocessors = 4, int ordinal = 0);

}  // namespace escapement::testing
