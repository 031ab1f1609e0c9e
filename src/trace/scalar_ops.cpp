// The functions of scalar_ops.h and the instantiation of ops.def's scalar expressions.
#include "trace/scalar_ops.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"
#include "trace/scalar_math.h"

namespace escapement::scalar {

namespace {

Expr node(ScalarOp op, DType type, Expr a, Expr b = {}, Expr c = {}) {
  return {a.program, a.program->emit(op, type, a.reg, b.reg, c.reg)};
}
Expr same(ScalarOp op, Expr a, Expr b = {}, Expr c = {}) { return node(op, a.type(), a, b, c); }
Expr relation(ScalarOp op, Expr a, Expr b = {}) { return node(op, DType::b8, a, b); }
Expr rounding(ScalarOp op, Expr a) { return is_float(a.type()) ? same(op, a) : a; }
Expr boolean(Expr like, bool value) { return {like.program, like.program->constant_int(value, DType::b8)}; }

}  // namespace

Expr add(Expr a, Expr b) { return same(ScalarOp::add, a, b); }
Expr sub(Expr a, Expr b) { return same(ScalarOp::sub, a, b); }
Expr mul(Expr a, Expr b) { return same(ScalarOp::mul, a, b); }
Expr div(Expr a, Expr b) { return same(ScalarOp::div, a, b); }
Expr fma(Expr a, Expr b, Expr c) { return is_float(a.type()) ? same(ScalarOp::fma, a, b, c) : add(mul(a, b), c); }
Expr sqrt(Expr a) { return same(ScalarOp::sqrt, a); }
Expr neg(Expr a) { return same(ScalarOp::neg, a); }
Expr abs(Expr a) { return same(ScalarOp::abs, a); }
Expr floor(Expr a) { return rounding(ScalarOp::floor, a); }
Expr ceil(Expr a) { return rounding(ScalarOp::ceil, a); }
Expr trunc(Expr a) { return rounding(ScalarOp::trunc, a); }
Expr rint(Expr a) { return rounding(ScalarOp::rint, a); }
Expr copysign(Expr magnitude, Expr sign) { return same(ScalarOp::copysign, magnitude, sign); }
Expr scale(Expr a, Expr exponent) { return same(ScalarOp::scale, a, exponent); }
Expr min(Expr a, Expr b) { return same(ScalarOp::min, a, b); }
Expr max(Expr a, Expr b) { return same(ScalarOp::max, a, b); }
Expr eq(Expr a, Expr b) { return relation(ScalarOp::eq, a, b); }
Expr ne(Expr a, Expr b) { return relation(ScalarOp::ne, a, b); }
Expr lt(Expr a, Expr b) { return relation(ScalarOp::lt, a, b); }
Expr le(Expr a, Expr b) { return relation(ScalarOp::le, a, b); }
Expr gt(Expr a, Expr b) { return relation(ScalarOp::gt, a, b); }
Expr ge(Expr a, Expr b) { return relation(ScalarOp::ge, a, b); }
Expr is_nan(Expr a) { return is_float(a.type()) ? relation(ScalarOp::is_nan, a) : boolean(a, false); }
Expr bit_and(Expr a, Expr b) { return same(ScalarOp::bit_and, a, b); }
Expr bit_or(Expr a, Expr b) { return same(ScalarOp::bit_or, a, b); }
Expr bit_xor(Expr a, Expr b) { return same(ScalarOp::bit_xor, a, b); }
Expr bit_not(Expr a) { return same(ScalarOp::bit_not, a); }
Expr shl(Expr a, int bits) { return same(ScalarOp::shl, a, constant_int(a, bits)); }
Expr shr(Expr a, int bits) { return same(ScalarOp::shr, a, constant_int(a, bits)); }
Expr select(Expr condition, Expr yes, Expr no) { return node(ScalarOp::select, yes.type(), condition, yes, no); }
Expr cast(Expr a, DType to) { return {a.program, a.program->cast(a.reg, to)}; }
Expr bitcast(Expr a, DType to) { return node(ScalarOp::bitcast, to, a); }
Expr constant(Expr like, double value) { return {like.program, like.program->constant(value, like.type())}; }
Expr constant_int(Expr like, int64_t value) { return {like.program, like.program->constant_int(value, like.type())}; }

Expr truth(Expr a) { return a.type() == DType::b8 ? a : ne(a, constant(a, 0)); }

Expr is_inf(Expr a) {
  return is_float(a.type()) ? eq(abs(a), constant(a, __builtin_inf())) : boolean(a, false);
}

Expr is_finite(Expr a) {
  return is_float(a.type()) ? lt(abs(a), constant(a, __builtin_inf())) : boolean(a, true);
}

Expr sign(Expr a) {
  if (a.type() == DType::b8) return a;
  Expr zero = constant(a, 0), one = constant(a, 1);
  Expr above = select(gt(a, zero), one, zero);
  return a.type() == DType::u8 ? above : select(lt(a, zero), constant(a, -1), above);
}

Expr sign_bit(Expr a) {
  if (a.type() == DType::b8) return boolean(a, false);
  return lt(is_float(a.type()) ? copysign(constant(a, 1), a) : a, constant(a, 0));
}

Expr is_infinity(Expr a, double which) { return is_float(a.type()) ? eq(a, constant(a, which)) : boolean(a, false); }

Expr fmax(Expr a, Expr b) { return select(bit_or(is_nan(b), ge(a, b)), a, b); }
Expr fmin(Expr a, Expr b) { return select(bit_or(is_nan(b), le(a, b)), a, b); }

namespace {

// 0 <= b <= most, and for all others `most`.
Expr shift_within(Expr b, int64_t most) {
  Expr last = constant_int(b, most);
  return select(bit_and(ge(b, constant_int(b, 0)), le(b, last)), b, last);
}

int64_t bits_of(Expr a) { return 8 * size_of(a.type()); }

}  // namespace

Expr shift_left(Expr a, Expr b) {
  Expr moved = node(ScalarOp::shl, a.type(), a, shift_within(b, bits_of(a) - 1)), zero = constant_int(a, 0);
  return select(bit_and(ge(b, zero), lt(b, constant_int(b, bits_of(a)))), moved, zero);
}

Expr shift_right(Expr a, Expr b) {
  Expr moved = node(ScalarOp::shr, a.type(), a, shift_within(b, bits_of(a) - 1));
  return a.type() == DType::u8 ? select(lt(b, constant_int(b, bits_of(a))), moved, constant_int(a, 0)) : moved;
}

Expr relu(Expr a) {
  Expr zero = constant(a, 0);
  return select(lt(a, zero), zero, a);
}

Expr clamp(Expr a, Expr low, Expr high) { return min(max(a, low), high); }

namespace {

// The numbers of a row's expression, in the op's compute type.
struct Numbers {
  ScalarProgram& program;
  DType type, storage;
  const Attrs& attrs;
  std::span<const Reg> params;
  std::span<const Reg> operands;   // the row's numbers, where they are operands

