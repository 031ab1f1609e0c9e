// See emit_scalar.h.
#include "jit/llvm/emit_scalar.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "support/error.h"

namespace escapement {

namespace {

bool is_unsigned(DType type) { return type == DType::u8 || type == DType::b8; }

// --- arithmetic

// (y before x or y is NaN) ? y : x, in the form that x86 has one instruction for, and a blend.
Value* float_min_max(Ir& ir, llvm::CmpInst::Predicate before, Value* x, Value* y) {
  Value* ordered = ir.b.CreateSelect(ir.b.CreateFCmp(before, y, x), y, x);
  return ir.b.CreateSelect(ir.b.CreateFCmpUNO(y, y), y, ordered);
}

Value* float_op(Ir& ir, const ScalarNode& node, Value* x, Value* y, Value* z) {
  auto unary = [&](llvm::Intrinsic::ID id) { return ir.b.CreateUnaryIntrinsic(id, x); };
  switch (node.op) {
    case ScalarOp::add: return ir.b.CreateFAdd(x, y);
    case ScalarOp::sub: return ir.b.CreateFSub(x, y);
    case ScalarOp::mul: return ir.b.CreateFMul(x, y);
    case ScalarOp::div: return ir.b.CreateFDiv(x, y);
    case ScalarOp::fma: return ir.b.CreateIntrinsic(x->getType(), llvm::Intrinsic::fma, {x, y, z});
    case ScalarOp::sqrt: return unary(llvm::Intrinsic::sqrt);
    case ScalarOp::neg: return ir.b.CreateFNeg(x);
    case ScalarOp::abs: return unary(llvm::Intrinsic::fabs);
    case ScalarOp::floor: return unary(llvm::Intrinsic::floor);
    case ScalarOp::ceil: return unary(llvm::Intrinsic::ceil);
    case ScalarOp::trunc: return unary(llvm::Intrinsic::trunc);
    case ScalarOp::rint: return unary(llvm::Intrinsic::rint);
    case ScalarOp::copysign: return ir.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, y);
    case ScalarOp::min: return float_min_max(ir, llvm::CmpInst::FCMP_OLT, x, y);
    case ScalarOp::max: return float_min_max(ir, llvm::CmpInst::FCMP_OGT, x, y);
    default: return nullptr;
  }
}

Value* integer_compare(Ir& ir, ScalarOp op, DType type, Value* x, Value* y) {
  bool u = is_unsigned(type);
  switch (op) {
    case ScalarOp::eq: return ir.b.CreateICmpEQ(x, y);
    case ScalarOp::ne: return ir.b.CreateICmpNE(x, y);
    case ScalarOp::lt: return u ? ir.b.CreateICmpULT(x, y) : ir.b.CreateICmpSLT(x, y);
    case ScalarOp::le: return u ? ir.b.CreateICmpULE(x, y) : ir.b.CreateICmpSLE(x, y);
    case ScalarOp::gt: return u ? ir.b.CreateICmpUGT(x, y) : ir.b.CreateICmpSGT(x, y);
    case ScalarOp::ge: return u ? ir.b.CreateICmpUGE(x, y) : ir.b.CreateICmpSGE(x, y);
    default: return llvm::ConstantInt::getFalse(llvm::CmpInst::makeCmpResultType(x->getType()));  // is_nan
  }
}

Value* float_compare(Ir& ir, ScalarOp op, Value* x, Value* y) {
  switch (op) {
    case ScalarOp::eq: return ir.b.CreateFCmpOEQ(x, y);
    case ScalarOp::ne: return ir.b.CreateFCmpUNE(x, y);
    case ScalarOp::lt: return ir.b.CreateFCmpOLT(x, y);
    case ScalarOp::le: return ir.b.CreateFCmpOLE(x, y);
    case ScalarOp::gt: return ir.b.CreateFCmpOGT(x, y);
    case ScalarOp::ge: return ir.b.CreateFCmpOGE(x, y);
    default: return ir.b.CreateFCmpUNO(x, x);
  }
}

Value* integer_op(Ir& ir, const ScalarNode& node, Value* x, Value* y) {
  bool u = is_unsigned(node.type);
  switch (node.op) {
    case ScalarOp::add: return ir.b.CreateAdd(x, y);
    case ScalarOp::sub: return ir.b.CreateSub(x, y);
    case ScalarOp::mul: return ir.b.CreateMul(x, y);
    case ScalarOp::div: return u ? ir.b.CreateUDiv(x, y) : ir.b.CreateSDiv(x, y);
    case ScalarOp::neg: return ir.b.CreateNeg(x);
    case ScalarOp::abs: return u ? x : ir.b.CreateSelect(ir.b.CreateICmpSLT(x, llvm::Constant::getNullValue(x->getType())), ir.b.CreateNeg(x), x);
    case ScalarOp::min: return ir.b.CreateSelect(integer_compare(ir, ScalarOp::lt, node.type, x, y), x, y);
    case ScalarOp::max: return ir.b.CreateSelect(integer_compare(ir, ScalarOp::gt, node.type, x, y), x, y);
    case ScalarOp::bit_and: return ir.b.CreateAnd(x, y);
    case ScalarOp::bit_or: return ir.b.CreateOr(x, y);
    case ScalarOp::bit_xor: return ir.b.CreateXor(x, y);
    case ScalarOp::bit_not: return ir.b.CreateNot(x);
    case ScalarOp::shl: return ir.b.CreateShl(x, y);
    case ScalarOp::shr: return u ? ir.b.CreateLShr(x, y) : ir.b.CreateAShr(x, y);
    default: return nullptr;
  }
}

Value* bool_op(Ir& ir, const ScalarNode& node, Value* x, Value* y) {
  switch (node.op) {
    case ScalarOp::add: case ScalarOp::max: case ScalarOp::bit_or: return ir.b.CreateOr(x, y);
    case ScalarOp::mul: case ScalarOp::min: case ScalarOp::bit_and: return ir.b.CreateAnd(x, y);
    case ScalarOp::bit_xor: return ir.b.CreateXor(x, y);
    case ScalarOp::bit_not: return ir.b.CreateNot(x);
    case ScalarOp::abs: return x;
    default: return nullptr;
  }
}

// --- conversion

Value* slice(Ir& ir, Value* vector, unsigned from, unsigned count) {
  std::vector<int> mask(count);
  std::iota(mask.begin(), mask.end(), static_cast<int>(from));
  return ir.b.CreateShuffleVector(vector, mask);
}

Value* concatenate(Ir& ir, Value* low, Value* high, unsigned lanes) {
  std::vector<int> mask(lanes);
  std::iota(mask.begin(), mask.end(), 0);
  return ir.b.CreateShuffleVector(low, high, mask);
}

// The instruction gives INT_MIN for what does not fit: just what is wanted, and LLVM's fptosi does not promise it.
Value* truncate_f32_avx(Ir& ir, Value* x, unsigned lanes) {
  if (lanes == 8) return ir.b.CreateIntrinsic(llvm::Intrinsic::x86_avx_cvtt_ps2dq_256, {}, {x});
  unsigned half = lanes / 2;
  return concatenate(ir, truncate_f32_avx(ir, slice(ir, x, 0, half), half), truncate_f32_avx(ir, slice(ir, x, half, half), half), lanes);
}

Value* truncate(Ir& ir, Value* x, unsigned bits, Lanes lanes) {
  if (bits == 32 && lanes.avx && lanes.count % 8 == 0 && x->getType()->getScalarType()->isFloatTy())
    return truncate_f32_avx(ir, x, lanes.count);
  double bound = std::ldexp(1.0, static_cast<int>(bits) - 1);
  Value* fits = ir.b.CreateAnd(ir.b.CreateFCmpOGE(x, llvm::ConstantFP::get(x->getType(), -bound)),
                               ir.b.CreateFCmpOLT(x, llvm::ConstantFP::get(x->getType(), bound)));
  llvm::Type* wide = ir.vector(ir.b.getIntNTy(bits), lanes.count);
  return ir.b.CreateSelect(fits, ir.b.CreateFPToSI(x, wide), llvm::ConstantInt::get(wide, llvm::APInt::getSignedMinValue(bits)));
}

Value* float_to_integer(Ir& ir, Value* x, DType to, Lanes lanes) {
  unsigned bits = size_of(to) == 8 || is_unsigned(to) ? 64 : 32;
  return ir.b.CreateTrunc(truncate(ir, x, bits, lanes), ir.registers(to, lanes.count));
}

Value* convert(Ir& ir, Value* x, DType from, DType to, Lanes lanes) {
  llvm::Type* type = ir.registers(to, lanes.count);
  if (from == to) return x;
  if (to == DType::b8) {
    Value* zero = llvm::Constant::getNullValue(x->getType());
    return is_float(from) ? ir.b.CreateFCmpUNE(x, zero) : ir.b.CreateICmpNE(x, zero);
  }
  if (is_float(from)) return is_float(to) ? ir.b.CreateFPCast(x, type) : float_to_integer(ir, x, to, lanes);
  if (is_float(to)) return is_unsigned(from) ? ir.b.CreateUIToFP(x, type) : ir.b.CreateSIToFP(x, type);
  return ir.b.CreateIntCast(x, type, !is_unsigned(from));
}

// --- half types

llvm::Type* like(Ir& ir, llvm::Type* element, Value* x) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return ir.vector(element, vector ? vector->getNumElements() : 1);
}

