// sin, cos and tan, right for every finite argument.
//
// An argument is reduced to a fraction of a turn (f32: of half a turn): x / (2 pi) less the nearest integer. For large x, only
// the digits of 1 / (2 pi) behind those that give whole turns matter, so the digits used are selected by the size of x. f32
// computes in f64 throughout.
#include <algorithm>
#include <array>
#include <cmath>

#include "trace/scalar_coefficients.h"
#include "trace/scalar_math_detail.h"

namespace escapement::scalar {

namespace {

// --- f32

// (-1)^q * sin(pi h), where q + h = x / pi + offset, q whole and |h| <= 0.67: a large product rounds coarsely. |x| < 2^128: a
// window of 106 bits of 1/pi gives h to 2^-57, and to 2^-53 of itself; `offset` is added before any rounding, so that cos is as
// good next to its zeros as sin. A window that skips k bits serves x >= 2^(k+23), where the skipped bits make whole turns.
Expr sin_half_turns(Expr x, Expr magnitude, double offset) {
  auto window = [x](int i, int part) { return constant(x, 2 * kInverseTwoPiWindows[i][part]); };
  Expr high = window(0, 0), low = window(0, 1), more = constant(x, offset);
  for (int i = 1; i < 4; ++i) {
    Expr beyond = ge(magnitude, constant(magnitude, i == 1 ? 0x1p50 : i == 2 ? 0x1p77 : 0x1p104));
    high = select(beyond, window(i, 0), high);
    low = select(beyond, window(i, 1), low);
  }
  Expr q = rint(fma(x, high, more));
  Expr h = fma(x, low, fma(x, high, more - q));
  Expr sine = h * detail::polynomial(h * h, {}, kHalfTurnSinForF32), pairs = q * constant(x, 0.5);
  return select(ne(pairs, rint(pairs)), -sine, sine);
}

Expr sin_single(Expr x, double offset) {
  return cast(sin_half_turns(cast(x, DType::f64), abs(x), offset), DType::f32);
}

// --- f64

struct Sum {
  Expr high, low;
};

Sum two_sum(Expr a, Expr b) {
  Expr s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}

Expr centred(Expr a) { return a - rint(a); }

// The five digits of 1/(2 pi) that matter for x, and x scaled down by the digits skipped: binary steps of 16, 8, 4, 2, 1 digits.
// n digits may be skipped when x is a multiple of 2^(53 n), that is from 2^(53 n + 52) on.
struct Digits {
  Expr x;
  std::array<Expr, 24> digit;
};
Digits select_digits(Expr magnitude) {
  Digits d{magnitude, {}};
  for (size_t i = 0; i < d.digit.size(); ++i) d.digit[i] = constant(magnitude, kInverseTwoPiDigits[i]);
  for (int step = 16, length = 24; step > 0; step /= 2) {
    Expr skip = ge(d.x, constant(magnitude, std::ldexp(1.0, 53 * step + 52 > 1023 ? 1023 : 53 * step + 52)));
    d.x = select(skip, d.x * constant(magnitude, std::ldexp(1.0, -53 * step)), d.x);
    length = std::min(length, step - 1 + 5);
    for (int i = 0; i < length && i + step < 24; ++i) d.digit[i] = select(skip, d.digit[i + step], d.digit[i]);
  }
  return d;
}

// x / (2 pi) less the nearest integer, to 2^-107 of itself. x < 2^105 here: the product with the first digit spills over both
// halves of an exact product, the second's over one. The running sum stays centred, so that a small result loses nothing.
Sum turn_fraction_full(Expr magnitude) {
  Digits d = select_digits(magnitude);
  auto scaled = [&](int i) { return d.digit[i] * constant(magnitude, std::ldexp(1.0, -53 * (i + 1))); };
  auto product = [&](int i) {
    Expr c = scaled(i), p = d.x * c;
    return Sum{p, fma(d.x, c, -p)};
  };
  Sum first = product(0), second = product(1), third = product(2);
  Expr rest = fma(d.x, scaled(3), fma(d.x, scaled(4), third.low));
  Sum total = two_sum(centred(first.high), centred(first.low));
  for (Expr term : {centred(second.high), second.low, third.high, rest}) {
    Sum next = two_sum(centred(total.high), term);
    total = two_sum(next.high, next.low + total.low);
  }
  return {centred(total.high), total.low};
}

// f - j/4 turns as an angle in radians, |angle| <= pi/4, and the quarter j in -2..2.
struct Angle {
  Expr high, low, quarter;
};
Angle to_angle(Sum f) {
  constexpr double kTwoPi = 0x1.921fb54442d18p+2, kTwoPiLow = 0x1.1a62633145c07p-52;
  Expr quarter = rint(f.high * constant(f.high, 4));
  Expr g = fma(quarter, constant(f.high, -0.25), f.high), two_pi = constant(g, kTwoPi);
  Expr high = g * two_pi;
  Expr low = fma(g, two_pi, -high) + fma(g, constant(g, kTwoPiLow), f.low * two_pi);
  return {high, low, quarter};
}

Expr sin_kernel(const Angle& a) {
  Expr z = a.high * a.high;
  Expr correction = fma(z * constant(z, -0.5), a.low, a.low);
  return a.high + fma(z * a.high, detail::polynomial(z, {}, kSinF64), correction);
}

Expr cos_kernel(const Angle& a) {
  Expr z = a.high * a.high, half = z * constant(z, 0.5), one = constant(z, 1);
  Expr w = one - half;
  Expr rest = fma(z * z, detail::polynomial(z, {}, kCosF64), -(a.high * a.low));
  return w + (((one - w) - half) + rest);
}

Expr sin_full(Expr x) {
  Angle a = to_angle(turn_fraction_full(abs(x)));
  Expr one = constant(x, 1), size = abs(a.quarter);
  Expr value = select(eq(size, one), cos_kernel(a), sin_kernel(a));
  Expr negative = bit_or(eq(a.quarter, -one), eq(size, constant(x, 2)));
  Expr flipped = bit_xor(negative, lt(x, constant(x, 0)));
  return select(flipped, -value, value);
}

Expr cos_full(Expr x) {
  Angle a = to_angle(turn_fraction_full(abs(x)));
  Expr one = constant(x, 1), size = abs(a.quarter);
  Expr value = select(eq(size, one), sin_kernel(a), cos_kernel(a));
  Expr negative = bit_or(eq(a.quarter, one), eq(size, constant(x, 2)));
  return select(negative, -value, value);
}

}  // namespace

// A tiny x is its own sine: this keeps the sign of zero and what the exact products would lose below the normal range.
Expr sin(Expr x) {
  bool single = x.type() == DType::f32;
  Expr result = single ? sin_single(x, 0) : sin_full(x);
  return select(lt(abs(x), constant(x, single ? 0x1p-13 : 0x1p-27)), x, result);
}

// Of f32 the quotient is formed in f64.
Expr tan(Expr x) {
  if (x.type() != DType::f32) return sin(x) / cos(x);
  Expr wide = cast(x, DType::f64), size = abs(x);
  Expr value = cast(sin_half_turns(wide, size, 0) / sin_half_turns(wide, size, 0.5), DType::f32);
  return select(lt(size, constant(x, 0x1p-13)), x, value);
}

Expr cos(Expr x) { return x.type() == DType::f32 ? sin_single(x, 0.5) : cos_full(x); }

}  // namespace escapement::scalar
