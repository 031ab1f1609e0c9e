// Exponentials, logarithms, tanh and erf. sin, cos and tan are in scalar_math_trig.cpp, pow in
// scalar_math_pow.cpp, the inverse and hyperbolic functions in scalar_math_inverse.cpp.
//
// Conventions. `select(lt(bound, x), bound, x)` clamps and lets NaN through in one x86 minimum. Integers come out of floats by
// adding 1.5 * 2^23 (2^52): the sum's low bits are the rounded number, so no conversion can overflow. Products that must be exact
// are formed with fma.
#include "trace/scalar_math.h"

#include "trace/scalar_coefficients.h"
#include "trace/scalar_math_detail.h"

namespace escapement::scalar {

namespace detail {

Expr clamp_high(Expr x, double bound) {
  Expr b = constant(x, bound);
  return select(lt(b, x), b, x);
}

Expr clamp_low(Expr x, double bound) {
  Expr b = constant(x, bound);
  return select(gt(b, x), b, x);
}

Expr polynomial(Expr x, std::span<const float> f32, std::span<const double> f64) {
  auto horner = [x](auto coefficients) {
    Expr sum = constant(x, coefficients.back());
    for (size_t i = coefficients.size() - 1; i-- > 0;) sum = fma(sum, x, constant(x, coefficients[i]));
    return sum;
  };
  return x.type() == DType::f32 ? horner(f32) : horner(f64);
}

Expr power_of_two(Expr sum) {
  bool single = sum.type() == DType::f32;
  return bitcast(shl(bitcast(sum, single ? DType::i32 : DType::i64), single ? 23 : 52), sum.type());
}

double rounder(Expr like, int bias) { return (like.type() == DType::f32 ? 0x1.8p23 : 0x1.8p52) + bias; }
int exponent_bias(Expr like) { return like.type() == DType::f32 ? 127 : 1023; }

}  // namespace detail

namespace {

using detail::clamp_high;
using detail::clamp_low;
using detail::exponent_bias;
using detail::polynomial;
using detail::power_of_two;
using detail::rounder;

constexpr double kLn2 = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
constexpr double kLn2Single = 0x1.62e43p-1, kLn2SingleLow = -0x1.05c610ca86c39p-29;
constexpr double kLog2e = 0x1.71547652b82fep+0;

bool is_single(Expr x) { return x.type() == DType::f32; }
Expr pick(Expr x, double single, double full) { return constant(x, is_single(x) ? single : full); }
Expr ln2_high(Expr x) { return pick(x, kLn2Single, kLn2); }
Expr ln2_low(Expr x) { return pick(x, kLn2SingleLow, kLn2Low); }

// exp(x) = (1 + fraction) * 2^n, and `sum` = n + 1.5 * 2^23 + bias.
struct ExpParts {
  Expr fraction, n, sum;
};

struct Reduced {
  Expr r, n, sum;
};
Reduced reduce(Expr x, int bias) {
  Expr magic = constant(x, rounder(x, bias));
  Expr sum = fma(x, constant(x, kLog2e), magic);
  Expr n = sum - magic;
  Expr r = fma(n, -ln2_high(x), x);
  return {fma(n, -ln2_low(x), r), n, sum};
}

ExpParts exp_parts(Expr x, int bias) {
  auto [r, n, sum] = reduce(x, bias);
  return {fma(polynomial(r, kExpF32, kExpF64), r * r, r), n, sum};
}

// (exp(x) + more) * 2^-shift, rounded once, for x whose result and scale are normal numbers.
Expr exp_plus(Expr x, double more, int shift) {
  auto [fraction, n, sum] = exp_parts(x, exponent_bias(x) - shift);
  Expr scale = power_of_two(sum);
  return fma(fraction, scale, more == 0 ? scale : scale + constant(x, more));
}

// 1 + exp(-x), which may be infinite. Half of it is always in range.
Expr one_plus_exp_negative(Expr x) {
  Expr y = is_single(x) ? clamp_low(clamp_high(-x, 88.8), -86.0) : clamp_low(clamp_high(-x, 709.9), -708.0);
  Expr half = exp_plus(y, 0.5, 1);
  return half + half;
}

Expr zero_as_is(Expr x, Expr result) { return select(eq(x, constant(x, 0)), x, result); }

// 1 - 2 / (exp(2|x|) + 1)
Expr tanh_large(Expr magnitude) {
  Expr y = clamp_high(magnitude + magnitude, is_single(magnitude) ? 20 : 44);
  return constant(magnitude, 1) - constant(magnitude, 2) / exp_plus(y, 1, 0);
}

}  // namespace

Expr exp(Expr x) {
  Expr y = is_single(x) ? clamp_low(clamp_high(x, 89), -104.5) : clamp_low(clamp_high(x, 710), -746);
  ExpParts parts = exp_parts(y, 0);
  return scale(constant(x, 1) + parts.fraction, parts.n);
}

Expr exp2(Expr x) {
  Expr y = is_single(x) ? clamp_low(clamp_high(x, 129), -151) : clamp_low(clamp_high(x, 1025), -1076);
  Expr n = rint(y), r = y - n;
  Expr rest = fma(polynomial(r, kExp2F32, kExp2F64), r * r, r * ln2_low(x));
  return scale(constant(x, 1) + fma(r, ln2_high(x), rest), n);
}

// 2 * ((exp(r) - 1) * 2^(n-1) + (2^(n-1) - 1/2)): halves, because 2^n may be out of range where the result is not. A tiny x is
// its own expm1, and halving it could lose a bit.
Expr expm1(Expr x) {
  Expr y = is_single(x) ? clamp_low(clamp_high(x, 89), -20) : clamp_low(clamp_high(x, 710), -40);
  auto [r, n, sum] = reduce(y, exponent_bias(x) - 1);
  Expr scale = power_of_two(sum);
  Expr linear = fma(r, scale, scale - constant(x, 0.5));
  Expr half = fma(polynomial(r, kExpm1F32, kExpm1F64) * (r * r), scale, linear);
  return select(lt(abs(x), pick(x, 0x1p-26, 0x1p-55)), x, half + half);
}

Expr sigmoid(Expr x) { return constant(x, 1) / one_plus_exp_negative(x); }
Expr silu(Expr x) { return x / one_plus_exp_negative(x); }

Expr tanh(Expr x) {
  Expr magnitude = abs(x), square = x * x;
  Expr small = fma(polynomial(square, kTanhF32, kTanhF64) * square, magnitude, magnitude);
  return copysign(select(lt(magnitude, constant(x, 0.75)), small, tanh_large(magnitude)), x);
}

// Above the switch 1 - exp(t * (Q(t) - 1)), with Q fitted to the logarithm of erfc.
Expr erf(Expr x) {
  double limit = is_single(x) ? 0.875 : 1.0;
  Expr magnitude = abs(x);
  Expr small = fma(polynomial(x * x, kErfSmallF32, kErfSmallF64), x, x);
  Expr t = clamp_high(magnitude, is_single(x) ? 3.95 : 5.95);
  Expr exponent = fma(polynomial(t, kErfLargeF32, kErfLargeF64), t, -t);
  Expr large = copysign(constant(x, 1) - exp_plus(exponent, 0, 0), x);
  return select(lt(magnitude, constant(x, limit)), small, large);
}

// Of f32: less a half it is odd, x * P(x^2) / Q(x^2), which at the first clamp is a half.
Expr normal_distribution(Expr x) {
  const Expr half = constant(x, 0.5);
  if (!is_single(x)) return half * (constant(x, 1) + erf(x * constant(x, 0x1.6a09e667f3bcdp-1)));  // sqrt(1/2)
  Expr y = clamp_low(clamp_high(x, kNormalEnd), -kNormalEnd), square = y * y;
  Expr odd = y * polynomial(square, kNormalOverF32, {}) / polynomial(square, kNormalUnderF32, {});
  return clamp_low(odd, -0.5) + half;
}

// max(x, 0) - |x| * p, where p is the distribution function at -|x|: 2^(R(|x|) - x^2/2 * log2(e)), whose logarithm is smooth. Relative to the
// exact value it is as good far out, where the value is small.
Expr gelu_for_half(Expr x) {
  Expr magnitude = abs(x), near = clamp_high(magnitude, kNormalTailEnd);
  Expr y = clamp_low(fma(magnitude * constant(x, -0.5 * kLog2e), magnitude, polynomial(near, kNormalTailF32, {})), -250);
  Expr n = rint(y), r = y - n;
  Expr below = scale(fma(polynomial(r, kExp2ForHalfF32, {}), r, constant(x, 1)), n);
  Expr none = x * constant(x, 0);   // -0, and of -inf no number
  return fma(-near, below, select(lt(x, constant(x, 0)), none, x));
}

// --- logarithms, after FDLIBM: with s = f / (2 + f), log(1 + f) = f - (f*f/2 - s * (f*f/2 + R(s*s))).

namespace {

// x = (1 + f) * 2^k with sqrt(1/2) <= 1 + f < sqrt(2), for finite x > 0.
struct LogParts {
  Expr f, k;
};

// The exponent field as a float: for f64 by putting it below 2^52, as there is no conversion from i64 in AVX2.
Expr exponent_to_float(Expr field, Expr offset) {
  if (offset.type() == DType::f32) return cast(field, DType::f32) + offset;
  return bitcast(bit_or(field, constant_int(field, 0x4330000000000000)), DType::f64) + (offset - constant(offset, 0x1p52));
}

LogParts log_parts(Expr x) {
  bool single = is_single(x);
  DType integer = single ? DType::i32 : DType::i64;
  int digits = single ? 23 : 52, bias = exponent_bias(x);
  int64_t root = single ? 0x3f3504f3 : 0x3fe6a09e667f3bcd, one = int64_t(bias) << digits;
  Expr tiny = lt(x, pick(x, 0x1p-126, 0x1p-1022));
  Expr bits = bitcast(select(tiny, x * pick(x, 0x1p23, 0x1p52), x), integer);
  Expr moved = add(bits, constant_int(bits, one - root));
  Expr mantissa = add(bit_and(moved, constant_int(bits, (int64_t{1} << digits) - 1)), constant_int(bits, root));
  Expr offset = select(tiny, constant(x, -bias - digits), constant(x, -bias));
  return {bitcast(mantissa, x.type()) - constant(x, 1), exponent_to_float(shr(moved, digits), offset)};
}

// half = f*f/2 and tail = s * (half + R).
struct LogSeries {
  Expr half, s, inner;
};
LogSeries log_series(Expr f) {
  Expr half = constant(f, 0.5) * f * f;
  Expr s = f / (constant(f, 2) + f);
  Expr z = s * s;
  return {half, s, fma(polynomial(z, kLogF32, kLogF64), z, half)};
}

// Values at 0 (-inf), below (NaN), infinity and NaN (themselves).
Expr log_edges(Expr x, Expr result, double pole = 0) {
  Expr at = constant(x, pole), nan = constant(x, __builtin_nan("")), infinity = constant(x, __builtin_inf());
  Expr upper = select(lt(x, infinity), result, x);
  return select(gt(x, at), upper, select(eq(x, at), -infinity, nan));
}

// log2 and log10: (k * scale) + log(1 + f) * factor, each factor as a sum of two numbers.
struct Pair {
  Expr high, low;
};
Expr log_scaled(Expr x, Pair scale, Pair factor) {
  auto [f, k] = log_parts(x);
  LogSeries series = log_series(f);
  Expr high = f - series.half;
  Expr low = fma(series.s, series.inner, (f - high) - series.half);
  Expr product = high * factor.high;
  Expr rest = fma(high, factor.high, -product) + fma(low, factor.high, high * factor.low);
  Expr whole = k * scale.high;
  Expr sum = whole + product;
  rest = rest + (fma(k, scale.low, fma(k, scale.high, -whole)) + ((whole - sum) + product));
  return log_edges(x, sum + rest);
}

Pair pair(Expr x, double single, double single_low, double full, double full_low) {
  return {pick(x, single, full), pick(x, single_low, full_low)};
}

}  // namespace

Expr log(Expr x) {
  auto [f, k] = log_parts(x);
  LogSeries series = log_series(f);
  Expr rest = fma(series.s, series.inner, k * ln2_low(x));
  return log_edges(x, fma(k, ln2_high(x), f - (series.half - rest)));
}

// 1 + x rounded to u; what the rounding lost comes back as `lost / u`.
Expr log1p(Expr x) {
  Expr one = constant(x, 1), u = one + x, back = u - one;
  Expr lost = (one - (u - back)) + (x - back);
  auto [f, k] = log_parts(u);
  LogSeries series = log_series(f);
  Expr rest = fma(series.s, series.inner, fma(k, ln2_low(x), lost / u));
  Expr result = fma(k, ln2_high(x), f - (series.half - rest));
  return zero_as_is(x, log_edges(x, result, -1));
}

Expr log2(Expr x) {
  return log_scaled(x, {constant(x, 1), constant(x, 0)},
                    pair(x, 0x1.715476p+0, 0x1.4ae0bf85ddf44p-26, kLog2e, 0x1.777d0ffda0d24p-56));
}

Expr log10(Expr x) {
  return log_scaled(x, pair(x, 0x1.344136p-2, -0x1.ec10c0219dc1ep-27, 0x1.34413509f79ffp-2, -0x1.9dc1da994fd21p-59),
                    pair(x, 0x1.bcb7b2p-2, -0x1.5b235e39ab2a9p-27, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57));
}

}  // namespace escapement::scalar
