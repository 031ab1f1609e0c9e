// The canonical order of reductions: spelled out once more, and its edges.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "trace/reduce_order.h"
#include "trace/scalar.h"

namespace escapement {
namespace {

template <class T>
using Sum = reduce::Of<Op::sum, T>;

std::vector<float> values(size_t count) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> result(count);
  for (float& x : result) x = normal(random) * 100;
  return result;
}

// As the header's text says it.
float sum_by_the_book(const std::vector<float>& x) {
  float total = 0, errors = 0;
  for (size_t begin = 0; begin < x.size(); begin += 1024) {
    float lane[32] = {};
    for (size_t i = begin; i < std::min(x.size(), begin + 1024); ++i) lane[i % 32] += x[i];
    for (size_t step : {16, 8, 4, 2, 1})
      for (size_t j = 0; j < step; ++j) lane[j] += lane[j + step];
    const float next = total + lane[0], taken = next - total;
    errors += (total - (next - taken)) + (lane[0] - taken);
    total = next;
  }
  return total + errors;
}

uint64_t reduce_bits(Op op, DType type, const std::vector<double>& x) {
  Reduction r(op, type);
  for (size_t i = 0; i < x.size(); ++i) r.add(to_bits(x[i], type), static_cast<int64_t>(i));
  return r.result();
}

TEST(Reduce, SumHasTheOrder) {
  for (size_t n : {0, 1, 2, 31, 32, 33, 1009, 1023, 1024, 1025, 4096, 10007}) {
    const std::vector<float> x = values(n);
    const float wanted = sum_by_the_book(x);
    EXPECT_EQ(reduce::row<Sum<float>>(static_cast<int64_t>(n), [&](int64_t i) { return x[static_cast<size_t>(i)]; }), wanted);
    EXPECT_EQ(reduce_bits(Op::sum, DType::f32, {x.begin(), x.end()}), std::bit_cast<uint32_t>(wanted)) << n;
  }
}

TEST(Reduce, StretchesCanBeSharedOut) {
  const std::vector<float> x = values(10007);
  Reduction whole(Op::sum, DType::f32), total(Op::sum, DType::f32);
  for (size_t i = 0; i < x.size(); ++i) whole.add(to_bits(x[i], DType::f32), static_cast<int64_t>(i));
  for (size_t begin = 0; begin < x.size(); begin += kReduceStretch) {
    Reduction part(Op::sum, DType::f32);
    for (size_t i = begin; i < std::min<size_t>(x.size(), begin + kReduceStretch); ++i)
      part.add(to_bits(x[i], DType::f32), static_cast<int64_t>(i));
    uint64_t saved[2];
    part.save(saved);
    total.add_stretch(saved);
  }
  EXPECT_EQ(total.result(), whole.result());
}

TEST(Reduce, Identities) {
  EXPECT_EQ(reduce_bits(Op::sum, DType::f32, {-0.0, -0.0}), std::bit_cast<uint32_t>(0.0f));  // +0, as eager
  EXPECT_EQ(reduce_bits(Op::prod, DType::f64, {}), std::bit_cast<uint64_t>(1.0));
  EXPECT_EQ(reduce_bits(Op::amax, DType::f32, {}), std::bit_cast<uint32_t>(-INFINITY));
  EXPECT_EQ(static_cast<int64_t>(reduce_bits(Op::amin, DType::i32, {})), INT32_MAX);
  EXPECT_EQ(reduce_bits(Op::any, DType::b8, {}), 0u);
  EXPECT_EQ(reduce_bits(Op::all, DType::b8, {}), 1u);
}

TEST(Reduce, AnInfiniteSumIsInfinite) {
  std::vector<double> x(5000, 1.0);
  x[3000] = INFINITY;
  EXPECT_EQ(reduce_bits(Op::sum, DType::f32, x), std::bit_cast<uint32_t>(INFINITY));
  x[10] = -INFINITY;
  EXPECT_TRUE(std::isnan(double_from_bits(reduce_bits(Op::sum, DType::f32, x), DType::f32)));
}

TEST(Reduce, ALongSumLosesNoMoreThanAShortOne) {
  const std::vector<double> x(5'000'000, 0.1f);
  const double exact = 5e6 * double{0.1f};
  EXPECT_NEAR(double_from_bits(reduce_bits(Op::sum, DType::f32, x), DType::f32), exact, exact * 1e-6);
}

TEST(Reduce, NanWins) {
  for (size_t at : {0, 1, 40, 5000}) {
    std::vector<double> x(6000, 1.0);
    x[17] = 100, x[at] = NAN, x[5500] = NAN;
    EXPECT_TRUE(std::isnan(double_from_bits(reduce_bits(Op::amax, DType::f32, x), DType::f32)));
    EXPECT_TRUE(std::isnan(double_from_bits(reduce_bits(Op::amin, DType::f64, x), DType::f64)));
    EXPECT_EQ(reduce_bits(Op::argmax, DType::f32, x), at);
    EXPECT_EQ(reduce_bits(Op::argmin, DType::f32, x), at);
  }
}

TEST(Reduce, TheFirstOfEqualsWins) {
  std::vector<double> x(9000, 0.0);
  EXPECT_EQ(reduce_bits(Op::argmax, DType::i64, x), 0u);
  x[4100] = x[5000] = x[40] = 7;
  EXPECT_EQ(reduce_bits(Op::argmax, DType::f32, x), 40u);
  EXPECT_EQ(reduce_bits(Op::argmin, DType::u8, x), 0u);
  const std::vector<double> low(100, -INFINITY);  // equal to the identity
  EXPECT_EQ(reduce_bits(Op::argmax, DType::f32, low), 0u);
}

TEST(Reduce, IntegersWrapAndBoolsCount) {
  EXPECT_EQ(static_cast<int64_t>(reduce_bits(Op::sum, DType::i64, {9e18, 9e18})), static_cast<int64_t>(2 * uint64_t(9e18)));
  EXPECT_EQ(reduction_accumulator(Op::sum, DType::b8, DType::i64), DType::i64);
  EXPECT_EQ(reduction_accumulator(Op::sum, DType::bf16, DType::bf16), DType::f32);
  EXPECT_EQ(reduction_accumulator(Op::amax, DType::f16, DType::f16), DType::f32);
  EXPECT_EQ(reduction_accumulator(Op::argmax, DType::i8, DType::i64), DType::i8);
}

}  // namespace
}  // namespace escapement
