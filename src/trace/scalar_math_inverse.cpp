// Inverse trigonometric functions, hyperbolic functions and their inverses, erfc and hypot: of f32, by way of f64, where plain formulas
// neither overflow nor lose digits that an f32 shows. (Of f64 they are as good as the formula; the recorder leaves those to ATen.)
#include "trace/scalar_coefficients.h"
#include "trace/scalar_math_detail.h"

namespace escapement::scalar {

namespace {

constexpr double kPi = 0x1.921fb54442d18p+1;

Expr wide(Expr x) { return cast(x, DType::f64); }
Expr narrow(Expr x, Expr like) { return cast(x, like.type()); }
Expr is_negative(Expr x) { return lt(copysign(constant(x, 1), x), constant(x, 0)); }   // -0, too

// The angle whose tangent is y / x, of f64 numbers that are not negative.
Expr angle(Expr y, Expr x) {
  Expr zero = constant(x, 0), one = constant(x, 1), low = min(y, x), high = max(y, x);
  Expr ratio = select(eq(high, zero), zero, select(eq(low, constant(x, __builtin_inf())), one, low / high));
  Expr small = ratio * detail::polynomial(ratio * ratio, {}, kAtanForF32);
  return select(gt(y, x), constant(x, kPi / 2) - small, small);
}

// The root of an f32 in f64: of the f32 root s, what is missing is (x - s^2) / (2s), of which a few digits do.
Expr wide_root(Expr x) {
  Expr s = sqrt(x), rest = fma(-wide(s), wide(s), wide(x)), part = constant(x, 0.5) / s;
  return select(gt(x, constant(x, 0)), wide(s) + rest * wide(part), wide(s));
}

// What asin and acos of 0 <= m are made of: above one half the angle is what twice that of sqrt((1 - m) / 2) leaves of a right one.
struct HalfAngle {
  Expr is_small, arc;   // asin(m) if m is small, else acos(m) / 2
};

HalfAngle half_angle(Expr m) {
  Expr half = constant(m, 0.5), is_small = le(m, half), below = (constant(m, 1) - m) * half;
  Expr root = select(is_small, wide(m), wide_root(below)), square = select(is_small, wide(m) * wide(m), wide(below));
  return {is_small, root * detail::polynomial(square, {}, kAsinForF32)};
}

}  // namespace

Expr atan(Expr x) { return copysign(narrow(angle(wide(abs(x)), constant(wide(x), 1)), x), x); }

Expr atan2(Expr y, Expr x) {
  Expr upper = angle(wide(abs(y)), wide(abs(x)));
  return copysign(narrow(select(is_negative(x), constant(upper, kPi) - upper, upper), x), y);
}

Expr asin(Expr x) {
  const HalfAngle found = half_angle(abs(x));
  Expr above = constant(found.arc, kPi / 2) - found.arc - found.arc;
  return copysign(narrow(select(found.is_small, found.arc, above), x), x);
}

Expr acos(Expr x) {
  const HalfAngle found = half_angle(abs(x));
  Expr right = select(found.is_small, constant(found.arc, kPi / 2) - found.arc, found.arc + found.arc);
  return narrow(select(lt(x, constant(x, 0)), constant(right, kPi) - right, right), x);
}

// --- hyperbolic functions. 100 is beyond what an f32 holds of them.

Expr sinh(Expr x) {
  Expr e = expm1(detail::clamp_high(wide(abs(x)), 100));
  return copysign(narrow(constant(e, 0.5) * (e + e / (e + constant(e, 1))), x), x);
}

Expr cosh(Expr x) {
  Expr e = exp(detail::clamp_high(wide(abs(x)), 100));
  return narrow(constant(e, 0.5) * (e + constant(e, 1) / e), x);
}

Expr asinh(Expr x) {
  Expr m = wide(abs(x)), square = m * m, one = constant(m, 1);
  Expr value = log1p(m + square / (one + sqrt(one + square)));
  return copysign(narrow(select(lt(m, constant(m, __builtin_inf())), value, m), x), x);
}

Expr acosh(Expr x) {
  Expr above = wide(x) - constant(wide(x), 1);
  Expr value = log1p(above + sqrt(above * (above + constant(above, 2))));
  return narrow(select(lt(above, constant(above, 0)), constant(above, __builtin_nan("")), value), x);
}

Expr atanh(Expr x) {
  Expr m = wide(abs(x));
  Expr value = constant(m, 0.5) * log1p((m + m) / (constant(m, 1) - m));
  return copysign(narrow(value, x), x);
}

// --- the rest

// With t = 2 / (2 + |x|), erfc(|x|) is t * exp(P(t) - x^2): the logarithm of what is left is smooth.
Expr erfc(Expr x) {
  Expr m = detail::clamp_high(wide(abs(x)), 10.2), two = constant(m, 2), t = two / (two + m);
  Expr above = t * exp(fma(-m, m, detail::polynomial(t, {}, kErfcForF32)));
  return narrow(select(lt(x, constant(x, 0)), two - above, above), x);
}

Expr hypot(Expr x, Expr y) {
  Expr a = wide(x), b = wide(y), length = sqrt(fma(a, a, b * b));
  Expr value = select(bit_or(is_inf(a), is_inf(b)), constant(a, __builtin_inf()), length);   // even beside NaN
  return narrow(value, x);
}

}  // namespace escapement::scalar
