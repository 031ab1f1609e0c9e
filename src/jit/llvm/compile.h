// Loop nests to machine code through LLVM ORC. The only header of this folder that others include; it names nothing of LLVM.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "jit/run/guard_code.h"
#include "jit/run/kernel_code.h"
#include "jit/run/object_code.h"
#include "kernels/loops.h"

namespace escapement {

struct KernelSource {
  const LoopNest* nest;
  Variant variant;
  std::string name;        // symbol name
  const Geometry* sizes = nullptr;  // known while compiling: then LLVM's optimiser runs too
};

// Machine code of a set of kernels. Destroying it frees the code: the owner guarantees that no thread is inside.
class CodeModule {
 public:
  virtual ~CodeModule() = default;
  virtual KernelFunction function(size_t index) const = 0;   // in the order of the sources
};

struct TargetInfo {
  std::string cpu;
  std::string features;
  int vector_bits = 256;
  bool converts_bf16 = false;   // has AVX512-BF16
};

enum class CodeText : uint8_t { ir, optimised, assembly };  // verified LLVM IR as emitted, behind the optimiser; the processor's language

class CodeGenerator {
 public:
  static CodeGenerator& instance();                          // created at first use; thread safe
  virtual ~CodeGenerator() = default;
  virtual std::unique_ptr<CodeModule> compile(const std::vector<KernelSource>& sources) = 0;  // throws InternalError
  // A kernel's code as bytes, added under its key; throws InternalError. And the code of such bytes: null where there are none under the
  // kernel's key, or where they are not those that were made.
  virtual void make_object(const KernelSource& source, ObjectCode& into) = 0;
  virtual std::unique_ptr<CodeModule> link(const KernelSource& source, const ObjectCode& objects) = 0;
  virtual std::string text(const std::vector<KernelSource>& sources, CodeText form) = 0;      // to be looked at; throws InternalError
  virtual const TargetInfo& target() const = 0;
  virtual GuardCode compile_guards(const GuardProgram& program) = 0;                          // throws InternalError
  virtual std::string ir_text(const GuardProgram& program) = 0;
};

GuardCode compile_guards(const GuardProgram& program);       // a GuardCompiler

// Whether a nest has the partial/finish pair.
bool can_split(const LoopNest& nest);
// Whether a nest has the block variant.
bool has_block(const LoopNest& nest);
// Whether a nest has the variant for one column.
bool has_alone(const LoopNest& nest);
// Whether a nest has the strided variant.
bool has_strided(const LoopNest& nest);
// Whether a nest has the tile variant.
bool has_tile(const LoopNest& nest);

}  // namespace escapement
