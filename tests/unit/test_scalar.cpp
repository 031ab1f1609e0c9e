// Scalar programs: construction, and the bits of the basic operations.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "trace/scalar.h"

namespace escapement {
namespace {

uint64_t bits(float x) { return std::bit_cast<uint32_t>(x); }
uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }
float single(uint64_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b)); }
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

uint64_t apply(ScalarOp op, DType type, uint64_t a, uint64_t b = 0, uint64_t c = 0, DType operand = DType::f32) {
  return evaluate({op, type, 0, 0, 0, static_cast<uint64_t>(operand)}, a, b, c);
}

int64_t integer(ScalarOp op, DType type, int64_t a, int64_t b) {
  return static_cast<int64_t>(apply(op, type, to_bits(a, type), to_bits(b, type)));
}

TEST(Scalar, EqualNodesAreShared) {
  ScalarProgram p;
  const Reg a = p.input(0, DType::f32), b = p.input(1, DType::f32);
  const Reg sum = p.emit(ScalarOp::add, DType::f32, a, b);
  EXPECT_EQ(p.input(0, DType::f32), a);
  EXPECT_EQ(p.emit(ScalarOp::add, DType::f32, a, b), sum);
  EXPECT_NE(p.emit(ScalarOp::add, DType::f32, b, a), sum);
  EXPECT_NE(p.constant(0.0, DType::f32), p.constant(-0.0, DType::f32));
  EXPECT_EQ(p.cast(a, DType::f32), a);
  EXPECT_EQ(p.round_to(a, DType::f32), a);
  EXPECT_NE(p.round_to(a, DType::bf16), p.round_to(a, DType::f16));
  for (int i = 0; i < 1000; ++i) p.constant_int(i, DType::i32);
  EXPECT_EQ(p.emit(ScalarOp::add, DType::f32, a, b), sum);
}

TEST(Scalar, PrintsOneNodeALine) {
  ScalarProgram p;
  const Reg a = p.input(0, DType::f32);
  p.round_to(p.emit(ScalarOp::fma, DType::f32, a, p.constant(2.5, DType::f32), p.param(1, DType::f32)), DType::bf16);
  EXPECT_EQ(p.to_string(),
            "%0 = input.f32 0\n%1 = param.f32 1\n%2 = constant.f32 2.5\n%3 = fma.f32 %0, %2, %1\n%4 = round_to.f32 %3, bf16\n");
}

TEST(Scalar, IntegersWrap) {
  EXPECT_EQ(integer(ScalarOp::add, DType::i8, 127, 1), -128);
  EXPECT_EQ(integer(ScalarOp::sub, DType::u8, 0, 1), 255);
  EXPECT_EQ(integer(ScalarOp::mul, DType::i32, 1 << 20, 1 << 20), 0);
  EXPECT_EQ(integer(ScalarOp::mul, DType::i16, -300, 300), int16_t(-90000));
  EXPECT_EQ(integer(ScalarOp::add, DType::i64, INT64_MAX, 1), INT64_MIN);
  EXPECT_EQ(integer(ScalarOp::neg, DType::i64, INT64_MIN, 0), INT64_MIN);
  EXPECT_EQ(integer(ScalarOp::abs, DType::i8, -128, 0), -128);
  EXPECT_EQ(integer(ScalarOp::shr, DType::i32, -8, 1), -4);
  EXPECT_EQ(integer(ScalarOp::shr, DType::u8, 0x80, 1), 0x40);
  EXPECT_EQ(integer(ScalarOp::shl, DType::i8, 1, 7), -128);
}

TEST(Scalar, BoolsAddAsOr) {
  EXPECT_EQ(apply(ScalarOp::add, DType::b8, 1, 1), 1u);
  EXPECT_EQ(apply(ScalarOp::mul, DType::b8, 1, 0), 0u);
  EXPECT_EQ(apply(ScalarOp::bit_not, DType::b8, 1), 0u);
  EXPECT_EQ(apply(ScalarOp::lt, DType::b8, 0, 1, 0, DType::b8), 1u);
}

TEST(Scalar, ExtremesKeepNanAndTheFirstOfEquals) {
  for (ScalarOp op : {ScalarOp::min, ScalarOp::max}) {
    EXPECT_TRUE(std::isnan(single(apply(op, DType::f32, bits(kNan), bits(1.0f)))));
    EXPECT_TRUE(std::isnan(single(apply(op, DType::f32, bits(1.0f), bits(kNan)))));
    EXPECT_EQ(apply(op, DType::f32, bits(-0.0f), bits(0.0f)), bits(-0.0f));
    EXPECT_EQ(apply(op, DType::f32, bits(0.0f), bits(-0.0f)), bits(0.0f));
  }
  EXPECT_EQ(apply(ScalarOp::max, DType::f32, bits(1.0f), bits(2.0f)), bits(2.0f));
}

TEST(Scalar, ComparisonsWithNanAreFalse) {
  for (ScalarOp op : {ScalarOp::eq, ScalarOp::lt, ScalarOp::le, ScalarOp::gt, ScalarOp::ge})
    EXPECT_EQ(apply(op, DType::b8, bits(kNan), bits(kNan)), 0u);
  EXPECT_EQ(apply(ScalarOp::ne, DType::b8, bits(kNan), bits(kNan)), 1u);
  EXPECT_EQ(apply(ScalarOp::is_nan, DType::b8, bits(kNan)), 1u);
}