// The f32 pattern, whose upper half is rounded to nearest even. What is below that half is left as it comes out.
Value* bf16_rounded(Ir& ir, Value* x) {
  llvm::Type* i32 = like(ir, ir.b.getInt32Ty(), x);
  auto k = [&](uint64_t value) { return llvm::ConstantInt::get(i32, value); };
  Value* bits = ir.b.CreateBitCast(x, i32);
  Value* odd = ir.b.CreateAnd(ir.b.CreateLShr(bits, k(16)), k(1));
  return ir.b.CreateAdd(ir.b.CreateAdd(bits, k(0x7fff)), odd);
}

// Every NaN becomes 0x7fc0, as in c10::BFloat16.
Value* unless_nan(Ir& ir, Value* x, uint64_t nan, Value* pattern) {
  return ir.b.CreateSelect(ir.b.CreateFCmpUNO(x, x), llvm::ConstantInt::get(pattern->getType(), nan), pattern);
}

Value* bf16_pattern(Ir& ir, Value* x) { return unless_nan(ir, x, 0x7fc0, ir.b.CreateLShr(bf16_rounded(ir, x), 16)); }

constexpr unsigned kConvertedAtOnce = 16;

// By instruction, which rounds to nearest even whatever the thread's mode is, but takes subnormal numbers for zero and keeps a NaN's
// payload. Neither is frequent: a vector that has one is converted again.
Value* bf16_by_instruction(Ir& ir, Value* x, Value*& special) {
  llvm::Type* i16 = ir.vector(ir.b.getInt16Ty(), kConvertedAtOnce);
  constexpr int kQuiet = 0x01, kSubnormal = 0x20, kSignalling = 0x80;
  Value* found = ir.b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_fpclass_ps_512, {}, {x, ir.b.getInt32(kQuiet | kSubnormal | kSignalling)});
  special = special ? ir.b.CreateOr(special, found) : found;
  return ir.b.CreateBitCast(ir.b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {x}), i16);
}

