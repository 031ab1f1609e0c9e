// Mathematical functions of f32 and f64 values in basic operations: straight-line, no tables, no branches, right everywhere
// (zero, denormals, infinities, NaN, huge arguments). Measured errors are in tests/python/operators/test_math_accuracy.py.
#pragma once

#include "trace/scalar_ops.h"

namespace escapement::scalar {

Expr exp(Expr x);
Expr exp2(Expr x);
Expr expm1(Expr x);
Expr log(Expr x);
Expr log2(Expr x);
Expr log10(Expr x);
Expr log1p(Expr x);
Expr sin(Expr x);
Expr cos(Expr x);
Expr tanh(Expr x);
Expr erf(Expr x);
Expr sigmoid(Expr x);
Expr silu(Expr x);                    // x / (1 + exp(-x)), as ATen
Expr normal_distribution(Expr x);     // of f32 to 2^-22 (eager's in gelu: 2^-21.4)
Expr gelu_for_half(Expr x);           // of f32: x times the normal distribution function, to 13 bits, which is what a half type keeps of it and more
Expr pow(Expr x, Expr y);             // floats: C's pow; integers: repeated squaring, negative exponents as ATen
Expr pow_number(Expr x, Expr y, double exponent);  // y = constant `exponent`: ATen's shortcuts for 0.5, 2, 3, -1, ...

}  // namespace escapement::scalar
