// Division with a remainder, of floats and of integers.
//
// fmod is exact. The quotient of two f32 numbers has up to 277 binary digits; each step takes the 48 highest of them off in f64, where a
// multiple of the divisor is subtracted without a rounding (fma): what is left is a multiple of the operands' last places and no
// larger than the step's divisor, so it is a number of f64, and in the end one of f32. A step's quotient may be wrong by one in its
// last digit, which leaves a remainder of the other sign; the next step, and in the end one addition, makes up for that.
#include <algorithm>
#include <cmath>
#include <optional>

#include "trace/scalar_math.h"

namespace escapement::scalar {

namespace {

constexpr int kStep = 48, kRange = 277, kEnd = 128;   // digits of a step, of the largest quotient; an f32 is less than 2^kEnd

std::optional<double> known(Expr e) {
  const ScalarNode& node = e.program->nodes()[e.reg];
  return node.op == ScalarOp::constant ? std::optional(double_from_bits(node.bits, node.type)) : std::nullopt;
}

// A divisor that is written in the program needs fewer.
int steps_for(Expr divisor) {
  const auto number = known(divisor);
  if (!number) return (kRange + kStep - 1) / kStep;
  if (!std::isfinite(*number) || *number == 0) return 1;
  return std::max(1, (kEnd - std::ilogb(*number) + kStep - 1) / kStep);
}

Expr fmod_of_floats(Expr a, Expr b) {
  const int steps = steps_for(b);
  Expr rest = cast(abs(a), DType::f64), size = cast(abs(b), DType::f64), inverse = constant(rest, 1) / size;
  for (int i = steps - 1; i >= 0; --i) {
    Expr by = i == 0 ? size : size * constant(size, std::ldexp(1.0, kStep * i));
    Expr quotient = rint(rest * (i == 0 ? inverse : inverse * constant(size, std::ldexp(1.0, -kStep * i))));
    rest = fma(-quotient, by, rest);
  }
  rest = select(lt(rest, constant(rest, 0)), rest + size, rest);
  return select(lt(abs(a), abs(b)), a, copysign(cast(rest, a.type()), a));   // also where b is infinite
}

// --- integers. Only numbers that are not 0 and not -1 divide; for the rest there are other ways, and by 0 is as by 1.

Expr quotient_of_integers(Expr a, Expr b) {
  Expr zero = constant_int(b, 0), one = constant_int(b, 1), safe = select(eq(b, zero), one, b);
  if (a.type() == DType::u8) return div(a, safe);
  Expr minus_one = constant_int(b, -1);
  return select(eq(b, minus_one), neg(a), div(a, select(eq(b, minus_one), one, safe)));
}

Expr remainder_of_integers(Expr a, Expr b) { return sub(a, mul(quotient_of_integers(a, b), b)); }

// Has the remainder another sign than the divisor, which Python's does not?
Expr wrong_side(Expr rest, Expr b) {
  Expr zero = constant(rest, 0);
  return bit_and(ne(rest, zero), bit_xor(lt(rest, zero), lt(b, zero)));
}

}  // namespace

Expr fmod(Expr a, Expr b) { return is_float(a.type()) ? fmod_of_floats(a, b) : remainder_of_integers(a, b); }

Expr remainder(Expr a, Expr b) {
  Expr rest = fmod(a, b);
  return select(wrong_side(rest, b), rest + b, rest);
}

Expr trunc_divide(Expr a, Expr b) { return is_float(a.type()) ? trunc(a / b) : quotient_of_integers(a, b); }

// Of floats: the dividend less its remainder is a multiple of the divisor but for a rounding, so the quotient is next to an integer.
Expr floor_divide(Expr a, Expr b) {
  if (!is_float(a.type())) {
    Expr quotient = quotient_of_integers(a, b), rest = sub(a, mul(quotient, b));
    return select(wrong_side(rest, b), sub(quotient, constant_int(a, 1)), quotient);
  }
  Expr one = constant(a, 1), zero = constant(a, 0), plain = a / b, rest = fmod(a, b);
  Expr overflows = bit_and(is_inf(plain), bit_not(is_inf(a)));
  Expr whole = select(overflows, a, a - rest) / b;
  whole = select(wrong_side(rest, b), whole - one, whole);
  Expr below = floor(whole);
  Expr nearest = select(gt(whole - below, constant(a, 0.5)), below + one, below);
  return select(eq(b, zero), plain, select(eq(whole, zero), copysign(zero, plain), nearest));
}

}  // namespace escapement::scalar