  Expr operator()(double value) const { return {&program, program.constant(value, type)}; }

  Expr operator()(const Number& number) const {
    if (!operands.empty()) return {&program, operands[&number == &attrs.value ? 0 : 1]};
    switch (number.kind) {
      case Number::Kind::boolean:
      case Number::Kind::integer: return {&program, program.constant_int(number.integer, type)};
      case Number::Kind::real: return {&program, program.constant(number.real, type)};
      case Number::Kind::dim: return {&program, params[&number == &attrs.value || attrs.value.kind != Number::Kind::dim ? 0 : 1]};
      case Number::Kind::none: break;
    }
    throw InternalError("the op needs a number that its attributes lack");
  }

  // In the precision of the operands, as ATen has it of a number that it keeps as one of them.
  Expr rounded(Expr a) const { return {&program, program.round_to(a.reg, storage)}; }

  Expr operator()(const Number& number, double otherwise) const {
    return number.kind == Number::Kind::none && operands.empty() ? (*this)(otherwise) : (*this)(number);
  }

  // attrs.value as second operand. Eager makes a tensor of the promoted type of it, except in mul, div and lerp.
  Expr second_operand(Op op) const {
    Expr number = (*this)(attrs.value);
    return op == Op::mul || op == Op::div || op == Op::lerp ? number : rounded(number);
  }

