// Helpers shared by the scalar_math files; not for others.
#pragma once

#include <span>

#include "trace/scalar_math.h"

namespace escapement::scalar::detail {

Expr clamp_high(Expr x, double bound);  // NaN passes
Expr clamp_low(Expr x, double bound);
Expr polynomial(Expr x, std::span<const float> f32, std::span<const double> f64);  // lowest power first
double rounder(Expr like, int bias);    // adding it rounds to an integer, whose low bits are then n + bias
int exponent_bias(Expr like);
Expr power_of_two(Expr sum);            // 2^(n - exponent bias) for sum = n + rounder

}  // namespace escapement::scalar::detail
