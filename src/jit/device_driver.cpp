// See device_driver.h.
#include "jit/device_driver.h"

#include <cstdlib>
#include <map>
#include <memory>

#include "jit/cuda/driver.h"
#include "support/error.h"
#include "support/fork.h"

namespace escapement {

namespace {

using TwinOffer = void (*)(const char* name, void* thread, unsigned shared_bytes, unsigned params, uint64_t written);
constexpr const char* kTwinOffer = "escapement_twin_offer";

struct Found {
  std::unique_ptr<cuda::Device> device;
  std::string why_none;
};

// Never destroyed.
struct Devices {
  ForkTurn turn;   // a device is opened; none survives a fork
  const char* const path = std::getenv("ESCAPEMENT_CUDA_DRIVER");
  std::unique_ptr<cuda::Driver> driver;
  std::string why_no_driver;
  std::map<int, Found> found;
};

Devices& devices() {
  static Devices* const instance = [] {
    auto* made = new Devices;
    try {
      made->driver = std::make_unique<cuda::Driver>(made->path ? made->path : cuda::kDriverName);
    } catch (const cuda::NoDriver& error) {
      made->why_no_driver = error.what();
    }
    return made;
  }();
  return *instance;
}

Found open(const cuda::Driver& driver, int ordinal) {
  try {
    auto device = std::make_unique<cuda::Device>(driver, ordinal);
    if (device->limits().compute < cuda::kOldestCompute)
      return {nullptr, "kernels need compute capability 8.0 or later, and device " + std::to_string(ordinal) + " has less; use a later GPU"};
    return {std::move(device), ""};
  } catch (const cuda::DeviceError& error) {
    return {nullptr, "device " + std::to_string(ordinal) + " cannot be opened (" + error.what() + "); does `nvidia-smi` see it?"};
  }
}

const Found& find(int ordinal) {
  Devices& all = devices();
  const std::lock_guard turn(all.turn);
  const auto known = all.found.find(ordinal);
  if (known != all.found.end()) return known->second;
  return all.found.emplace(ordinal, all.driver ? open(*all.driver, ordinal) : Found{nullptr, all.why_no_driver}).first->second;
}

}  // namespace

const std::string& why_no_device(int ordinal) { return find(ordinal).why_none; }

cuda::Device& device_of(int ordinal) {
  const Found& found = find(ordinal);
  ESCAPEMENT_CHECK(found.device, "a device that nothing can be launched on: " + found.why_none);
  return *found.device;
}

bool driver_is_twin() {
  const Devices& all = devices();
  return all.path != nullptr && (!all.driver || all.driver->find(kTwinOffer) != nullptr);
}

void offer_to_twin(const TwinCode& code) {
  const auto offer = reinterpret_cast<TwinOffer>(devices().driver->find(kTwinOffer));
  offer(code.name, code.thread, code.shared_bytes, code.params, code.written);
}

}  // namespace escapement
