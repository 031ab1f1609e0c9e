"""Makes src/trace/scalar_coefficients.h: the polynomials of scalar_math.cpp.

Each row of FITS is one polynomial in powers of its variable, best in the weighted maximum norm (Remez exchange on a dense
grid). On one side of zero the coefficients are rounded one by one, lowest power first, and the rest is fitted again to what
remains, so that rounding to the target type costs almost nothing. The error printed behind each row is relative to the function.

Usage: python tools/minimax.py > src/trace/scalar_coefficients.h   (needs mpmath and numpy; half a minute)
"""
import numpy as np
from mpmath import asin, atan, atanh, cos, erf, erfc, exp, log, lu_solve, matrix, mp, mpf, pi, sin, sqrt, tanh

mp.prec = 240


def to_type(value, kind):
    if kind == "f64":
        return mpf(float(value))
    return mpf(float(np.float32(float(value))))


def grid(low, high, count):
    middle, half = (mpf(low) + high) / 2, (mpf(high) - low) / 2
    return [middle - half * cos(pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def solve(points, values, weights, powers):
    n = len(powers) + 1
    system, right = matrix(n, n), matrix(n, 1)
    for row, (x, y, w) in enumerate(zip(points, values, weights)):
        for column, power in enumerate(powers):
            system[row, column] = x**power
        system[row, n - 1] = (-1) ** row / w
        right[row] = y
    return list(lu_solve(system, right))


def extrema(errors, count):
    """Indices of the largest error in each run of one sign; the weakest end is dropped while there are too many."""
    picks = []
    for i, e in enumerate(errors):
        if picks and (errors[picks[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[picks[-1]]):
                picks[-1] = i
        else:
            picks.append(i)
    while len(picks) > count:
        picks.pop(0 if abs(errors[picks[0]]) < abs(errors[picks[-1]]) else -1)
    return picks


def remez(xs, ys, ws, powers):
    n = len(powers)
    picks = [round((len(xs) - 1) * (1 - np.cos(np.pi * i / n)) / 2) for i in range(n + 1)]
    for _ in range(12):
        solution = solve([xs[i] for i in picks], [ys[i] for i in picks], [ws[i] for i in picks], powers)
        coefficients = solution[:-1]
        errors = [w * (y - sum(c * x**p for c, p in zip(coefficients, powers))) for x, y, w in zip(xs, ys, ws)]
        found = extrema(errors, n + 1)
        if len(found) < n + 1 or found == picks:
            break
        picks = found
    return coefficients, max(abs(e) for e in errors)


def fit(function, weight, low, high, count, kind):
    xs = grid(low, high, 12 * count + 60)
    ys, ws = [function(x) for x in xs], [abs(weight(x)) for x in xs]
    if low < 0:  # powers without the constant are no Chebyshev system across zero, so all are rounded at once
        coefficients, _ = remez(xs, ys, ws, list(range(count)))
        result = [to_type(c, kind) for c in coefficients]
        errors = [w * (y - sum(c * x**p for p, c in enumerate(result))) for x, y, w in zip(xs, ys, ws)]
        return result, float(log(max(abs(e) for e in errors), 2))
    result = []
    for done in range(count):
        coefficients, error = remez(xs, ys, ws, list(range(done, count)))
        result.append(to_type(coefficients[0], kind))
        ys = [y - result[-1] * x**done for x, y in zip(xs, ys)]
    return result, float(log(max(abs(w * y) for y, w in zip(ys, ws)), 2))


def fit_ratio(end, over, under):
    """P and Q, of these degrees, with x P(x^2) / Q(x^2) the normal distribution function less a half for x up to `end`: least squares with
    weights that grow where the error is large, until it is the same everywhere (Lawson), in Chebyshev polynomials of x^2."""
    u = np.cos(np.pi * (np.arange(3000) + 0.5) / 3000)
    x = end * np.sqrt((u + 1) / 2)
    wanted = np.array([float(erf(v / sqrt(2)) / 2 / v) for v in x])
    top, bottom = np.polynomial.chebyshev.chebvander(u, over), np.polynomial.chebyshev.chebvander(u, under)[:, 1:]
    weights, ratio_below, best = np.ones(3000), np.ones(3000), (np.inf, None)
    for _ in range(400):
        scale = (x / ratio_below * np.sqrt(weights))[:, None]
        solution = np.linalg.lstsq(np.concatenate([top, -wanted[:, None] * bottom], 1) * scale, wanted * scale[:, 0], rcond=None)[0]
        ratio_below = 1 + bottom @ solution[over + 1 :]
        error = np.abs(top @ solution[: over + 1] / ratio_below - wanted) * x
        best = min(best, (error.max(), solution), key=lambda found: found[0])
        weights *= error / error.max() + 1e-3
        weights /= weights.mean()
    line = np.polynomial.Polynomial([-1, 2 / end**2])   # u of x^2
    powers = [np.polynomial.Polynomial(np.polynomial.chebyshev.cheb2poly(c))(line).coef for c in (best[1][: over + 1], [1, *best[1][over + 1 :]])]
    return [p / powers[1][0] for p in powers], np.log2(best[0])


def on_square(function):
    return lambda z: function(sqrt(z))


LN2 = log(2)
HALF_LN2 = LN2 / 2 + mpf(1) / 1000
LOG_Z = (sqrt(2) - 1) ** 2 / (sqrt(2) + 1) ** 2 * mpf("1.0001")

exp_q = (lambda r: (exp(r) - 1 - r) / r**2, lambda r: r**2 / exp(r))
exp2_q = (lambda r: (exp(r * LN2) - 1 - r * LN2) / r**2, lambda r: r**2)
expm1_q = (exp_q[0], lambda r: r**2 / (exp(r) - 1))
log_r = (on_square(lambda s: (atanh(s) / s - 1) * 2 / s**2), on_square(lambda s: s**3 / (2 * atanh(s))))
log_tail = (on_square(lambda s: (2 * atanh(s) - 2 * s - 2 * s**3 / 3) / s**5), on_square(lambda s: s**5 / (2 * atanh(s))))
log2_all = (on_square(lambda s: 2 * atanh(s) / LN2 / s), on_square(lambda s: s / atanh(s)))
tanh_p = (on_square(lambda x: (tanh(x) / x - 1) / x**2), on_square(lambda x: x**3 / tanh(x)))
erf_p = (on_square(lambda x: erf(x) / x - 1), on_square(lambda x: x / erf(x)))
erf_q = (lambda t: log(erfc(t)) / t + 1, lambda t: t * erfc(t) / erf(t))
normal_tail = (lambda t: (log(erfc(t / sqrt(2)) / 2) + t**2 / 2) / LN2, lambda t: LN2)
erfc_t = (lambda t: log(erfc(2 / t - 2) / t) + (2 / t - 2) ** 2, lambda t: mpf(1))
atan_p = (on_square(lambda x: atan(x) / x), on_square(lambda x: x / atan(x)))
asin_p = (on_square(lambda x: asin(x) / x), on_square(lambda x: x / asin(x)))
exp2_p = (lambda r: (exp(r * LN2) - 1) / r, lambda r: r / exp(r * LN2))
half_turn_sin = (on_square(lambda h: sin(pi * h) / h), on_square(lambda h: h / sin(pi * h)))
sin_p = (on_square(lambda x: (sin(x) / x - 1) / x**2), on_square(lambda x: x**3 / sin(x)))
cos_p = (on_square(lambda x: (cos(x) - 1 + x**2 / 2) / x**4), on_square(lambda x: x**4 / cos(x)))
TINY = mpf(10) ** -12
NORMAL_TAIL_END = 5.65   # beyond it the function is less than 1e-8
NORMAL_END = 5.55   # where x P / Q of the rounded coefficients is a half in f32

FITS = [
    # name, (function, weight), low, high, number of coefficients, type
    ("kExpF32", exp_q, -HALF_LN2, HALF_LN2, 5, "f32"),
    ("kExpF64", exp_q, -HALF_LN2, HALF_LN2, 10, "f64"),
    ("kExpm1F32", expm1_q, -HALF_LN2, HALF_LN2, 6, "f32"),
    ("kExpm1F64", expm1_q, -HALF_LN2, HALF_LN2, 11, "f64"),
    ("kExp2F32", exp2_q, mpf(-0.5), mpf(0.5), 5, "f32"),
    ("kExp2F64", exp2_q, mpf(-0.5), mpf(0.5), 10, "f64"),
    ("kExp2ForPowF32", exp2_q, mpf(-0.5), mpf(0.5), 6, "f64"),
    ("kLogF32", log_r, TINY, LOG_Z, 4, "f32"),
    ("kLogF64", log_r, TINY, LOG_Z, 7, "f64"),
    ("kLog2ForPowF32", log2_all, TINY, LOG_Z, 7, "f64"),
    ("kLogTailF64", log_tail, TINY, LOG_Z, 9, "f64"),
    ("kTanhF32", tanh_p, TINY, mpf("0.751") ** 2, 6, "f32"),
    ("kTanhF64", tanh_p, TINY, mpf("0.751") ** 2, 13, "f64"),
    ("kErfSmallF32", erf_p, TINY, mpf("0.876") ** 2, 6, "f32"),
    ("kErfSmallF64", erf_p, TINY, mpf("1.001") ** 2, 13, "f64"),
    ("kErfLargeF32", erf_q, mpf("0.874"), mpf("3.95"), 7, "f32"),
    ("kErfLargeF64", erf_q, mpf("0.999"), mpf("5.95"), 20, "f64"),
    ("kNormalTailF32", normal_tail, mpf(0), mpf(str(NORMAL_TAIL_END)), 7, "f32"),
    ("kErfcForF32", erfc_t, 2 / mpf("12.2"), mpf(1), 13, "f64"),
    ("kAtanForF32", atan_p, TINY, mpf(1), 11, "f64"),
    ("kAsinForF32", asin_p, TINY, mpf("0.2501"), 7, "f64"),
    ("kExp2ForHalfF32", exp2_p, mpf(-0.5), mpf(0.5), 4, "f32"),
    ("kHalfTurnSinForF32", half_turn_sin, TINY, mpf("0.67") ** 2, 6, "f64"),
    ("kSinF64", sin_p, TINY, (pi / 4 * mpf("1.001")) ** 2, 6, "f64"),
    ("kCosF64", cos_p, TINY, (pi / 4 * mpf("1.001")) ** 2, 6, "f64"),
]


def inverse_two_pi_digits(count):
    """1/(2 pi) in base 2^53, most significant digit first."""
    with mp.workprec(53 * (count + 4)):
        rest, digits = 1 / (2 * pi), []
        for _ in range(count):
            rest *= mpf(2) ** 53
            digits.append(int(rest))
            rest -= digits[-1]
    return digits


def inverse_two_pi_window(skip):
    """The bits of 1/(2 pi) below 2^-skip as a pair of f64: what is left of x/(2 pi) when x is a multiple of 2^skip."""
    with mp.workprec(600):
        scaled = mpf(2) ** skip / (2 * pi)
        rest = (scaled - int(scaled)) / mpf(2) ** skip
        high = float(rest)
        return high, float(rest - mpf(high))


def literal(value, kind):
    return float(value).hex() + ("f" if kind == "f32" else "")


def main():
    print("// Made by tools/minimax.py; do not edit. Polynomial coefficients of scalar_math.cpp, lowest power first. The comment is the")
    print("// largest relative error of the polynomial in the function it serves, before rounding of the arithmetic.")
    print("#pragma once\n\nnamespace escapement::scalar {\n")
    for name, (function, weight), low, high, count, kind in FITS:
        coefficients, bits = fit(function, weight, low, high, count, kind)
        ctype = "float" if kind == "f32" else "double"
        print(f"inline constexpr {ctype} {name}[] = {{  // 2^{bits:.1f}")
        texts = [literal(c, kind) for c in coefficients]
        for i in range(0, len(texts), 4):
            print("    " + ", ".join(texts[i : i + 4]) + ",")
        print("};")
    print(f"inline constexpr double kNormalTailEnd = {NORMAL_TAIL_END};")
    (top, bottom), bits = fit_ratio(NORMAL_END, 5, 5)
    print(f"\n// Of the normal distribution function, up to {NORMAL_END}; absolute error 2^{bits:.1f}.")
    print(f"inline constexpr double kNormalEnd = {NORMAL_END};")
    for name, coefficients in (("kNormalOverF32", top), ("kNormalUnderF32", bottom)):
        print(f"inline constexpr float {name}[] = {{")
        texts = [literal(to_type(c, "f32"), "f32") for c in coefficients]
        for i in range(0, len(texts), 4):
            print("    " + ", ".join(texts[i : i + 4]) + ",")
        print("};")
    print("\n// 1/(2 pi) in base 2^53, and its bits below 2^0, 2^-27, 2^-54, 2^-81 as pairs.")
    print("inline constexpr double kInverseTwoPiDigits[] = {")
    digits = [literal(d, "f64") for d in inverse_two_pi_digits(24)]
    for i in range(0, len(digits), 4):
        print("    " + ", ".join(digits[i : i + 4]) + ",")
    print("};\ninline constexpr double kInverseTwoPiWindows[][2] = {")
    for skip in (0, 27, 54, 81):
        high, low = inverse_two_pi_window(skip)
        print(f"    {{{high.hex()}, {low.hex()}}},")
    print("};\n\n}  // namespace escapement::scalar")


if __name__ == "__main__":
    main()
