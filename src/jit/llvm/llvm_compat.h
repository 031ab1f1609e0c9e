// Where LLVM 19 to 22 differ, and nothing else: included instead of the headers it names.
#pragma once

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <string>

namespace escapement {

inline void set_triple(llvm::Module& module, const llvm::Triple& triple) {
#if LLVM_VERSION_MAJOR >= 21
  module.setTargetTriple(triple);
#else
  module.setTargetTriple(triple.str());
#endif
}

}  // namespace escapement

// The parameters of the lambda given to LLJITBuilder::setObjectLinkingLayerCreator.
#if LLVM_VERSION_MAJOR >= 21
#define ESCAPEMENT_LINKING_LAYER_PARAMETERS(session) llvm::orc::ExecutionSession& session
#else
#define ESCAPEMENT_LINKING_LAYER_PARAMETERS(session) llvm::orc::ExecutionSession& session, const llvm::Triple&
#endif
