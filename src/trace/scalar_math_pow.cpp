// pow of floats (C's rules) and of integers (ATen's).
//
// f32 goes through f64: 2^(y * log2 |x|), with the logarithm to 2^-48. f64 keeps the logarithm as a sum of two numbers, to 2^-64,
// because y multiplies its error by up to 1024.
#include <cmath>

#include "support/error.h"
#include "trace/scalar_coefficients.h"
#include "trace/scalar_math_detail.h"

namespace escapement::scalar {

namespace {

struct Split {
  Expr m, k;  // m * 2^k with sqrt(1/2) <= m < sqrt(2)
};

// Normal f64 numbers above zero; `offset` is added to k.
Split split(Expr x, Expr offset) {
  constexpr int64_t kRoot = 0x3fe6a09e667f3bcd, kOne = 0x3ff0000000000000;
  Expr bits = bitcast(x, DType::i64);
  Expr moved = add(bits, constant_int(bits, kOne - kRoot));
  Expr m = add(bit_and(moved, constant_int(bits, 0x000fffffffffffff)), constant_int(bits, kRoot));
  Expr field = bitcast(bit_or(shr(moved, 52), constant_int(bits, 0x4330000000000000)), DType::f64);
  return {bitcast(m, DType::f64), field + (offset - constant(x, 0x1p52 + 1023))};
}

// The logarithm's values at 0 (-inf), infinity and NaN (themselves).
Expr log_edges(Expr magnitude, Expr logarithm) {
  Expr infinity = constant(magnitude, __builtin_inf());
  Expr lower = select(eq(magnitude, constant(magnitude, 0)), -infinity, logarithm);
  return select(lt(magnitude, infinity), lower, magnitude);
}

// Sign and exceptions, given |x|^y. An infinite y counts as an even integer.
Expr finish(Expr x, Expr y, Expr magnitude) {
  Expr zero = constant(x, 0), one = constant(x, 1), half = y * constant(y, 0.5);
  Expr integer = eq(y, rint(y)), odd = bit_and(integer, ne(half, rint(half)));
  Expr signed_value = select(odd, copysign(magnitude, x), magnitude);
  Expr finite_negative = bit_and(lt(x, zero), gt(x, constant(x, -__builtin_inf())));
  Expr invalid = bit_and(finite_negative, bit_and(bit_not(integer), bit_not(is_nan(y))));
  Expr value = select(invalid, constant(x, __builtin_nan("")), signed_value);
  return select(bit_or(eq(y, zero), eq(x, one)), one, value);
}

Expr bounded(Expr e, double limit) { return detail::clamp_low(detail::clamp_high(e, limit), -limit); }

// --- f32 by f64

Expr log2_for_single(Expr magnitude) {
  auto [m, k] = split(magnitude, constant(magnitude, 0));
  Expr one = constant(m, 1), s = (m - one) / (m + one);
  return log_edges(magnitude, fma(s, detail::polynomial(s * s, {}, kLog2ForPowF32), k));
}

Expr exp2_for_single(Expr e) {
  Expr magic = constant(e, detail::rounder(e, 1023));
  Expr sum = e + magic, r = e - (sum - magic);
  Expr fraction = fma(detail::polynomial(r, {}, kExp2ForPowF32), r * r, r * constant(e, 0x1.62e42fefa39efp-1));
  Expr scale = detail::power_of_two(sum);
  return fma(fraction, scale, scale);
}

// y is made finite first, so that a logarithm of zero times it is zero.
Expr pow_single(Expr x, Expr y) {
  Expr logarithm = log2_for_single(cast(abs(x), DType::f64));
  Expr exponent = bounded(cast(y, DType::f64), 0x1p128) * logarithm;
  Expr magnitude = cast(exp2_for_single(bounded(exponent, 200)), DType::f32);
  return finish(x, y, magnitude);
}

// --- f64

struct Sum {
  Expr high, low;
};

Sum product(Expr a, Expr b) {
  Expr p = a * b;
  return {p, fma(a, b, -p)};
}

// a * b, each a sum of two numbers; the product of the low parts is below the error.
Sum product(const Sum& a, const Sum& b) {
  Sum p = product(a.high, b.high);
  return {p.high, p.low + fma(a.high, b.low, a.low * b.high)};
}

// a + b for |a| >= |b.high| or a = 0.
Sum add_to(Expr a, const Sum& b) {
  Expr s = a + b.high;
  return {s, ((a - s) + b.high) + b.low};
}

// (m - 1) / (m + 1)
Sum quotient(Expr m) {
  Expr one = constant(m, 1), f = m - one, d = one + m, d_low = (one - d) + m;
  Expr s = f / d;
  Expr rest = fma(-s, d_low, fma(-s, d, f));
  return {s, rest / d};
}

// log(m) = 2 atanh(s) = s * (2 + z * (2/3) + z^2 * tail(z)), z = s^2.
Sum log_of(Expr m) {
  constexpr double kTwoThirds = 0x1.5555555555555p-1, kTwoThirdsLow = 0x1.5555555555555p-55;
  Sum s = quotient(m), z = product(s, s);
  Sum cubic = product(z, {constant(m, kTwoThirds), constant(m, kTwoThirdsLow)});
  cubic.low = fma(z.high * z.high, detail::polynomial(z.high, {}, kLogTailF64), cubic.low);
  return product(s, add_to(constant(m, 2), add_to(cubic.high, {cubic.low, constant(m, 0)})));
}

Sum log2_full(Expr magnitude) {
  Expr tiny = lt(magnitude, constant(magnitude, 0x1p-1022)), zero = constant(magnitude, 0);
  Expr normal = select(tiny, magnitude * constant(magnitude, 0x1p52), magnitude);
  auto [m, k] = split(normal, select(tiny, constant(magnitude, -52), zero));
  Sum log2e{constant(m, 0x1.71547652b82fep+0), constant(m, 0x1.777d0ffda0d24p-56)};
  Sum sum = add_to(k, product(log_of(m), log2e));
  return {log_edges(magnitude, sum.high), sum.low};
}

// 2^(e + low), |e| <= 1100. `low` is up to an ulp of e, far above an ulp of the fraction: it belongs to r.
Expr exp2_full(Expr e, Expr low) {
  Expr n = rint(e), whole = e - n, r = whole + low, ln2 = constant(e, 0x1.62e42fefa39efp-1);
  Expr lost = (whole - r) + low;
  Expr rest = fma(lost, ln2, r * constant(e, 0x1.abc9e3b39803fp-56));
  Expr fraction = fma(r, ln2, fma(detail::polynomial(r, {}, kExp2F64), r * r, rest));
  return scale(constant(fraction, 1) + fraction, n);
}

Expr pow_full(Expr x, Expr y) {
  Sum logarithm = log2_full(abs(x));
  Expr finite = bounded(y, 0x1.fffffffffffffp1023);
  Expr e = finite * logarithm.high;
  Expr low = fma(finite, logarithm.low, fma(finite, logarithm.high, -e));
  Expr usable = lt(abs(e), constant(e, 1100));
  return finish(x, y, exp2_full(bounded(e, 1100), select(usable, low, constant(e, 0))));
}

// --- integers

int value_bits(DType type) { return 8 * static_cast<int>(size_of(type)) - (type == DType::u8 ? 0 : 1); }

// Base and result wrap. A negative exponent gives 1 for 1, +-1 for -1, else 0.
Expr pow_integer(Expr x, Expr y) {
  Expr one = constant_int(x, 1), zero = constant_int(x, 0), result = one, base = x;
  for (int i = 0; i < value_bits(x.type()); ++i) {
    Expr bit = bit_and(i == 0 ? y : shr(y, i), one);
    result = select(ne(bit, zero), mul(result, base), result);
    base = mul(base, base);
  }
  if (x.type() == DType::u8) return result;
  Expr alternating = select(eq(bit_and(y, one), zero), one, constant_int(x, -1));
  Expr reciprocal = select(eq(x, one), one, select(eq(x, constant_int(x, -1)), alternating, zero));
  return select(lt(y, zero), reciprocal, result);
}

Expr pow_known_integer(Expr x, int64_t exponent) {
  Expr result = constant_int(x, 1);
  for (Expr base = x; exponent > 0; exponent /= 2, base = mul(base, base))
    if (exponent & 1) result = mul(result, base);
  return result;
}

}  // namespace

Expr pow(Expr x, Expr y) {
  ESCAPEMENT_CHECK(x.type() != DType::b8, "pow of bool");
  if (!is_float(x.type())) return pow_integer(x, y);
  return x.type() == DType::f32 ? pow_single(x, y) : pow_full(x, y);
}

Expr pow_number(Expr x, Expr y, double exponent) {
  Expr one = constant(x, 1);
  if (exponent == 0) return one;
  if (exponent == 1) return x;
  if (!is_float(x.type()))
    return exponent > 0 && exponent < 64 ? pow_known_integer(x, static_cast<int64_t>(exponent)) : pow(x, y);
  if (exponent == 2) return x * x;
  if (exponent == 3) return x * x * x;
  if (exponent == 0.5) return sqrt(x);
  if (exponent == -0.5) return one / sqrt(x);
  if (exponent == -1) return one / x;
  if (exponent == -2) return one / (x * x);
  return pow(x, y);
}

}  // namespace escapement::scalar
