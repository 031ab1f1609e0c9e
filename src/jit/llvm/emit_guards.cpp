// One block without branches: every expression is computed, what went wrong on the way (an overflow, a division by zero) and what did
// not hold are collected as bits, and the answer is given at the end. Guards hold nearly always, so that leaving early gains nothing.
#include "jit/llvm/emit_guards.h"

#include <llvm/IR/IRBuilder.h>

#include <limits>
#include <unordered_map>

#include "dims/real.h"
#include "jit/run/guard_program.h"
#include "support/error.h"

namespace escapement {
namespace {

using llvm::Value;

class GuardEmitter {
 public:
  GuardEmitter(llvm::Function& function, const GuardProgram& program)
      : b_(llvm::BasicBlock::Create(function.getContext(), "entry", &function)), table_(function.getArg(0)), fine_(b_.getTrue()),
        program_(program) {}

  void emit() {
    for (const auto& [slot, value] : program_.constants()) values_[slot] = i64(value);
    for (const ShapeProgram::Code& code : program_.code()) values_[code.result] = compute(code.op, value(code.a), value(code.b));
    for (const GuardProgram::Test& test : program_.tests()) require(relation(test.kind, value(test.left), value(test.right)));
    for (const Slot slot : program_.kept()) {
      if (values_.contains(slot)) b_.CreateAlignedStore(value(slot), address(slot), llvm::Align(8));
    }
    b_.CreateRet(fine_);
  }

 private:
  Value* i64(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  Value* address(Slot slot) { return b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), table_, slot); }
  void require(Value* condition) { fine_ = b_.CreateAnd(fine_, condition); }

  // What no instruction has computed was written by the caller.
  Value* value(Slot slot) {
    if (const auto known = values_.find(slot); known != values_.end()) return known->second;
    Value*& loaded = loaded_[slot];
    if (loaded == nullptr) loaded = b_.CreateAlignedLoad(b_.getInt64Ty(), address(slot), llvm::Align(8));
    return loaded;
  }

  Value* checked(llvm::Intrinsic::ID operation, Value* a, Value* b) {
    Value* const both = b_.CreateBinaryIntrinsic(operation, a, b);
    require(b_.CreateNot(b_.CreateExtractValue(both, 1)));
    return b_.CreateExtractValue(both, 0);
  }

  // A divisor that the processor would trap on is replaced by 1; whether it makes the answer no is decided apart.
  Value* safe_divisor(Value* b, Value* traps) { return b_.CreateSelect(traps, i64(1), b); }

  // Towards minus infinity.
  Value* floordiv(Value* a, Value* b) {
    Value* const overflows = b_.CreateAnd(b_.CreateICmpEQ(a, i64(INT64_MIN)), b_.CreateICmpEQ(b, i64(-1)));
    Value* const traps = b_.CreateOr(b_.CreateICmpEQ(b, i64(0)), overflows);
    require(b_.CreateNot(traps));
    Value* const divisor = safe_divisor(b, traps);
    Value* const quotient = b_.CreateSDiv(a, divisor);
    Value* const inexact = b_.CreateICmpNE(b_.CreateMul(quotient, divisor), a);
    Value* const negative = b_.CreateICmpSLT(b_.CreateXor(a, divisor), i64(0));
    return b_.CreateSub(quotient, b_.CreateZExt(b_.CreateAnd(inexact, negative), b_.getInt64Ty()));
  }

  // The sign of the divisor; anything modulo -1 is 0.
  Value* mod(Value* a, Value* b) {
    Value* const zero = b_.CreateICmpEQ(b, i64(0));
    require(b_.CreateNot(zero));
    Value* const divisor = safe_divisor(b, b_.CreateOr(zero, b_.CreateICmpEQ(b, i64(-1))));
    Value* const rest = b_.CreateSRem(a, divisor);
    Value* const negative = b_.CreateICmpSLT(b_.CreateXor(rest, divisor), i64(0));
    Value* const adjust = b_.CreateAnd(b_.CreateICmpNE(rest, i64(0)), negative);
    return b_.CreateAdd(rest, b_.CreateSelect(adjust, divisor, i64(0)));
  }