  // Where ATen rounds between two operations of one half type but not of the other.
  Expr f16(Expr a) const { return storage == DType::f16 ? rounded(a) : a; }
  Expr bf16(Expr a) const { return storage == DType::bf16 ? rounded(a) : a; }
};

// --- formulas that are too long for a row; each in the order of ATen's vectorised kernel

Expr add_scaled(Expr a, Expr b, const Numbers& k) {  // alpha: one rounding, as ATen's fmadd
  return k.attrs.value2.kind == Number::Kind::none ? add(a, b) : fma(b, k(k.attrs.value2), a);
}
Expr sub_scaled(Expr a, Expr b, const Numbers& k) {
  return k.attrs.value2.kind == Number::Kind::none ? sub(a, b) : fma(b, neg(k(k.attrs.value2)), a);
}

// ATen's shortcuts for exponents written as numbers. bf16 rounds every product; f16 takes no roots.
Expr power(Expr a, Expr b, const Numbers& k) {
  const Number& n = k.attrs.value;
  if (n.kind == Number::Kind::none || n.kind == Number::Kind::dim) return pow(a, b);
  double exponent = n.kind == Number::Kind::real ? n.real : static_cast<double>(n.integer);
  bool root = exponent == 0.5 || exponent == -0.5;
  if (root && k.storage == DType::f16) return pow(a, b);
  if (k.storage == DType::bf16 && exponent == 3) return k.bf16(a * a) * a;
  if (k.storage == DType::bf16 && exponent == -2) return k(1) / k.bf16(a * a);
  return pow_number(a, b, exponent);
}

Expr gelu(Expr a) { return a * normal_distribution(a); }

constexpr double kGeluBeta = 0.79788456080286535588;  // sqrt(2/pi)
constexpr double kGeluKappa = 0.044715;

Expr gelu_tanh(Expr a) {
  Expr cube = a * a * a;
  Expr inner = constant(a, kGeluBeta) * fma(constant(a, kGeluKappa), cube, a);
  return constant(a, 0.5) * a * (constant(a, 1) + tanh(inner));
}

Expr elu(Expr a, const Numbers& k) {  // attrs.value = alpha, value2 = scale
  Expr scale = k(k.attrs.value2, 1), alpha = k(k.attrs.value, 1) * scale;
  return select(lt(a, k(0)), expm1(a) * alpha, a * scale);
}

Expr softplus(Expr a, const Numbers& k) {  // attrs.value = beta, value2 = threshold
  Expr beta = k(k.attrs.value, 1), scaled = a * beta;
  return select(gt(scaled, k(k.attrs.value2, 20)), a, log1p(exp(scaled)) / beta);
}

Expr log_sigmoid(Expr a) {
  return min(constant(a, 0), a) - log1p(exp(neg(abs(a))));
}

Expr hardshrink(Expr a, const Numbers& k) {
  Expr bound = k.rounded(k(k.attrs.value));
  return select(bit_and(ge(a, neg(bound)), le(a, bound)), k(0), a);
}

Expr softshrink(Expr a, const Numbers& k) {
  Expr bound = k(k.attrs.value), inside = select(is_nan(a), a, k(0));
  return select(gt(a, bound), a - bound, select(lt(a, neg(bound)), a + bound, inside));
}

Expr round_decimals(Expr a, const Numbers& k) {  // attrs.value = decimals; below zero, those in front of the point
  const double decimals = k.attrs.value.kind == Number::Kind::real ? k.attrs.value.real : static_cast<double>(k.attrs.value.integer);
  Expr power = k(std::pow(10.0, std::abs(decimals)));
  return decimals < 0 ? rint(a / power) * power : rint(a * power) / power;
}

Expr smooth_l1(Expr a, Expr b, const Numbers& k) {  // attrs.value = beta
  Expr beta = k(k.attrs.value), half = k(0.5), distance = abs(a - b);
  return select(ge(distance, beta), distance - half * beta, half * distance * distance / beta);
}

Expr huber(Expr a, Expr b, const Numbers& k) {  // attrs.value = delta
  Expr delta = k(k.attrs.value), half = k(0.5), distance = abs(a - b);
  return select(le(distance, delta), half * distance * distance, delta * (distance - half * delta));
}

// Zero times the logarithm is zero, of which number ever.
Expr times_log(Expr a, Expr b, Expr logarithm, const Numbers& k) {
  return select(is_nan(b), b, select(eq(a, k(0)), k(0), a * k.rounded(logarithm)));
}

Expr entropy(Expr a, const Numbers& k) {
  Expr zero = k(0), below = select(eq(a, zero), zero, k(-__builtin_inf()));
  return select(is_nan(a), a, select(gt(a, zero), neg(a) * k.rounded(log(a)), below));
}

Expr sinc(Expr a, const Numbers& k) {
  Expr angle = k(0x1.921fb54442d18p+1) * a;
  return select(eq(a, k(0)), k(1), sin(angle) / angle);
}

Expr logit(Expr a, const Numbers& k) {  // attrs.value = eps, where there is one
  Expr x = a, one = k(1);
  if (k.attrs.value.kind != Number::Kind::none) {
    Expr low = k.rounded(k(k.attrs.value)), high = k.rounded(one - low);
    x = select(lt(a, low), low, select(gt(a, high), high, a));
  }
  return log(k.rounded(x / k.rounded(one - x)));
}

// The larger one plus log(1 + e^-distance); `tail` is that logarithm.
Expr plus_tail(Expr a, Expr b, Expr tail) {
  return select(bit_and(is_inf(a), eq(a, b)), a, max(a, b) + tail);
}
Expr log_add_exp(Expr a, Expr b) { return plus_tail(a, b, log1p(exp(neg(abs(a - b))))); }
Expr log_add_exp2(Expr a, Expr b) {
  return plus_tail(a, b, log1p(exp2(neg(abs(a - b)))) * constant(a, 0x1.71547652b82fep+0));
}

Expr silu_backward(Expr gradient, Expr a) {
  Expr one = constant(a, 1), s = sigmoid(a);
  return gradient * s * fma(a, one - s, one);
}

Expr gelu_backward(Expr gradient, Expr a) {
  constexpr double kBeta = 0.39894228040143267794;  // 1/sqrt(2 pi)
  Expr density = constant(a, kBeta) * exp(a * a * constant(a, -0.5));
  return gradient * fma(a, density, normal_distribution(a));
}

Expr gelu_tanh_backward(Expr gradient, Expr a) {
  Expr half = constant(a, 0.5), one = constant(a, 1), square = a * a;
  Expr inner = constant(a, kGeluBeta) * fma(constant(a, kGeluKappa), square * a, a);
  Expr t = tanh(inner), left = half * a, right = one + t;
  Expr slope = constant(a, kGeluBeta) * fma(constant(a, 3 * kGeluKappa), square, one);
  return gradient * fma(left * fma(-t, t, one), slope, half * right);
}

Expr lerp(Expr start, Expr end, Expr weight) {
  Expr small = lt(abs(weight), constant(weight, 0.5));
  return fma(select(small, weight, weight - constant(weight, 1)), end - start, select(small, start, end));
}

}  // namespace

static Expr instantiate(Op op, Expr a, Expr b, Expr c, const Attrs& at, const Numbers& k) {
  const Expr _{};
  if (op == Op::gelu && is_half(k.storage)) return gelu_for_half(a);   // the row's value, as far as such a type holds it
  switch (op) {
#define OP(name, kind, arity, rule, domain, tier, aten, scalar) \
  case Op::name: return scalar;
#include "trace/ops.def"
#undef OP
  }
  return _;
}

}  // namespace escapement::scalar