Value* bf16_by_instructions(Ir& ir, Value* x, unsigned lanes, Value*& special) {
  if (lanes == kConvertedAtOnce) return bf16_by_instruction(ir, x, special);
  const unsigned half = lanes / 2;
  Value* low = bf16_by_instructions(ir, slice(ir, x, 0, half), half, special);
  return concatenate(ir, low, bf16_by_instructions(ir, slice(ir, x, half, half), half, special), lanes);
}

Value* narrow_to_bf16(Ir& ir, Value* x, Lanes lanes) {
  const auto emulated = [&] { return ir.b.CreateTrunc(bf16_pattern(ir, x), ir.vector(ir.b.getInt16Ty(), lanes.count)); };
  if (!lanes.bf16 || lanes.count % kConvertedAtOnce != 0) return emulated();
  Value* special = nullptr;
  Var result = ir.var(bf16_by_instructions(ir, x, lanes.count, special), "bf16");
  ir.if_then(ir.any(special, kConvertedAtOnce), [&] { ir.set(result, emulated()); });
  return ir.get(result);
}

Value* bf16_value(Ir& ir, Value* pattern32) {
  Value* shifted = ir.b.CreateShl(pattern32, llvm::ConstantInt::get(pattern32->getType(), 16));
  return ir.b.CreateBitCast(shifted, like(ir, ir.b.getFloatTy(), shifted));
}

Value* round_to(Ir& ir, Value* x, DType type) {
  if (type == DType::bf16) {
    Value* rounded = ir.b.CreateAnd(bf16_rounded(ir, x), 0xffff0000);
    return ir.b.CreateBitCast(unless_nan(ir, x, 0x7fc00000, rounded), x->getType());
  }
  return ir.b.CreateFPExt(ir.b.CreateFPTrunc(x, like(ir, ir.b.getHalfTy(), x)), x->getType());
}

// --- a * 2^n

llvm::Intrinsic::ID scaling_instruction(DType type, unsigned bits) {
  const bool single = type == DType::f32;
  if (bits == 128) return single ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_128 : llvm::Intrinsic::x86_avx512_mask_scalef_pd_128;
  if (bits == 256) return single ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_256 : llvm::Intrinsic::x86_avx512_mask_scalef_pd_256;
  return single ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512 : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512;
}

