// See driver.h.
#include "jit/cuda/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace escapement::cuda {

namespace {

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

// Errors after which the driver answers every call of the context with the same: an illegal address, a failed assertion, a lost device, ...
constexpr std::array<int, 13> kEnding{46, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719};

}  // namespace

DeviceError::DeviceError(const std::string& text, int number) : DeviceFailure(text), status(number) {}

bool DeviceError::ends_device() const { return std::find(kEnding.begin(), kEnding.end(), status) != kEnding.end(); }

Driver::Driver(const std::string& path) : path_(path), library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!library_) throw NoDriver("no CUDA: " + path + " cannot be opened; install NVIDIA's driver, or make its library visible to this process");
  try {
    find_functions();
    check_version();
  } catch (...) {
    dlclose(library_);
    throw;
  }
}

Driver::~Driver() { dlclose(library_); }

void Driver::find_functions() {
  const auto find = [&](const char* symbol) {
    void* found = dlsym(library_, symbol);
    if (!found) throw NoDriver("no CUDA: " + path_ + " has no " + symbol + "; install a driver for CUDA " + version_text(kOldestVersion) + " or later");
    return found;
  };
#define DRIVER(symbol, parameters) table_.symbol = reinterpret_cast<decltype(table_.symbol)>(find(#symbol));
#include "jit/cuda/driver.def"
#undef DRIVER
}

void Driver::check_version() {
  if (const int failed = table_.cuInit(0))
    throw NoDriver("no CUDA: the driver does not start (cuInit gives " + std::to_string(failed) + "); is there a device, and does `nvidia-smi` see it?");
  if (table_.cuDriverGetVersion(&version_) != 0) version_ = 0;
  if (version_ < kOldestVersion)
    throw NoDriver("no CUDA: the driver is one for CUDA " + version_text(version_) + "; install one for CUDA " + version_text(kOldestVersion) + " or later");
}

void* Driver::find(const char* symbol) const { return dlsym(library_, symbol); }

int Driver::device_count() const {
  int count = 0;
  call<&DriverTable::cuDeviceGetCount>(&count);
  return count;
}

void Driver::fail(const char* symbol, int number) const {
  const char* name = nullptr;
  if (table_.cuGetErrorName(number, &name) != 0 || !name) name = "an error without a name";
  throw DeviceError(std::string(symbol) + ": " + name + " (" + std::to_string(number) + ")", number);
}

}  // namespace escapement::cuda