namespace escapement {

ComputeType compute_type_of(Op op, OperandTypes operands, const Attrs& attrs) {
  operands = without_numbers(op, operands);
  bool number_is_operand = info(op).arity == static_cast<int>(operands.size()) + 1;
  bool first_only = info(op).rule == TypeRule::same || info(op).rule == TypeRule::attribute;
  OperandTypes promoted = first_only ? operands.first(1) : op == Op::where ? operands.subspan(1) : operands;
  DType storage = promoted_type(promoted, number_is_operand && !first_only ? attrs.value : Number{});
  if (info(op).rule == TypeRule::promote_float && !is_float(storage)) storage = DType::f32;
  return {storage, compute_type(storage)};
}

Reg emit_op(ScalarProgram& program, Op op, std::span<const Reg> operands, const Attrs& attrs, ComputeType type,
            std::span<const Reg> params) {
  ESCAPEMENT_CHECK(info(op).kind == OpKind::pointwise, "no scalar expression");
  size_t arity = static_cast<size_t>(info(op).arity), own = std::min(arity, operands.size());
  scalar::Numbers numbers{program, type.compute, type.storage, attrs, params, operands.subspan(own)};
  scalar::Expr in[3];
  for (size_t i = 0; i < own; ++i) in[i] = {&program, operands[i]};
  if (operands.size() + 1 == arity) in[arity - 1] = numbers.second_operand(op);
  return scalar::instantiate(op, in[0], in[1], in[2], attrs, numbers).reg;
}

PointwiseProgram pointwise_program(Op op, OperandTypes operands, DType result, const Attrs& attrs) {
  PointwiseProgram made;
  ScalarProgram& program = made.program;
  ComputeType type = compute_type_of(op, operands, attrs);
  std::vector<Reg> in, params;
  for (size_t i = 0; i < operands.size(); ++i) {
    Reg loaded = program.input(static_cast<int>(i), compute_type(operands[i]->dtype), operands[i]->dtype);
    in.push_back(op == Op::where && i == 0 ? loaded : program.cast(loaded, type.compute));
  }
  for (const Number* number : {&attrs.value, &attrs.value2}) {
    if (number->kind != Number::Kind::dim) continue;
    params.push_back(program.param(static_cast<int>(params.size()), type.compute));
    made.params.push_back(number->dim);
  }
  Reg value = emit_op(program, op, in, attrs, type, params);
  made.result = program.round_to(program.cast(value, compute_type(result)), result);
  return made;
}

}  // namespace escapement