  Value* compute(SizeOp op, Value* a, Value* b) {
    switch (op) {
      case SizeOp::add: return checked(llvm::Intrinsic::sadd_with_overflow, a, b);
      case SizeOp::mul: return checked(llvm::Intrinsic::smul_with_overflow, a, b);
      case SizeOp::floordiv: return floordiv(a, b);
      case SizeOp::mod: return mod(a, b);
      case SizeOp::min: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
      case SizeOp::max: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b);
      default: return compute_real(op, a, b);
    }
  }

  // Floats are held as their bits. What is not finite has no value.
  Value* real(Value* bits) { return b_.CreateBitCast(bits, b_.getDoubleTy()); }
  Value* bits(Value* real) { return b_.CreateBitCast(real, b_.getInt64Ty()); }
  Value* below(Value* real, double bound) {
    return b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, real), llvm::ConstantFP::get(b_.getDoubleTy(), bound));
  }
  Value* finite(Value* real) {
    require(below(real, std::numeric_limits<double>::infinity()));
    return bits(real);
  }
  Value* whole(Value* real) {
    Value* const fits = below(real, kWholeBelow);
    require(fits);
    return b_.CreateFPToSI(b_.CreateSelect(fits, real, llvm::ConstantFP::get(b_.getDoubleTy(), 0)), b_.getInt64Ty());
  }

  Value* compute_real(SizeOp op, Value* a, Value* b) {
    if (op == SizeOp::real) return bits(b_.CreateSIToFP(a, b_.getDoubleTy()));
    Value* const x = real(a);
    Value* const y = is_unary(op) ? nullptr : real(b);
    switch (op) {
      case SizeOp::real_add: return finite(b_.CreateFAdd(x, y));
      case SizeOp::real_mul: return finite(b_.CreateFMul(x, y));
      case SizeOp::real_div: return finite(b_.CreateFDiv(x, y));   // by zero it is not
      case SizeOp::real_sqrt: return finite(b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x));
      case SizeOp::real_min: return b_.CreateSelect(b_.CreateFCmpOLT(y, x), b, a);
      case SizeOp::real_max: return b_.CreateSelect(b_.CreateFCmpOGT(y, x), b, a);
      case SizeOp::real_less: return b_.CreateZExt(b_.CreateFCmpOLT(x, y), b_.getInt64Ty());
      case SizeOp::real_floor: return whole(b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x));
      case SizeOp::real_round: return whole(b_.CreateUnaryIntrinsic(llvm::Intrinsic::rint, x));
      default: break;
    }
    throw InternalError("a guard program has an instruction without an operation");
  }

  Value* relation(Guard::Kind kind, Value* left, Value* right) {
    switch (kind) {
      case Guard::Kind::equal: return b_.CreateICmpEQ(left, right);
      case Guard::Kind::not_equal: return b_.CreateICmpNE(left, right);
      case Guard::Kind::less: return b_.CreateICmpSLT(left, right);
      case Guard::Kind::less_equal: return b_.CreateICmpSLE(left, right);
    }
    throw InternalError("a guard has no relation");
  }

  llvm::IRBuilder<> b_;
  Value* table_;
  Value* fine_;
  const GuardProgram& program_;
  std::unordered_map<Slot, Value*> values_, loaded_;
};

}  // namespace

llvm::Function* emit_guards(llvm::Module& module, const std::string& name, const GuardProgram& program) {
  llvm::LLVMContext& c = module.getContext();
  auto* const type = llvm::FunctionType::get(llvm::Type::getInt1Ty(c), {llvm::PointerType::get(c, 0)}, false);
  auto* const function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addRetAttr(llvm::Attribute::ZExt);
  GuardEmitter(*function, program).emit();
  return function;
}

}  // namespace escapement
