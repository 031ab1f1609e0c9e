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
Expr tan(Expr x);
// Of f32, these too (scalar_math_inverse.cpp).
Expr asin(Expr x);
Expr acos(Expr x);
Expr atan(Expr x);
Expr atan2(Expr y, Expr x);
Expr sinh(Expr x);
Expr cosh(Expr x);
Expr asinh(Expr x);
Expr acosh(Expr x);
Expr atanh(Expr x);
Expr erfc(Expr x);
Expr hypot(Expr x, Expr y);
// Division with a remainder (scalar_remainder.cpp). Integers: what is divided by 0 is divided by 1. Floats: fmod is exact for f32.
Expr fmod(Expr a, Expr b);            // with the sign of a
Expr remainder(Expr a, Expr b);       // with the sign of b, as Python's
Expr trunc_divide(Expr a, Expr b);
Expr floor_divide(Expr a, Expr b);
Expr silu(Expr x);                    // x / (1 + exp(-x)), as ATen
Expr normal_distribution(Expr x);     // of f32 to 2^-22 (eager's in gelu: 2^-21.4)
Expr gelu_for_half(Expr x);           // of f32: x times the normal distribution function, to 13 bits, which is what a half type keeps of it and more
Expr pow(Expr x, Expr y);             // floats: C's pow; integers: repeated squaring, negative exponents as ATen
Expr pow_number(Expr x, Expr y, double exponent);  // y = constant `exponent`: ATen's shortcuts for 0.5, 2, 3, -1, ...

}  // namespace escapement::scalar
