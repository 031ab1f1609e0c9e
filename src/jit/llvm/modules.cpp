// See modules.h.
#include "jit/llvm/modules.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <pthread.h>

#include "jit/llvm/llvm_compat.h"
#include "support/error.h"

namespace escapement {

// Any number of threads may be inside at once.
std::shared_mutex& inside_llvm() {
  static std::shared_mutex* mutex = nullptr;
  static const bool made = [] {
    mutex = new std::shared_mutex;
    // The child's thread has another number, so that the lock would not know it for its owner: the child gets a new one.
    pthread_atfork([] { mutex->lock(); }, [] { mutex->unlock(); }, [] { mutex = new std::shared_mutex; });
    return true;
  }();
  static_cast<void>(made);
  return *mutex;
}

OwnedModule new_module(const llvm::DataLayout& layout, const llvm::Triple& triple) {
  OwnedModule result;
  result.context = std::make_unique<llvm::LLVMContext>();
  result.module = std::make_unique<llvm::Module>("escapement", *result.context);
  result.module->setDataLayout(layout);
  set_triple(*result.module, triple);
  return result;
}

void verify(const llvm::Module& module) {
  std::string complaint;
  llvm::raw_string_ostream stream(complaint);
  if (llvm::verifyModule(module, &stream)) throw InternalError("invalid LLVM IR: " + complaint);
}

std::string text_of(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

}  // namespace escapement
