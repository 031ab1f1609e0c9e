// See known_values.h.
#include "jit/llvm/known_values.h"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Analysis/InstructionSimplify.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <algorithm>

namespace escapement {

namespace {

bool divides(const llvm::BasicBlock& block) {
  return std::any_of(block.begin(), block.end(), [](const llvm::Instruction& i) {
    return i.getOpcode() == llvm::Instruction::FDiv || i.getOpcode() == llvm::Instruction::FRem;
  });
}

}  // namespace

void settle_known_values(llvm::Function& function) {
  if (std::none_of(function.begin(), function.end(), divides)) return;
  const llvm::SimplifyQuery query(function.getParent()->getDataLayout());
  for (llvm::BasicBlock* block : llvm::ReversePostOrderTraversal<llvm::Function*>(&function))
    for (llvm::Instruction& instruction : *block) {
      if (instruction.use_empty()) continue;
      llvm::Value* const known = llvm::simplifyInstruction(&instruction, query);
      if (known != nullptr && llvm::isa<llvm::Constant>(known) && !llvm::isa<llvm::UndefValue>(known)) instruction.replaceAllUsesWith(known);
    }
}

}  // namespace escapement
