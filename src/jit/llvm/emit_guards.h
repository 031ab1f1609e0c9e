// A guard program as an LLVM function `bool name(int64_t* table)`.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

#include "jit/run/guard_code.h"

namespace escapement {

llvm::Function* emit_guards(llvm::Module& module, const std::string& name, const GuardProgram& program);

}  // namespace escapement
