// A thin layer over llvm::IRBuilder: types of values in registers and memory, mutable variables, structured control flow.
//
// Variables are allocas; `finish` turns them into SSA values (mem2reg), so that emitters write loops the way one writes C and
// no other pass of LLVM's middle end is needed. Arrays stay in memory.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "trace/dtype.h"

namespace escapement {

using llvm::Value;
using Emit = llvm::function_ref<void()>;
using EmitWith = llvm::function_ref<void(Value*)>;

struct Var {
  llvm::AllocaInst* slot = nullptr;
};

class Ir {
 public:
  explicit Ir(llvm::Function& function);
  void finish();  // ends the function: ret, mem2reg

  llvm::IRBuilder<> b;

  // --- types; with lanes == 1 a "vector" is the scalar itself
  llvm::Type* register_type(DType type);  // b8 is i1; half types are float
  llvm::Type* storage_type(DType type);   // b8 is i8; half types are i16
  llvm::Type* vector(llvm::Type* type, unsigned lanes);
  llvm::Type* registers(DType type, unsigned lanes) { return vector(register_type(type), lanes); }

  // --- values
  Value* i64(int64_t value) { return b.getInt64(static_cast<uint64_t>(value)); }
  Value* constant(DType type, uint64_t bits, unsigned lanes);   // register form (trace/scalar.h)
  Value* splat(Value* scalar, unsigned lanes);
  Value* iota(llvm::Type* element, unsigned lanes);             // 0, 1, 2, ...
  Value* at(Value* base, Value* byte_offset);                   // base + offset
  Value* lane(Value* vector, unsigned lane, unsigned lanes);
  Value* min(Value* a, Value* b);                               // signed
  Value* any(Value* mask, unsigned lanes);                      // i1
  Value* load_i64(Value* array, Value* index) { return b.CreateAlignedLoad(b.getInt64Ty(), slot_i64(array, index), llvm::Align(8)); }
  Value* slot_i64(Value* array, Value* index) { return b.CreateGEP(b.getInt64Ty(), array, index); }

  // --- memory of the function
  Var var(llvm::Type* type, const char* name);
  Var var(Value* initial, const char* name);
  Value* get(Var v) { return b.CreateLoad(v.slot->getAllocatedType(), v.slot); }
  void set(Var v, Value* value) { b.CreateStore(value, v.slot); }
  Value* array(llvm::Type* element, unsigned count, const char* name);  // on the stack, aligned for vectors

  // --- control flow
  void loop(const char* name, Value* begin, Value* end, int64_t step, EmitWith body);  // for (i = begin; i < end; i += step)
  void while_loop(const char* name, llvm::function_ref<Value*()> condition, Emit body);
  void if_then(Value* condition, Emit body);
  void if_else(Value* condition, Emit then, Emit otherwise);
  void leave_if(Value* condition, Emit before);  // if (condition) { before; return; }

 private:
  llvm::BasicBlock* block(const char* name);

  llvm::Function& function_;
  llvm::BasicBlock* entry_;   // allocas only
  llvm::BasicBlock* exit_;
  std::vector<llvm::AllocaInst*> vars_;
};

}  // namespace escapement
