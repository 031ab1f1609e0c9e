// Device IR for the host: a kernel becomes a function of one thread, (machine, words). What the thread asks of its machine goes through the table of
// machine.h, and so does each load and store that is not of the thread's own variables or of its argument.
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/InstIterator.h>

#include "jit/llvm/device/kernel.h"
#include "support/error.h"

namespace escapement {

namespace {

unsigned row_of(llvm::StringRef name) {
  unsigned row = 0;
#define DEVICE_INTRINSIC(intrinsic, result, parameters, what) \
  if (name == #intrinsic) return row;                         \
  ++row;
#include "jit/llvm/device/intrinsics.def"
#undef DEVICE_INTRINSIC
  throw InternalError("no such device intrinsic");
}

constexpr unsigned kAccessRow = 0
#define DEVICE_INTRINSIC(intrinsic, result, parameters, what) +1
#include "jit/llvm/device/intrinsics.def"
#undef DEVICE_INTRINSIC
    ;

// The function, with another signature.
llvm::Function& with_machine(llvm::Function& kernel) {
  llvm::LLVMContext& c = kernel.getContext();
  llvm::Type* pointer = llvm::PointerType::get(c, 0);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(c), {pointer, pointer}, false);
  auto* thread = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "", *kernel.getParent());
  thread->takeName(&kernel);
  thread->addFnAttr(llvm::Attribute::NoUnwind);
  thread->splice(thread->begin(), &kernel);
  kernel.getArg(0)->replaceAllUsesWith(thread->getArg(1));
  kernel.eraseFromParent();
  return *thread;
}

Value* entry_of_table(llvm::IRBuilder<>& b, llvm::Function& thread, unsigned row) {
  llvm::Type* pointer = b.getPtrTy();
  return b.CreateAlignedLoad(pointer, b.CreateConstGEP1_32(pointer, thread.getArg(0), row), llvm::Align(8));
}

void lower_call(llvm::CallInst& call, llvm::Function& thread) {
  const llvm::StringRef name = call.getCalledFunction()->getName().drop_front(std::string_view(kIntrinsicPrefix).size());
  llvm::IRBuilder<> b(&call);
  const std::vector<Value*> arguments(call.arg_begin(), call.arg_end());
  Value* result = b.CreateCall(call.getFunctionType(), entry_of_table(b, thread, row_of(name)), arguments);
  call.replaceAllUsesWith(result);
  call.eraseFromParent();
}

bool is_own(Value* pointer, llvm::Function& thread) {
  const Value* object = llvm::getUnderlyingObject(pointer);
  return llvm::isa<llvm::AllocaInst>(object) || object == thread.getArg(1);
}

void report_access(llvm::Instruction& instruction, Value* pointer, llvm::Type* type, bool is_write, llvm::Function& thread) {
  if (is_own(pointer, thread)) return;
  llvm::IRBuilder<> b(&instruction);
  const uint64_t bytes = thread.getParent()->getDataLayout().getTypeStoreSize(type);
  auto* signature = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty(), b.getInt32Ty()}, false);
  b.CreateCall(signature, entry_of_table(b, thread, kAccessRow), {pointer, b.getInt64(bytes), b.getInt32(is_write)});
}

void lower(llvm::Function& kernel) {
  llvm::Function& thread = with_machine(kernel);
  std::vector<llvm::Instruction*> instructions;
  for (llvm::Instruction& instruction : llvm::instructions(thread)) instructions.push_back(&instruction);
  for (llvm::Instruction* instruction : instructions) {
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(instruction)) report_access(*load, load->getPointerOperand(), load->getType(), false, thread);
    if (auto* store = llvm::dyn_cast<llvm::StoreInst>(instruction))
      report_access(*store, store->getPointerOperand(), store->getValueOperand()->getType(), true, thread);
  }
  for (llvm::Instruction* instruction : instructions) {
    auto* call = llvm::dyn_cast<llvm::CallInst>(instruction);
    if (call && call->getCalledFunction() && call->getCalledFunction()->getName().starts_with(kIntrinsicPrefix)) lower_call(*call, thread);
  }
}

}  // namespace

void lower_to_twin(llvm::Module& module) {
  std::vector<llvm::Function*> kernels;
  for (llvm::Function& function : module)
    if (!function.isDeclaration()) kernels.push_back(&function);
  for (llvm::Function* kernel : kernels) lower(*kernel);
}

}  // namespace escapement
