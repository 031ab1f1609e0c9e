// Device IR for NVIDIA's GPUs, and PTX of it. What the kernel's argument points to is global memory. Nothing is contracted, divided approximately or
// flushed: LLVM writes add.rn, mul.rn, div.rn and sqrt.rn, which the assembler may not fuse either.
#include <llvm/ADT/SmallString.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <map>
#include <mutex>

#include "jit/llvm/device/ptx.h"
#include "jit/llvm/llvm_compat.h"
#include "support/error.h"

extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace escapement {

namespace {

namespace intrinsic = llvm::Intrinsic;

constexpr unsigned kGlobal = 1, kShared = 3;   // address spaces

// --- what a thread asks of its machine

Value* instruction(llvm::IRBuilder<>& b, intrinsic::ID id, std::initializer_list<Value*> arguments) {
  return b.CreateIntrinsic(id, llvm::ArrayRef<llvm::Type*>(), llvm::ArrayRef<Value*>(arguments));
}

Value* barrier(llvm::IRBuilder<>& b) {
#if LLVM_VERSION_MAJOR >= 21
  return instruction(b, intrinsic::nvvm_barrier_cta_sync_aligned_all, {b.getInt32(0)});
#else
  return instruction(b, intrinsic::nvvm_barrier0, {});
#endif
}

// All 32 threads take part; `clamp` is what the instruction wants for stretches of the whole warp.
Value* shuffle(llvm::IRBuilder<>& b, intrinsic::ID id, llvm::CallInst& call) {
  return instruction(b, id, {b.getInt32(0xffffffff), call.getArgOperand(0), call.getArgOperand(1), b.getInt32(kWarp - 1)});
}

Value* shared_memory(llvm::IRBuilder<>& b, llvm::Function& kernel) {
  const std::string name = kernel.getName().str() + "_shared";
  llvm::Module& module = *kernel.getParent();
  llvm::GlobalVariable* memory = module.getNamedGlobal(name);
  if (!memory) {
    auto* type = llvm::ArrayType::get(b.getInt64Ty(), std::stoul(kernel.getFnAttribute(kSharedAttribute).getValueAsString().str()) / 8);
    memory = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage, llvm::PoisonValue::get(type), name, nullptr,
                                      llvm::GlobalValue::NotThreadLocal, kShared);
    memory->setAlignment(llvm::Align(16));
  }
  return b.CreateAddrSpaceCast(memory, b.getPtrTy());
}

// By the name of its row.
struct Lowering {
  llvm::IRBuilder<>& b;
  llvm::CallInst& call;
  llvm::Function& kernel;
  Value* reading(intrinsic::ID id) { return instruction(b, id, {}); }
  Value* thread() { return reading(intrinsic::nvvm_read_ptx_sreg_tid_x); }
  Value* threads() { return reading(intrinsic::nvvm_read_ptx_sreg_ntid_x); }
  Value* block() { return reading(intrinsic::nvvm_read_ptx_sreg_ctaid_x); }
  Value* blocks() { return reading(intrinsic::nvvm_read_ptx_sreg_nctaid_x); }
  Value* barrier() { return escapement::barrier(b); }
  Value* warp_barrier() { return instruction(b, intrinsic::nvvm_bar_warp_sync, {b.getInt32(0xffffffff)}); }
  Value* shuffle_down() { return shuffle(b, intrinsic::nvvm_shfl_sync_down_i32, call); }
  Value* shuffle_from() { return shuffle(b, intrinsic::nvvm_shfl_sync_idx_i32, call); }
  Value* shared() { return shared_memory(b, kernel); }
};

Value* lowered(llvm::StringRef name, Lowering lowering) {
#define DEVICE_INTRINSIC(row, result, parameters, what) \
  if (name == #row) return lowering.row();
#include "jit/llvm/device/intrinsics.def"
#undef DEVICE_INTRINSIC
  throw InternalError("no such device intrinsic");
}

void lower_calls(llvm::Function& kernel) {
  std::vector<llvm::CallInst*> calls;
  for (llvm::Instruction& instruction : llvm::instructions(kernel)) {
    auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    if (call && call->getCalledFunction() && call->getCalledFunction()->getName().starts_with(kIntrinsicPrefix)) calls.push_back(call);
  }
  for (llvm::CallInst* call : calls) {
    llvm::IRBuilder<> b(call);
    const llvm::StringRef name = call->getCalledFunction()->getName().drop_front(std::string_view(kIntrinsicPrefix).size());
    Value* result = lowered(name, {b, *call, kernel});
    if (!call->getType()->isVoidTy()) call->replaceAllUsesWith(result);
    call->eraseFromParent();
  }
}

// --- memory: every address in the argument is one of global memory

void lower_addresses(llvm::Function& kernel) {
  std::vector<llvm::LoadInst*> addresses;
  for (llvm::Instruction& instruction : llvm::instructions(kernel)) {
    auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
    if (load && load->getType()->isPointerTy()) addresses.push_back(load);
  }
  for (llvm::LoadInst* load : addresses) {
    llvm::IRBuilder<> b(load->getNextNode());
    Value* global = b.CreateAddrSpaceCast(load, b.getPtrTy(kGlobal));
    Value* generic = b.CreateAddrSpaceCast(global, b.getPtrTy());
    load->replaceUsesWithIf(generic, [&](llvm::Use& use) { return use.getUser() != global; });
  }
}

// --- machines

void initialise() {
  static const bool done = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  static_cast<void>(done);
}

// The oldest version of PTX that knows the machine.
std::string ptx_version(int compute) { return compute >= 120 ? "+ptx87" : compute >= 100 ? "+ptx86" : "+ptx81"; }

std::unique_ptr<llvm::TargetMachine> make_machine(int compute) {
  initialise();
  const llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string problem;
#if LLVM_VERSION_MAJOR >= 22
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, problem);
#else
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple.str(), problem);
#endif
  if (!target) throw InternalError("LLVM was built without NVPTX: " + problem);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  const std::string cpu = "sm_" + std::to_string(compute);
#if LLVM_VERSION_MAJOR >= 21
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(triple, cpu, ptx_version(compute), options, {}, {}, llvm::CodeGenOptLevel::Default));
#else
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(triple.str(), cpu, ptx_version(compute), options, {}, {}, llvm::CodeGenOptLevel::Default));
#endif
}

}  // namespace

PtxMachine::PtxMachine(DeviceTarget target) : machine_(make_machine(target.compute)) {}
PtxMachine::~PtxMachine() = default;
llvm::DataLayout PtxMachine::data_layout() const { return machine_->createDataLayout(); }
const llvm::Triple& PtxMachine::triple() const { return machine_->getTargetTriple(); }

std::string PtxMachine::assemble(llvm::Module& module) {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine_->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) throw InternalError("LLVM writes no PTX");
  passes.run(module);
  return text.str().str();
}

void lower_to_ptx(llvm::Module& module) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.setCallingConv(llvm::CallingConv::PTX_Kernel);
    lower_addresses(function);
    lower_calls(function);
  }
}

}  // namespace escapement
