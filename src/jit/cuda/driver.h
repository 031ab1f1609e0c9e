// NVIDIA's driver, opened at run time: nothing is linked, and a machine without one notices nothing. This folder is the only one that knows CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "jit/run/device_launch.h"

namespace escapement::cuda {

// --- the API's types
using Context = struct ContextHandle*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;
using Stream = struct StreamHandle*;
using Address = uint64_t;

struct DriverTable {
#define DRIVER(symbol, parameters) int(*symbol) parameters = nullptr;
#include "jit/cuda/driver.def"
#undef DRIVER
};

inline constexpr int kOldestVersion = 12010;   // of the API: PTX 8.1
inline constexpr int kOldestCompute = 80;      // compute capability that PTX is made for, 10 * major + minor
inline constexpr const char* kDriverName = "libcuda.so.1";

// A call of the driver failed. `ends_device`: nothing can be done on that device any more in this process.
class DeviceError : public DeviceFailure {
 public:
  DeviceError(const std::string& text, int status);
  const int status;
  bool out_of_memory() const { return status == 2; }
  bool ends_device() const;
};

// There is none, or one that is too old: one line with its cause and its remedy.
class NoDriver : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Driver {
 public:
  explicit Driver(const std::string& path = kDriverName);   // throws NoDriver
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  int version() const { return version_; }
  int device_count() const;
  void* find(const char* symbol) const;   // of the library; null: it has none of that name

  // driver.call<&DriverTable::cuInit>(0) throws DeviceError where the function does not succeed; `status` returns what it returns.
  template <auto kFunction, class... Arguments>
  void call(Arguments... arguments) const {
    if (const int status = (table_.*kFunction)(arguments...)) fail(symbol_of<kFunction>(), status);
  }
  template <auto kFunction, class... Arguments>
  int status(Arguments... arguments) const noexcept {
    return (table_.*kFunction)(arguments...);
  }

 private:
  template <auto kA, auto kB>
  static constexpr bool is_same() {
    if constexpr (std::is_same_v<decltype(kA), decltype(kB)>) return kA == kB;
    return false;
  }
  template <auto kFunction>
  static constexpr const char* symbol_of() {
#define DRIVER(symbol, parameters) \
  if (is_same<kFunction, &DriverTable::symbol>()) return #symbol;
#include "jit/cuda/driver.def"
#undef DRIVER
    return "";
  }
  [[noreturn]] void fail(const char* symbol, int status) const;
  void find_functions();
  void check_version();

  std::string path_;
  void* library_ = nullptr;
  DriverTable table_;
  int version_ = 0;
};

}  // namespace escapement::cuda
