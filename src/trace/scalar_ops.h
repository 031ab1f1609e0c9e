// What the scalar expressions of ops.def are made of: values in a scalar program under construction, and functions on them.
// `emit_op` instantiates a row's expression, `pointwise_program` a whole instruction with its conversions.
//
// The formulas follow ATen's vectorised CPU kernels operation by operation, including the two places where those are compiled
// with multiplication and addition contracted (addcmul, tanh_backward) and those that call fmadd (lerp, add with alpha).
#pragma once

#include <span>
#include <vector>

#include "trace/op_rules.h"
#include "trace/scalar.h"

namespace escapement {

// Where a pointwise op computes: `storage` is what its operands promote to, `compute` its compute type.
struct ComputeType {
  DType storage, compute;
};
ComputeType compute_type_of(Op op, OperandTypes operands, const Attrs& attrs);

// Registers already have the type `type.compute`, except the condition of `where`, which has any. `params` holds the registers of
// the symbolic numbers among attrs.value, attrs.value2, in this order and in type `compute`. Returns the value before rounding
// to a half type. A binary op given one operand takes attrs.value as the other, rounded to `storage` where eager does.
// attrs.value2 of add and sub is ATen's alpha. Operands behind
// the row's own are its numbers (numbers.def).
Reg emit_op(ScalarProgram& program, Op op, std::span<const Reg> operands, const Attrs& attrs, ComputeType type,
            std::span<const Reg> params = {});

// A pointwise instruction on its own: inputs 0.. in compute form (half types widened), params in the order above; `result` is
// the register of the result, in compute form and rounded to the result's type.
struct PointwiseProgram {
  ScalarProgram program;
  Reg result = 0;
  std::vector<Dim> params;  // what each param holds
};
PointwiseProgram pointwise_program(Op op, OperandTypes operands, DType result, const Attrs& attrs);

namespace scalar {

struct Expr {
  ScalarProgram* program = nullptr;
  Reg reg = 0;
  DType type() const { return program->type(reg); }
};

// --- basic operations, one node each; floor, ceil, trunc and rint leave integers alone
Expr add(Expr a, Expr b);
Expr sub(Expr a, Expr b);
Expr mul(Expr a, Expr b);
Expr div(Expr a, Expr b);
Expr fma(Expr a, Expr b, Expr c);
Expr sqrt(Expr a);
Expr neg(Expr a);
Expr abs(Expr a);
Expr floor(Expr a);
Expr ceil(Expr a);
Expr trunc(Expr a);
Expr rint(Expr a);
Expr copysign(Expr magnitude, Expr sign);
Expr scale(Expr a, Expr exponent);   // scalar.def says of which numbers
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr ne(Expr a, Expr b);
Expr lt(Expr a, Expr b);
Expr le(Expr a, Expr b);
Expr gt(Expr a, Expr b);
Expr ge(Expr a, Expr b);
Expr is_nan(Expr a);
Expr bit_and(Expr a, Expr b);
Expr bit_or(Expr a, Expr b);
Expr bit_xor(Expr a, Expr b);
Expr bit_not(Expr a);
Expr shl(Expr a, int bits);
Expr shr(Expr a, int bits);
Expr select(Expr condition, Expr yes, Expr no);
Expr cast(Expr a, DType to);
Expr bitcast(Expr a, DType to);
Expr constant(Expr like, double value);  // of the type of `like`
Expr constant_int(Expr like, int64_t value);

inline Expr operator+(Expr a, Expr b) { return add(a, b); }
inline Expr operator-(Expr a, Expr b) { return sub(a, b); }
inline Expr operator*(Expr a, Expr b) { return mul(a, b); }
inline Expr operator/(Expr a, Expr b) { return div(a, b); }
inline Expr operator-(Expr a) { return neg(a); }

// --- derived
Expr truth(Expr a);      // a != 0 as b8
Expr is_inf(Expr a);
Expr is_finite(Expr a);
Expr sign(Expr a);       // sign(NaN) = 0, sign(-0.0) = 0, as in ATen
Expr sign_bit(Expr a);   // of -0, too
Expr is_infinity(Expr a, double which);
Expr fmax(Expr a, Expr b);   // the other one of NaN
Expr fmin(Expr a, Expr b);
Expr shift_left(Expr a, Expr b);    // by bits that there are not: everything goes, as in ATen
Expr shift_right(Expr a, Expr b);
Expr relu(Expr a);       // keeps NaN and -0.0
Expr clamp(Expr a, Expr low, Expr high);  // numbers as bounds: ATen's clamp; NaN in a or a bound gives NaN; high wins over low

}  // namespace scalar
}  // namespace escapement
