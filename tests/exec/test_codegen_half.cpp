// Half types: rounding at stores, and what rows of them keep between two stages.
#include <cstring>

#include "kernels/computed_again.h"
#include "nest_harness.h"
#include "trace/scalar_math.h"

namespace escapement::testing {
namespace {

constexpr DType kHalf[] = {DType::bf16, DType::f16};
constexpr DType kF32 = DType::f32;

// Every sign, exponent and upper part of the fraction, with what decides a rounding below. Neighbours are alike: subnormal numbers and NaN, which
// take another way, do not stand in every vector.
std::vector<float> every_kind_of_number() {
  std::vector<float> result;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (uint32_t lower : {0x0000u, 0x0001u, 0x1000u, 0x1001u, 0x2fffu, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const uint32_t bits = upper << 16 | lower;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      result.push_back(value);
    }
  return result;
}

LoopNest conversion(DType to) {
  LoopNest nest;
  nest.axes.resize(1);
  nest.params = {{kF32, false, InnerStride::unit}, {to, true, InnerStride::unit}};
  nest.stages.resize(1);
  Stage& s = nest.stages[0];
  s.inputs = {load_of(0)};
  s.stores = {{1, s.body.round_to(s.body.input(0, kF32), to)}};
  return nest;
}

std::vector<uint16_t> converted(const LoopNest& nest, const std::vector<float>& values) {
  std::vector<uint16_t> result(values.size());
  void* data[] = {const_cast<float*>(values.data()), result.data()};
  const int64_t extents[] = {static_cast<int64_t>(values.size())}, strides[] = {4, 0, 2, 0};
  int64_t failure = 0;
  const KernelArgs args{data, extents, strides, nullptr, &failure, nullptr};
  const auto code = CodeGenerator::instance().compile({{&nest, Variant::fast, "conversion"}});
  code->function(0)(&args, 0, 1, 0, extents[0]);
  return result;
}

TEST(CodegenHalf, EveryKindOfNumberIsRoundedAsByTheDefinition) {
  const std::vector<float> values = every_kind_of_number();
  for (DType type : kHalf) {
    const std::vector<uint16_t> found = converted(conversion(type), values);
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t expected;
      uint32_t bits;
      std::memcpy(&bits, &values[i], sizeof bits);
      store_bits(&expected, type, bits);
      const bool both_nan = type == DType::f16 && values[i] != values[i] && (found[i] & 0x7fff) > 0x7c00;
      ASSERT_TRUE(found[i] == expected || both_nan) << name_of(type) << " of " << std::hex << bits << ": " << found[i] << ", not " << expected;
    }
  }
}

// first = a + b, second = first * b: the sum is stored as rounded as the product reads it. third = the sum once more, in f32.
LoopNest rounded_and_used(DType type) {
  LoopNest nest;
  nest.axes.resize(1);
  nest.params = {{type, false, InnerStride::unit}, {type, false, InnerStride::unit}, {type, true, InnerStride::unit},
                 {type, true, InnerStride::unit}, {kF32, true, InnerStride::unit}};
  nest.stages.resize(1);
  Stage& s = nest.stages[0];
  s.inputs = {load_of(0), load_of(1)};
  const Reg b = s.body.input(1, kF32), sum = s.body.round_to(s.body.emit(ScalarOp::add, kF32, s.body.input(0, kF32), b), type);
  s.stores = {{2, sum}, {3, s.body.round_to(s.body.emit(ScalarOp::mul, kF32, sum, b), type)}, {4, sum}};
  return nest;
}

TEST(CodegenHalf, ARoundedValueMayBeStoredAndUsed) {
  for (DType type : kHalf) {
    LoopNest nest = rounded_and_used(type);
    for (int64_t n : {1, 15, 33, 1000})
      for (Variant variant : {Variant::fast, Variant::general})
        for (Values values : {Values::tame, Values::wild}) expect_equal(nest, variant, {{n}, std::vector<Operand>(5, {{1}, 0, 0, values}), {}});
    nest.stages[0].stores.pop_back();   // nobody needs the rounded sum now but the product
    nest.params.pop_back();
    expect_equal(nest, Variant::fast, {{777}, std::vector<Operand>(4, {{1}, 0, 0, Values::wild}), {}});
  }
}

// --- rows

LoopNest softmax(DType type, Schedule schedule) {
  LoopNest nest;
  nest.schedule = schedule;
  nest.axes = {{false, false}, {true, false}};
  if (schedule == Schedule::column) nest.axes.push_back({false, false});
  nest.params = {{type, false, InnerStride::unit}, {type, true, InnerStride::unit}};
  nest.row_values = {kF32, kF32};
  nest.stages.resize(3);
  Stage &largest = nest.stages[0], &sum = nest.stages[1], &result = nest.stages[2];
  const auto in = [](Stage& s, int number) { return scalar::Expr{&s.body, s.body.input(number, kF32)}; };
  largest.inputs = {load_of(0)};
  largest.reductions = {{Op::amax, in(largest, 0).reg, 0}};
  sum.inputs = {load_of(0), row_input(0)};
  sum.reductions = {{Op::sum, scalar::exp(in(sum, 0) - in(sum, 1)).reg, 1}};
  result.inputs = {row_input(1), row_input(0), load_of(0)};
  const Reg quotient = (scalar::exp(in(result, 2) - in(result, 1)) / in(result, 0)).reg;
  result.stores = {{1, result.body.round_to(quotient, type)}};
  return nest;
}

Launch whole(const std::vector<int64_t>& extents, Values values) {
  return {extents, {{row_major(extents), 0, 0, values}, {row_major(extents)}}, {}};
}

// Shorter and longer than what is kept, whose end no row may pass.
TEST(CodegenHalf, SoftmaxOfEveryLength) {
  for (DType type : {DType::bf16, DType::f16, kF32}) {
    const LoopNest nest = softmax(type, Schedule::row);
    ASSERT_TRUE(computed_again(nest));
    for (int64_t n : {0, 1, 15, 16, 17, 47, 64, 255, 1024, 1500, 8191, 8192, 8193, 8200, 8224, 9001, 20011})
      for (Variant variant : {Variant::fast, Variant::general}) expect_equal(nest, variant, whole({2, n}, n < 2000 ? Values::wild : Values::tame));
    for (int64_t rows : {1, 33, 100})
      for (int64_t n : {1, 2, 31, 48}) expect_equal(nest, Variant::block, whole({rows, n}, Values::tame), {2, 1});
    expect_equal_split(nest, whole({2, 9001}, Values::tame));
    const LoopNest column = softmax(type, Schedule::column);
    for (int64_t n : {1, 31, 33, 100}) expect_equal(column, Variant::fast, whole({2, 37, n}, Values::tame));
    for (int64_t rows : {255, 256, 257, 1300}) expect_equal(column, rows == 257 ? Variant::general : Variant::fast, whole({1, rows, 45}, Values::tame));
  }
}

// Short rows are taken in groups: more and fewer rows than one has, over several axes, in pieces, beside operands that all rows share.
TEST(CodegenHalf, RowsInGroups) {
  for (DType type : {DType::bf16, kF32}) {
    LoopNest nest = softmax(type, Schedule::row);
    nest.axes.insert(nest.axes.begin(), 2, LoopAxis{});
    for (int64_t n : {0, 1, 5, 64, 127, 128, 129, 700, 1025})
      for (int64_t rows : {1, 3, 15, 16, 17}) {
        expect_equal(nest, Variant::fast, whole({2, 3, rows, n}, Values::tame), {5, 1});
        Launch strided = whole({2, 3, rows, n}, Values::wild);
        for (Operand& operand : strided.operands) operand.strides = {rows * 3 * (n + 3), n + 3, 3 * (n + 3), 1};
        expect_equal(nest, Variant::fast, strided, {2, 1});
      }
    expect_equal_sized(nest, Variant::fast, whole({1, 3, 40, 17}, Values::tame));
  }
}

TEST(CodegenHalf, SoftmaxInPlace) {
  LoopNest nest = softmax(DType::bf16, Schedule::row);
  nest.params = {{DType::bf16, true, InnerStride::unit}};
  nest.stages[2].stores[0].param = 0;
  for (int64_t n : {7, 100, 9000}) expect_equal(nest, Variant::fast, {{19, n}, {{row_major({19, n})}}, {}});
}

TEST(ComputedAgain, OnlyWhatIsTheSameAndWorthIt) {
  const LoopNest plain = softmax(DType::bf16, Schedule::row);
  const auto found = computed_again(plain);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->first, 1u);
  EXPECT_EQ(found->later, 2u);
  EXPECT_EQ(found->first_reg, plain.stages[1].reductions[0].value);

  LoopNest other_row = plain;
  other_row.stages[2].inputs[1] = row_input(1);
  EXPECT_FALSE(computed_again(other_row));

  LoopNest other_memory = plain;
  other_memory.params.insert(other_memory.params.begin() + 1, plain.params[0]);
  other_memory.stages[2].inputs[2] = load_of(1);
  other_memory.stages[2].stores[0].param = 2;
  EXPECT_FALSE(computed_again(other_memory));

  LoopNest written_between = plain;
  written_between.stages[1].stores = {{1, written_between.stages[1].reductions[0].value}};
  EXPECT_FALSE(computed_again(written_between));

  LoopNest cheap = plain;
  for (Stage* s : {&cheap.stages[1], &cheap.stages[2]}) {
    s->body = ScalarProgram();
    s->inputs = {load_of(0), row_input(0)};
    const Reg difference = s->body.emit(ScalarOp::sub, kF32, s->body.input(0, kF32), s->body.input(1, kF32));
    if (s->stores.empty()) s->reductions[0].value = difference;
    else s->stores[0].value = difference;
  }
  EXPECT_FALSE(computed_again(cheap));
}

}  // namespace
}  // namespace escapement::testing