Value* scale_by_instruction(Ir& ir, DType type, Value* x, Value* n, unsigned lanes) {
  const unsigned bits = lanes * size_of(type) * 8;
  if (bits > 512) {
    const unsigned half = lanes / 2;
    Value* low = scale_by_instruction(ir, type, slice(ir, x, 0, half), slice(ir, n, 0, half), half);
    return concatenate(ir, low, scale_by_instruction(ir, type, slice(ir, x, half, half), slice(ir, n, half, half), half), lanes);
  }
  llvm::SmallVector<Value*, 5> arguments = {x, n, x, llvm::Constant::getAllOnesValue(ir.b.getIntNTy(std::max(lanes, 8u)))};
  constexpr int kCurrentRounding = 4;
  if (bits == 512) arguments.push_back(ir.b.getInt32(kCurrentRounding));
  return ir.b.CreateIntrinsic(scaling_instruction(type, bits), {}, arguments);
}

// 2^n for an n that fits the exponent field: adding `magic` leaves n and the bias in the low bits of the sum.
Value* power_of_two(Ir& ir, DType type, Value* sum) {
  const bool single = type == DType::f32;
  Value* bits = ir.b.CreateBitCast(sum, like(ir, single ? ir.b.getInt32Ty() : ir.b.getInt64Ty(), sum));
  return ir.b.CreateBitCast(ir.b.CreateShl(bits, single ? 23 : 52), sum->getType());
}

// In two steps, of which only the last one rounds.
Value* scale_by_products(Ir& ir, DType type, Value* x, Value* n) {
  Value* magic = llvm::ConstantFP::get(n->getType(), type == DType::f32 ? 0x1.8p23 + 127 : 0x1.8p52 + 1023);
  Value* half = ir.b.CreateIntrinsic(n->getType(), llvm::Intrinsic::fma, {n, llvm::ConstantFP::get(n->getType(), 0.5), magic});
  Value* rest = ir.b.CreateFAdd(ir.b.CreateFSub(n, ir.b.CreateFSub(half, magic)), magic);
  return ir.b.CreateFMul(ir.b.CreateFMul(x, power_of_two(ir, type, half)), power_of_two(ir, type, rest));
}

Value* scale(Ir& ir, DType type, Value* x, Value* n, Lanes lanes) {
  const unsigned bits = lanes.count * size_of(type) * 8;
  if (lanes.wide && lanes.count > 1 && bits % 128 == 0 && (bits & (bits - 1)) == 0) return scale_by_instruction(ir, type, x, n, lanes.count);
  return scale_by_products(ir, type, x, n);
}

Value* emit_typed(Ir& ir, const ScalarNode& node, Value* x, Value* y, Value* z) {
  if (is_float(node.type)) return float_op(ir, node, x, y, z);
  return node.type == DType::b8 ? bool_op(ir, node, x, y) : integer_op(ir, node, x, y);
}

}  // namespace

Value* emit_scalar(Ir& ir, const ScalarNode& node, Value* x, Value* y, Value* z, Lanes lanes) {
  DType operand = static_cast<DType>(node.bits);  // of comparisons and conversions
  switch (node.op) {
    case ScalarOp::constant: return ir.constant(node.type, node.bits, lanes.count);
    case ScalarOp::eq: case ScalarOp::ne: case ScalarOp::lt: case ScalarOp::le: case ScalarOp::gt: case ScalarOp::ge:
    case ScalarOp::is_nan: return is_float(operand) ? float_compare(ir, node.op, x, y) : integer_compare(ir, node.op, operand, x, y);
    case ScalarOp::select: return ir.b.CreateSelect(x, y, z);
    case ScalarOp::convert: return convert(ir, x, operand, node.type, lanes);
    case ScalarOp::bitcast: return ir.b.CreateBitCast(x, ir.registers(node.type, lanes.count));
    case ScalarOp::round_to: return round_to(ir, x, static_cast<DType>(node.bits));
    case ScalarOp::scale: return scale(ir, node.type, x, y, lanes);
    default: break;
  }
  Value* result = emit_typed(ir, node, x, y, z);
  ESCAPEMENT_CHECK(result, std::string(name_of(node.op)) + " has no meaning for this type");
  return result;
}

