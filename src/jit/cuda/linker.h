// nvJitLink, opened at run time where there is one: PTX to a device's code on the threads of our choice, and as bytes that can be kept. It comes with
// CUDA builds of torch. Without it the driver assembles PTX when a module is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace escapement::cuda {

using LinkerHandle = struct LinkerState*;

struct LinkerTable {
#define LINKER(name, parameters) int(*name) parameters = nullptr;
#include "jit/cuda/linker.def"
#undef LINKER
};

class LinkError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Linker {
 public:
  // Null where there is none that has all functions. Empty path: the names under which it is installed.
  static std::unique_ptr<Linker> open(const std::string& path = "");
  ~Linker();
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  // The code of PTX for one compute capability (10 * major + minor), which a module can be loaded from. Throws LinkError, with what the assembler
  // says. Thread safe.
  std::vector<char> link(const std::string& ptx, int compute) const;

 private:
  explicit Linker(void* library) : library_(library) {}
  bool find_functions(const char* version);

  void* library_;
  LinkerTable table_;
};

}  // namespace escapement::cuda
