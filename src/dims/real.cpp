// See real.h.
#include "dims/real.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

namespace escapement {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr std::pair<SizeOp, std::string_view> kNames[] = {
    {SizeOp::floordiv, "floordiv"}, {SizeOp::mod, "mod"}, {SizeOp::min, "min"}, {SizeOp::max, "max"}, {SizeOp::add, "wide_add"},
    {SizeOp::mul, "wide_mul"}, {SizeOp::real, "real"}, {SizeOp::real_add, "real_add"}, {SizeOp::real_mul, "real_mul"},
    {SizeOp::real_div, "real_div"}, {SizeOp::real_pow, "real_pow"}, {SizeOp::real_sqrt, "real_sqrt"}, {SizeOp::real_log2, "real_log2"}, {SizeOp::real_min, "real_min"},
    {SizeOp::real_max, "real_max"}, {SizeOp::real_less, "real_less"}, {SizeOp::real_floor, "real_floor"}, {SizeOp::real_round, "real_round"},
};

ExactSize finite(double value) { return std::isfinite(value) ? ExactSize(real_bits(value)) : ExactSize(); }
ExactSize whole(double value) { return std::abs(value) < kWholeBelow ? ExactSize(static_cast<int64_t>(value)) : ExactSize(); }

// A range of floats, without the order of bits. With an infinite end there may be no value.
struct Interval {
  double low = -kInfinity, high = kInfinity;
};

double ranked(int64_t rank) { return real_of(rank >= 0 ? rank : rank ^ INT64_MAX); }

Interval interval(Range range) {
  return {range.low == Range::kMin ? -kInfinity : ranked(range.low), range.high == Range::kMax ? kInfinity : ranked(range.high)};
}

Range range_of(Interval x) {
  Range result;
  if (x.low > -kInfinity) result.low = real_rank(x.low);   // not of NaN
  if (x.high < kInfinity) result.high = real_rank(x.high);
  return result;
}

// Operators that round are monotone where the exact ones are, so the corners bound what they give.
template <class F>
Interval corners(Interval a, Interval b, F of) {
  const double values[] = {of(a.low, b.low), of(a.low, b.high), of(a.high, b.low), of(a.high, b.high)};
  if (std::ranges::any_of(values, [](double v) { return std::isnan(v); })) return {};
  return {std::ranges::min(values), std::ranges::max(values)};
}

Interval product(Interval a, Interval b) {
  return corners(a, b, [](double x, double y) { return x == 0 || y == 0 ? 0 : x * y; });
}

Interval quotient(Interval a, Interval b) {
  if (b.low > 0 || b.high < 0) return corners(a, b, [](double x, double y) { return x / y; });
  if (a.low >= 0 && b.low >= 0) return {a.low / b.high, kInfinity};   // no divisor is zero
  return {};
}

Range whole_range(Interval x, double (*round)(double)) {
  const auto low = whole(round(x.low)), high = whole(round(x.high));
  return {low.value_or(Range::kMin), high.value_or(Range::kMax)};
}

Range truths(Interval a, Interval b) {
  const bool finite = std::ranges::all_of(std::initializer_list<double>{a.low, a.high, b.low, b.high}, [](double v) { return std::isfinite(v); });
  if (!finite) return {0, 1};   // there may be no value
  if (a.high < b.low) return {1, 1};
  return a.low >= b.high ? Range{0, 0} : Range{0, 1};
}

Range from_integers(Range a) {
  return range_of({static_cast<double>(a.low), static_cast<double>(a.high)});
}

}  // namespace

std::string_view name_of(SizeOp op) {
  for (const auto& [known, name] : kNames)
    if (known == op) return name;
  return "";
}

std::optional<SizeOp> size_op(std::string_view name) {
  for (const auto& [op, known] : kNames)
    if (known == name) return op;
  return {};
}

ExactSize exact_real(SizeOp op, int64_t a, int64_t b) {
  if (op == SizeOp::real) return real_bits(static_cast<double>(a));
  const double x = real_of(a), y = real_of(b);
  switch (op) {
    case SizeOp::real_add: return finite(x + y);
    case SizeOp::real_mul: return finite(x * y);
    case SizeOp::real_div: return y == 0 ? ExactSize() : finite(x / y);
    case SizeOp::real_pow: return finite(std::pow(x, y));
    case SizeOp::real_sqrt: return finite(std::sqrt(x));
    case SizeOp::real_log2: return finite(std::log2(x));
    case SizeOp::real_min: return y < x ? b : a;
    case SizeOp::real_max: return y > x ? b : a;
    case SizeOp::real_less: return x < y;
    case SizeOp::real_floor: return whole(std::floor(x));
    case SizeOp::real_round: return whole(std::nearbyint(x));
    default: return {};
  }
}

Range real_range(SizeOp op, Range a, Range b) {
  if (op == SizeOp::real) return from_integers(a);
  const Interval x = interval(a), y = interval(b);
  switch (op) {
    case SizeOp::real_add: return range_of({x.low + y.low, x.high + y.high});
    case SizeOp::real_mul: return range_of(product(x, y));
    case SizeOp::real_div: return range_of(quotient(x, y));
    case SizeOp::real_pow: return x.low >= 0 ? range_of({0, kInfinity}) : Range();
    case SizeOp::real_sqrt: return range_of({std::sqrt(std::max(x.low, 0.0)), std::sqrt(std::max(x.high, 0.0))});
    case SizeOp::real_log2: return range_of({std::log2(std::max(x.low, 0.0)), std::log2(std::max(x.high, 0.0))});
    case SizeOp::real_min: return range_of({std::min(x.low, y.low), std::min(x.high, y.high)});
    case SizeOp::real_max: return range_of({std::max(x.low, y.low), std::max(x.high, y.high)});
    case SizeOp::real_less: return truths(x, y);
    case SizeOp::real_floor: return whole_range(x, std::floor);
    case SizeOp::real_round: return whole_range(x, std::nearbyint);
    default: return {};
  }
}

}  // namespace escapement
