// What everybody who makes LLVM modules needs. Private to src/jit/llvm.
#pragma once

#include <shared_mutex>
#include <string>

#include "jit/llvm/orc.h"

namespace escapement {

// Held shared by a thread inside of LLVM. A fork waits until there is none: the child would inherit locks whose owners it does not have.
std::shared_mutex& inside_llvm();

OwnedModule new_module(const llvm::DataLayout& layout, const llvm::Triple& triple);
void verify(const llvm::Module& module);   // throws InternalError
std::string text_of(const llvm::Module& module);

}  // namespace escapement
