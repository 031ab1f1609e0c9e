// The process-wide ORC JIT: modules in, addresses out. Code is PIC in the small code model, compiled on one thread per module, linked
// by JITLink into pages that are writable or executable, never both. Each CompiledModules has its own
// dylib and is freed on destruction. Everything here is thread safe.
//
// Seen by orc.cpp and code_generator.cpp only.
#pragma once

#include <llvm/IR/DataLayout.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "jit/llvm/compile.h"

namespace escapement {

struct OwnedModule {
  std::unique_ptr<llvm::LLVMContext> context;  // declared first: it outlives the module
  std::unique_ptr<llvm::Module> module;

  OwnedModule() = default;
  OwnedModule(OwnedModule&&) = default;
  OwnedModule& operator=(OwnedModule&&) = default;
  // An exception may have left LLVM in the middle of a change: what it worked on cannot be taken apart.
  ~OwnedModule() {
    if (std::uncaught_exceptions() == 0) return;
    static_cast<void>(module.release());
    static_cast<void>(context.release());
  }
};

// Names under which kernels find the routines of jit/run/row_block.h.
inline std::string gather_rows_symbol(int64_t element) { return "escapement_gather_rows_" + std::to_string(element); }
inline std::string scatter_rows_symbol(int64_t element) { return "escapement_scatter_rows_" + std::to_string(element); }

class CompiledModules {
 public:
  virtual ~CompiledModules() = default;
  virtual std::vector<void*> addresses(const std::vector<std::string>& names) const = 0;
};

class Jit {
 public:
  static Jit& instance();  // created at first use, never destroyed: code may outlive static destructors
  virtual ~Jit() = default;
  virtual const TargetInfo& target() const = 0;
  virtual const llvm::DataLayout& data_layout() const = 0;
  virtual const llvm::Triple& triple() const = 0;
  // LLVM's O2 pipeline, which calls no library function that the module does not.
  virtual void optimise(llvm::Module& module) = 0;
  // An object file of a module, and what besides the module it depends on, as text; linked objects become code.
  virtual std::string object(llvm::Module& module) = 0;
  virtual std::string settings() const = 0;
  virtual std::string assembly(llvm::Module& module) = 0;  // to be looked at
  virtual std::unique_ptr<CompiledModules> link(const std::string& object, const std::vector<std::string>& names) = 0;
  // Compiles all modules (each on its own thread if there are several) and returns when `names` have addresses.
  virtual std::unique_ptr<CompiledModules> add(std::vector<OwnedModule> modules, const std::vector<std::string>& names) = 0;
};

}  // namespace escapement
