// See ir.h.
#include "jit/llvm/ir.h"

#include <llvm/IR/Dominators.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include <bit>

#include "support/error.h"

namespace escapement {

Ir::Ir(llvm::Function& function)
    : b(function.getContext()),
      function_(function),
      entry_(llvm::BasicBlock::Create(function.getContext(), "entry", &function)),
      exit_(llvm::BasicBlock::Create(function.getContext(), "exit")) {
  b.SetInsertPoint(block("start"));
}

void Ir::finish() {
  b.CreateBr(exit_);
  exit_->insertInto(&function_);
  b.SetInsertPoint(exit_);
  b.CreateRetVoid();
  llvm::BasicBlock* start = entry_->getNextNode();
  llvm::IRBuilder<>(entry_).CreateBr(start);
  std::erase_if(vars_, [](llvm::AllocaInst* slot) { return !llvm::isAllocaPromotable(slot); });
  llvm::DominatorTree dominators(function_);
  llvm::PromoteMemToReg(vars_, dominators);
}

llvm::BasicBlock* Ir::block(const char* name) { return llvm::BasicBlock::Create(b.getContext(), name, &function_); }

// --- types

llvm::Type* Ir::register_type(DType type) {
  switch (type) {
    case DType::b8: return b.getInt1Ty();
    case DType::u8: case DType::i8: return b.getInt8Ty();
    case DType::i16: return b.getInt16Ty();
    case DType::i32: return b.getInt32Ty();
    case DType::i64: return b.getInt64Ty();
    case DType::f16: case DType::bf16: case DType::f32: return b.getFloatTy();
    case DType::f64: return b.getDoubleTy();
    case DType::other: break;
  }
  throw InternalError("no kernel computes with this dtype");
}

llvm::Type* Ir::storage_type(DType type) {
  if (type == DType::b8) return b.getInt8Ty();
  return is_half(type) ? b.getInt16Ty() : register_type(type);
}

llvm::Type* Ir::vector(llvm::Type* type, unsigned lanes) { return lanes == 1 ? type : llvm::FixedVectorType::get(type, lanes); }

// --- values

Value* Ir::constant(DType type, uint64_t bits, unsigned lanes) {
  llvm::Type* element = register_type(type);
  unsigned width = element->getScalarSizeInBits();
  llvm::APInt pattern = llvm::APInt(64, bits).trunc(width);
  llvm::Constant* scalar = element->isFloatingPointTy()
                               ? static_cast<llvm::Constant*>(llvm::ConstantFP::get(b.getContext(), llvm::APFloat(element->getFltSemantics(), pattern)))
                               : llvm::ConstantInt::get(b.getContext(), pattern);
  return lanes == 1 ? scalar : llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes), scalar);
}

Value* Ir::splat(Value* scalar, unsigned lanes) { return lanes == 1 ? scalar : b.CreateVectorSplat(lanes, scalar); }

Value* Ir::iota(llvm::Type* element, unsigned lanes) {
  if (lanes == 1) return llvm::ConstantInt::get(element, 0);
  std::vector<llvm::Constant*> values;
  for (unsigned i = 0; i < lanes; ++i) values.push_back(llvm::ConstantInt::get(element, i));
  return llvm::ConstantVector::get(values);
}

Value* Ir::at(Value* base, Value* byte_offset) { return b.CreateGEP(b.getInt8Ty(), base, byte_offset); }

Value* Ir::lane(Value* vector, unsigned lane, unsigned lanes) {
  return lanes == 1 ? vector : b.CreateExtractElement(vector, uint64_t{lane});
}

Value* Ir::min(Value* x, Value* y) { return b.CreateSelect(b.CreateICmpSLT(x, y), x, y); }

Value* Ir::any(Value* mask, unsigned lanes) { return lanes == 1 ? mask : b.CreateOrReduce(mask); }

// --- memory of the function

Var Ir::var(llvm::Type* type, const char* name) {
  llvm::AllocaInst* slot = llvm::IRBuilder<>(entry_).CreateAlloca(type, nullptr, name);
  vars_.push_back(slot);
  return {slot};
}

Var Ir::var(Value* initial, const char* name) {
  Var v = var(initial->getType(), name);
  set(v, initial);
  return v;
}

Value* Ir::array(llvm::Type* element, unsigned count, const char* name) {
  llvm::AllocaInst* slot = llvm::IRBuilder<>(entry_).CreateAlloca(llvm::ArrayType::get(element, count), nullptr, name);
  slot->setAlignment(llvm::Align(64));
  return slot;
}

// --- control flow

void Ir::loop(const char* name, Value* begin, Value* end, int64_t step, EmitWith body) {
  llvm::BasicBlock *head = block(name), *done = block("done");
  Var i = var(begin, name);
  b.CreateCondBr(b.CreateICmpSLT(begin, end), head, done);
  b.SetInsertPoint(head);
  body(get(i));
  Value* next = b.CreateAdd(get(i), llvm::ConstantInt::getSigned(begin->getType(), step));
  set(i, next);
  b.CreateCondBr(b.CreateICmpSLT(next, end), head, done);
  b.SetInsertPoint(done);
}

void Ir::while_loop(const char* name, llvm::function_ref<Value*()> condition, Emit body) {
  llvm::BasicBlock *head = block(name), *inside = block("inside"), *done = block("done");
  b.CreateBr(head);
  b.SetInsertPoint(head);
  b.CreateCondBr(condition(), inside, done);
  b.SetInsertPoint(inside);
  body();
  b.CreateBr(head);
  b.SetInsertPoint(done);
}

void Ir::if_then(Value* condition, Emit body) {
  llvm::BasicBlock *then = block("then"), *done = block("done");
  b.CreateCondBr(condition, then, done);
  b.SetInsertPoint(then);
  body();
  b.CreateBr(done);
  b.SetInsertPoint(done);
}

void Ir::if_else(Value* condition, Emit then, Emit otherwise) {
  llvm::BasicBlock *yes = block("then"), *no = block("else"), *done = block("done");
  b.CreateCondBr(condition, yes, no);
  b.SetInsertPoint(yes);
  then();
  b.CreateBr(done);
  b.SetInsertPoint(no);
  otherwise();
  b.CreateBr(done);
  b.SetInsertPoint(done);
}

void Ir::leave_if(Value* condition, Emit before) {
  llvm::BasicBlock *then = block("leave"), *done = block("done");
  b.CreateCondBr(condition, then, done);
  b.SetInsertPoint(then);
  before();
  b.CreateBr(exit_);
  b.SetInsertPoint(done);
}

}  // namespace escapement