TEST(Scalar, ConversionsAreThoseOfX86) {
  auto to = [](DType type, float x) { return static_cast<int64_t>(apply(ScalarOp::convert, type, bits(x), 0, 0, DType::f32)); };
  EXPECT_EQ(to(DType::i32, -2.9f), -2);
  EXPECT_EQ(to(DType::i32, 3e9f), INT32_MIN);
  EXPECT_EQ(to(DType::i64, kNan), INT64_MIN);
  EXPECT_EQ(to(DType::i8, 300.0f), 44);
  EXPECT_EQ(to(DType::u8, -1.0f), 255);
  EXPECT_EQ(to(DType::b8, kNan), 1);
  EXPECT_EQ(to(DType::b8, 0.25f), 1);
  EXPECT_EQ(apply(ScalarOp::convert, DType::f32, uint64_t((1 << 24) + 1), 0, 0, DType::i32), bits(16777216.0f));
  EXPECT_EQ(apply(ScalarOp::bitcast, DType::i32, bits(-1.0f), 0, 0, DType::f32), uint64_t(int64_t(int32_t(0xbf800000))));
}

// Every half value survives, and what lies between two of them goes to the nearer, ties to even.
TEST(Scalar, HalvesRoundToNearestEven) {
  for (DType type : {DType::f16, DType::bf16}) {
    for (uint32_t i = 0; i < 0x10000; ++i) {
      const auto half = static_cast<uint16_t>(i);
      const uint64_t wide = load_bits(&half, type);
      uint16_t back = 0;
      store_bits(&back, type, wide);
      if (std::isnan(single(wide))) continue;
      ASSERT_EQ(back, half);
      const auto next_half = static_cast<uint16_t>(i + 1);
      const float a = single(wide), b = single(load_bits(&next_half, type));
      if ((i & 0x7fff) == 0x7fff || std::isnan(b) || std::isinf(b) || std::isinf(a)) continue;
      const float middle = a + (b - a) / 2;
      store_bits(&back, type, bits(middle));
      ASSERT_EQ(back, (i & 1) ? next_half : half) << i;
      store_bits(&back, type, bits(std::nextafter(middle, a)));
      ASSERT_EQ(back, half);
      store_bits(&back, type, bits(std::nextafter(middle, b)));
      ASSERT_EQ(back, next_half);
    }
  }
}

TEST(Scalar, HalvesOverflowAndKeepNan) {
  uint16_t half = 0;
  store_bits(&half, DType::f16, bits(65519.996f));
  EXPECT_EQ(half, 0x7bff);
  store_bits(&half, DType::f16, bits(65520.0f));
  EXPECT_EQ(half, 0x7c00);
  store_bits(&half, DType::bf16, bits(-kNan));
  EXPECT_EQ(half, 0x7fc0);  // c10::BFloat16
  store_bits(&half, DType::f16, bits(-kNan));
  EXPECT_EQ(half, 0xfe00);
  EXPECT_EQ(to_bits(1.0 + 0x1p-9, DType::bf16), bits(1.0f));
}

// Choices among values of a half type, and their signs, are not rounded again.
TEST(Scalar, WhatIsExactInAHalfTypeIsNotRounded) {
  ScalarProgram p;
  const Reg a = p.input(0, DType::f32, DType::bf16), b = p.input(1, DType::f32, DType::f16);
  const Reg two = p.constant(2, DType::f32), tenth = p.constant(0.1, DType::f32);
  const Reg less = p.emit(ScalarOp::lt, DType::b8, a, two);
  const Reg chosen = p.emit(ScalarOp::select, DType::f32, less, p.emit(ScalarOp::neg, DType::f32, a), two);
  EXPECT_EQ(p.round_to(chosen, DType::bf16), chosen);
  EXPECT_NE(p.round_to(chosen, DType::f16), chosen);
  EXPECT_EQ(p.round_to(p.round_to(tenth, DType::f16), DType::f16), p.round_to(tenth, DType::f16));
  EXPECT_NE(p.round_to(tenth, DType::bf16), tenth);
  EXPECT_NE(p.round_to(b, DType::bf16), b);
  const Reg sum = p.emit(ScalarOp::add, DType::f32, a, a);
  EXPECT_NE(p.round_to(sum, DType::bf16), sum);
  EXPECT_EQ(p.round_to(p.emit(ScalarOp::max, DType::f32, a, two), DType::bf16), p.emit(ScalarOp::max, DType::f32, a, two));
  EXPECT_NE(p.round_to(p.emit(ScalarOp::select, DType::f32, less, a, b), DType::bf16), p.emit(ScalarOp::select, DType::f32, less, a, b));
}

TEST(Scalar, BlocksAndElementsAgree) {
  ScalarProgram p;
  const Reg a = p.input(0, DType::f64), b = p.input(1, DType::f64), k = p.param(0, DType::f64);
  const Reg r = p.emit(ScalarOp::select, DType::f64, p.emit(ScalarOp::lt, DType::b8, a, k), p.emit(ScalarOp::div, DType::f64, a, b),
                       p.emit(ScalarOp::fma, DType::f64, a, b, k));
  std::mt19937_64 random(1);
  std::vector<uint64_t> x(300), y(300), block, one;
  for (size_t i = 0; i < x.size(); ++i) x[i] = random(), y[i] = random();
  const uint64_t params[] = {bits(0.5)};
  const uint64_t* inputs[] = {x.data(), y.data()};
  p.run_block(inputs, params, x.size(), block);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint64_t element[] = {x[i], y[i]};
    p.run(element, params, one);
    ASSERT_EQ(one[r], block[r * x.size() + i]);
  }
}

}  // namespace
}  // namespace escapement