Value* widen(Ir& ir, DType type, Value* stored, unsigned lanes) {
  if (type == DType::b8) return ir.b.CreateICmpNE(stored, llvm::Constant::getNullValue(stored->getType()));
  if (type == DType::f16)
    return ir.b.CreateFPExt(ir.b.CreateBitCast(stored, ir.vector(ir.b.getHalfTy(), lanes)), ir.registers(type, lanes));
  if (type == DType::bf16) return bf16_value(ir, ir.b.CreateZExt(stored, ir.vector(ir.b.getInt32Ty(), lanes)));
  return stored;
}

// What is only moved, or chosen, keeps its bits, those of a NaN, too; and a half type takes no way through f32 then. `cut`: how what is chosen
// besides is narrowed, if it can be.
static Value* unwidened(Ir& ir, DType type, Value* value, llvm::function_ref<Value*(Value*)> cut) {
  using namespace llvm::PatternMatch;
  Value *x, *y, *condition;
  const bool is_bf16 = type == DType::bf16;
  if (is_bf16 ? match(value, m_BitCast(m_Shl(m_ZExt(m_Value(x)), m_SpecificInt(16)))) : match(value, m_FPExt(m_BitCast(m_Value(x)))))
    return x->getType()->getScalarType()->isIntegerTy(16) ? x : nullptr;
  if (match(value, m_FNeg(m_Value(x)))) {
    Value* bits = unwidened(ir, type, x, cut);
    return bits ? ir.b.CreateXor(bits, 0x8000) : nullptr;
  }
  if (match(value, m_FAbs(m_Value(x)))) {
    Value* bits = unwidened(ir, type, x, cut);
    return bits ? ir.b.CreateAnd(bits, 0x7fff) : nullptr;
  }
  if (match(value, m_Shuffle(m_InsertElt(m_Value(), m_Value(x), m_ZeroInt()), m_Value(), m_ZeroMask()))) {
    Value* element = unwidened(ir, type, x, [](Value*) -> Value* { return nullptr; });
    return element ? ir.splat(element, llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements()) : nullptr;
  }
  if (!match(value, m_Select(m_Value(condition), m_Value(x), m_Value(y)))) return nullptr;
  Value *one = unwidened(ir, type, x, cut), *other = unwidened(ir, type, y, cut);
  if (!one && !other) return nullptr;
  if (!one) one = cut(x);
  if (!other) other = cut(y);
  return one && other ? ir.b.CreateSelect(condition, one, other) : nullptr;
}

static Value* narrow_to_f16(Ir& ir, Value* value, Lanes lanes) {
  return ir.b.CreateBitCast(ir.b.CreateFPTrunc(value, ir.vector(ir.b.getHalfTy(), lanes.count)), ir.vector(ir.b.getInt16Ty(), lanes.count));
}

Value* narrow(Ir& ir, DType type, Value* value, Lanes lanes) {
  if (type == DType::b8) return ir.b.CreateZExt(value, ir.vector(ir.storage_type(type), lanes.count));
  if (!is_half(type)) return value;
  const auto rounded = [&](Value* x) { return type == DType::f16 ? narrow_to_f16(ir, x, lanes) : narrow_to_bf16(ir, x, lanes); };
  Value* const moved = unwidened(ir, type, value, rounded);
  return moved ? moved : rounded(value);
}

Value* narrow_rounded(Ir& ir, DType type, Value* value, Lanes lanes) {
  if (type != DType::bf16) return narrow(ir, type, value, lanes);
  const auto upper_half = [&](Value* x) {
    Value* pattern = ir.b.CreateBitCast(x, ir.vector(ir.b.getInt32Ty(), lanes.count));
    return ir.b.CreateTrunc(ir.b.CreateLShr(pattern, 16), ir.vector(ir.storage_type(type), lanes.count));
  };
  Value* const moved = unwidened(ir, type, value, upper_half);
  return moved ? moved : upper_half(value);
}

Value* from_bits(Ir& ir, DType type, Value* bits) {
  llvm::Type* element = ir.register_type(type);
  Value* cut = ir.b.CreateTrunc(bits, ir.b.getIntNTy(element->getScalarSizeInBits()));
  return ir.b.CreateBitCast(cut, element);
}

Value* to_bits(Ir& ir, DType type, Value* value) {
  llvm::Type* element = ir.register_type(type);
  Value* pattern = ir.b.CreateBitCast(value, ir.b.getIntNTy(element->getScalarSizeInBits()));
  bool extend_sign = is_integer(type) && !is_unsigned(type);
  return extend_sign ? ir.b.CreateSExt(pattern, ir.b.getInt64Ty()) : ir.b.CreateZExt(pattern, ir.b.getInt64Ty());
}

}  // namespace escapement
