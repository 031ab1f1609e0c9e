// Floats in size expressions against doubles: values, texts, ranges, and what has no value.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "dims/dims.h"
#include "dims/real.h"
#include "support/error.h"

namespace escapement {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();   // what is not finite, or came of it

struct Float {
  Dim dim;
  double value;
};
struct Whole {
  Dim dim;
  std::optional<int64_t> value;
};

class RandomFloats {
 public:
  explicit RandomFloats(uint64_t seed) : random_(seed) {
    for (int64_t& value : values_) {
      value = between(0, 40) - (pick(4) == 0 ? 20 : 0);
      symbols_.push_back(table.new_symbol(value < 0 || pick(2) == 0 ? SymbolKind::integer : SymbolKind::size, {}, value));
      if (pick(2) == 0) table.assume_range(symbols_.back(), {value - between(0, 9), value + between(0, 9)});
    }
  }

  Float real(int depth) {
    if (depth == 0 || pick(6) == 0) {
      constexpr double kNumbers[] = {0.7, 1.5, 2, -0.25, 0, 1, 1e-3, 1e300, 0.1, -3, 0.5};
      const double value = kNumbers[pick(std::size(kNumbers))];
      if (pick(2) == 0) return {table.real(value), value};
      const Whole n = whole(depth);
      return {table.apply(SizeOp::real, n.dim), n.value ? static_cast<double>(*n.value) : kNone};
    }
    const Float a = real(depth - 1), b = real(depth - 1);
    constexpr SizeOp kOps[] = {SizeOp::real_add, SizeOp::real_mul, SizeOp::real_div, SizeOp::real_pow, SizeOp::real_sqrt, SizeOp::real_min, SizeOp::real_max};
    const SizeOp op = kOps[pick(std::size(kOps))];
    return {table.apply(op, a.dim, b.dim), made(op, a.value, b.value)};
  }

  Whole whole(int depth) {
    if (depth == 0 || pick(5) == 0) {
      const size_t i = pick(std::size(values_));
      return {symbols_[i], values_[i]};
    }
    if (pick(3) == 0) {
      const Whole a = whole(depth - 1), b = whole(depth - 1);
      return {table.add(a.dim, b.dim), a.value && b.value ? exact_sum(*a.value, *b.value) : std::nullopt};
    }
    const Float a = real(depth - 1), b = real(depth - 1);
    switch (pick(3)) {
      case 0: return {table.apply(SizeOp::real_floor, a.dim), integer(std::floor(a.value))};
      case 1: return {table.apply(SizeOp::real_round, a.dim), integer(std::nearbyint(a.value))};
      default:
        if (std::isnan(a.value) || std::isnan(b.value)) return {table.apply(SizeOp::real_less, a.dim, b.dim), {}};
        return {table.apply(SizeOp::real_less, a.dim, b.dim), a.value < b.value};
    }
  }

  std::span<const int64_t> values() const { return values_; }
  DimTable table;

 private:
  static std::optional<int64_t> integer(double value) {
    return std::abs(value) < 9.2e18 ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
  }
  static double finite(double value) { return std::isfinite(value) ? value : kNone; }
  static double made(SizeOp op, double a, double b) {
    if (op == SizeOp::real_sqrt) return finite(std::sqrt(a));
    if (std::isnan(a) || std::isnan(b)) return kNone;
    switch (op) {
      case SizeOp::real_add: return finite(a + b);
      case SizeOp::real_mul: return finite(a * b);
      case SizeOp::real_div: return b == 0 ? kNone : finite(a / b);
      case SizeOp::real_pow: return finite(std::pow(a, b));
      case SizeOp::real_min: return std::min(a, b);
      default: return std::max(a, b);
    }
  }
  size_t pick(size_t below) { return random_() % below; }
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  std::mt19937_64 random_;
  std::array<int64_t, 3> values_{};
  std::vector<Dim> symbols_;
};

TEST(Reals, AreDoubles) {
  size_t known = 0, none = 0, bounded = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    RandomFloats random(seed);
    const Whole n = random.whole(5);
    const std::string text = random.table.to_string(n.dim);
    ASSERT_EQ(random.table.parse(text), n.dim) << text;
    const Range range = random.table.range(n.dim);
    const Dim canonical = random.table.canonical(n.dim);
    if (!n.value) {
      EXPECT_THROW((void)random.table.evaluate(n.dim, random.values()), UserError) << text;
      ++none;
      continue;
    }
    ASSERT_EQ(random.table.evaluate(n.dim, random.values()), *n.value) << text;
    ASSERT_EQ(random.table.evaluate(canonical, random.values()), *n.value) << text;
    ASSERT_EQ(random.table.hint(n.dim), n.value) << text;
    ASSERT_TRUE(range.low <= *n.value && *n.value <= range.high) << text << " is " << *n.value << ", not in " << range.low << " to " << range.high;
    ++known;
    bounded += range != Range{};
  }
  EXPECT_GT(known, 8000u);
  EXPECT_GT(none, 1000u);
  EXPECT_GT(bounded, 2000u);
}

TEST(Reals, AreReadableAndKeepTheirBits) {
  DimTable dims;
  const Dim n = dims.new_symbol(SymbolKind::size, {});
  const Dim part = dims.apply(SizeOp::real_floor, dims.apply(SizeOp::real_mul, dims.apply(SizeOp::real, n), dims.real(0.7)));
  EXPECT_EQ(dims.to_string(part), "real_floor(real_mul(real(s0), 0.7))");
  for (const double value : {0.1, -0.7, 1e-300, 1.0, -0.0, 0.1 + 0.2, 4.9e-324}) {
    const Dim less = dims.apply(SizeOp::real_less, dims.apply(SizeOp::real, n), dims.real(value));
    EXPECT_EQ(dims.parse(dims.to_string(less)), less) << dims.to_string(less);
  }
}

TEST(Reals, EqualExpressionsAreOne) {
  DimTable dims;
  const Dim n = dims.new_symbol(SymbolKind::size, {}), m = dims.new_symbol(SymbolKind::size, {});
  const auto part = [&](Dim of) { return dims.apply(SizeOp::real_floor, dims.apply(SizeOp::real_mul, dims.apply(SizeOp::real, of), dims.real(0.7))); };
  EXPECT_EQ(part(n), part(n));
  EXPECT_EQ(dims.equal(part(n), part(m)), Truth::unknown);
  dims.assume_equal(n, m);
  EXPECT_EQ(dims.equal(part(n), part(m)), Truth::yes);
  EXPECT_EQ(dims.less_equal(dims.constant(0), part(n)), Truth::yes);
  dims.assume_range(n, {10, 20});
  EXPECT_EQ(dims.range(part(m)), (Range{7, 14}));
  dims.assume_range(n, {10, 10});
  EXPECT_EQ(dims.as_constant(part(m)), 7);
}

TEST(Reals, ComparisonsAreDecidedByRanges) {
  DimTable dims;
  const Dim n = dims.new_symbol(SymbolKind::size, {});
  const auto less = [&](double a, Dim b) { return dims.apply(SizeOp::real_less, dims.real(a), dims.apply(SizeOp::real, b)); };
  EXPECT_EQ(dims.equal(less(-0.5, n), dims.constant(1)), Truth::yes);
  EXPECT_EQ(dims.equal(less(0.5, n), dims.constant(1)), Truth::unknown);
  dims.assume_range(n, {3, 5});
  EXPECT_EQ(dims.equal(less(2.5, n), dims.constant(1)), Truth::yes);
  EXPECT_EQ(dims.equal(less(5, n), dims.constant(0)), Truth::yes);
}

}  // namespace
}  // namespace escapement
