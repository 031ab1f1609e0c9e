// Loop nests: text, invariants, equality, and the interpreter's parts.
#include <gtest/gtest.h>

#include "kernels/loop_interpreter.h"
#include "kernels/loops.h"
#include "support/error.h"
#include "trace/reduce_order.h"

namespace escapement {
namespace {

constexpr const char* kSoftmax = R"(nest row
axis parallel
axis reduced
param f32 in unit
param f32 out unit
row f32
row f32
row f32
stage element
  input 0 load 0
  %0 = input:f32 0
  reduce amax %0 row 0
stage element
  input 0 load 0
  input 1 row 0
  %0 = input:f32 0
  %1 = input:f32 1
  %2 = sub:f32 %0 %1
  reduce sum %2 row 1
stage row
  input 0 row 1
  %0 = input:f32 0
  %1 = constant:f32 0x3f800000
  %2 = div:f32 %1 %0
  keep %2 row 2
stage element
  input 0 load 0
  input 1 row 2
  %0 = input:f32 0
  %1 = input:f32 1
  %2 = mul:f32 %0 %1
  store 1 %2
end
)";

constexpr const char* kGather = R"(nest map
axis parallel
axis parallel indexed
param f32 in unit
param i64 in zero
param bf16 out unit
scalar i64
stage element
  input 0 load 1
  input 1 gather 0 at %0 below 0 wrap
  input 2 index 1
  %0 = input:i64 0
  %1 = input:f32 1
  %2 = input:i64 2
  %3 = convert:f32 %2
  %4 = add:f32 %1 %3
  %5 = round_to:f32 %4 7
  store 2 %5
end
)";

TEST(Loops, PrintOfParseIsTheText) {
  for (const char* text : {kSoftmax, kGather}) {
    const LoopNest nest = parse_loop_nest(text);
    verify(nest);
    EXPECT_EQ(print(nest), text);
    const LoopNest again = parse_loop_nest(print(nest));
    EXPECT_TRUE(structurally_equal(nest, again));
    EXPECT_EQ(structural_hash(nest), structural_hash(again));
  }
}

TEST(Loops, EveryFieldCounts) {
  const LoopNest nest = parse_loop_nest(kGather);
  const auto differs = [&](auto change) {
    LoopNest other = nest;
    change(other);
    return !structurally_equal(nest, other) && structural_hash(nest) != structural_hash(other);
  };
  EXPECT_TRUE(differs([](LoopNest& n) { n.axes[0].indexed = true; }));
  EXPECT_TRUE(differs([](LoopNest& n) { n.params[2].dtype = DType::f16; }));
  EXPECT_TRUE(differs([](LoopNest& n) { n.params[0].inner = InnerStride::zero; }));
  EXPECT_TRUE(differs([](LoopNest& n) { n.stages[0].inputs[1].wrap = false; }));
  EXPECT_TRUE(differs([](LoopNest& n) { n.stages[0].stores[0].value = 4; }));
  EXPECT_TRUE(differs([](LoopNest& n) { n.schedule = Schedule::column; }));
}

TEST(Loops, VerifierFindsWhatIsBroken) {
  const auto broken = [](const char* text, auto change) {
    LoopNest nest = parse_loop_nest(text);
    change(nest);
    EXPECT_THROW(verify(nest), InternalError);
  };
  broken(kSoftmax, [](LoopNest& n) { n.schedule = Schedule::map; });
  broken(kSoftmax, [](LoopNest& n) { n.axes = {{true, false}, {false, false}}; });
  broken(kSoftmax, [](LoopNest& n) { n.stages[1].inputs[1].number = 2; });   // not computed yet
  broken(kSoftmax, [](LoopNest& n) { n.params[1].written = false; });
  broken(kSoftmax, [](LoopNest& n) { n.row_values[0] = DType::f64; });
  broken(kGather, [](LoopNest& n) { n.axes[1].indexed = false; });
  broken(kGather, [](LoopNest& n) { n.scalars[0] = DType::f32; });
  broken(kGather, [](LoopNest& n) { n.stages[0].inputs.pop_back(); });
}

TEST(Loops, ParserNamesTheLine) {
  try {
    parse_loop_nest("nest map\naxis parallel\nparam f99 in unit\nend\n");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("line 3"), std::string::npos) << e.what();
  }
}

TEST(Loops, GatherWrapsAndReportsWhatIsOutside) {
  const LoopNest nest = parse_loop_nest(kGather);
  const float table[3] = {10, 20, 30};
  const int64_t positions[4] = {2, -1, 0, 3};
  uint16_t out[8] = {};
  void* data[] = {const_cast<float*>(table), const_cast<int64_t*>(positions), out};
  const int64_t extents[] = {4, 2}, strides[] = {0, 0, 4, 8, 0, 0, 4, 2, 0};
  const uint64_t scalars[] = {3};
  int64_t failure = 0;
  const KernelArgs args{data, extents, strides, scalars, &failure, nullptr};
  interpret(nest, NestPart::whole, args, 0, 3, 0, 2);
  EXPECT_EQ(failure, 0);
  const float wanted[] = {30, 31, 30, 31, 10, 11};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(double_from_bits(load_bits(&out[i], DType::bf16), DType::f32), wanted[i]);
  interpret(nest, NestPart::whole, args, 3, 4, 0, 2);
  EXPECT_EQ(failure, 1);
}

// A split row gives the bits of a whole one, however its stretches are shared out.
TEST(Loops, PartsEqualTheWhole) {
  const LoopNest nest = parse_loop_nest(kSoftmax);
  ASSERT_TRUE(has_parts(nest));
  const int64_t rows = 2, length = 3 * kReduceStretch + 17, stretches = 4;
  std::vector<float> in(rows * length), whole(rows * length), parts(rows * length);
  for (size_t i = 0; i < in.size(); ++i) in[i] = float((i * 7919) % 1000) / 37.0f;
  const int64_t extents[] = {rows, length}, strides[] = {4 * length, 4, 0, 4 * length, 4, 0};
  void* data[] = {in.data(), whole.data()};
  std::vector<uint64_t> scratch(rows * stretches * 2);
  int64_t failure = 0;
  KernelArgs args{data, extents, strides, nullptr, &failure, scratch.data()};
  interpret(nest, NestPart::whole, args, 0, rows, 0, 0);
  data[1] = parts.data();
  interpret(nest, NestPart::partial, args, 0, 1, 1, 4);
  interpret(nest, NestPart::partial, args, 0, 1, 0, 1);
  interpret(nest, NestPart::partial, args, 1, 2, 0, 4);
  interpret(nest, NestPart::finish, args, 0, rows, 0, stretches);
  EXPECT_EQ(whole, parts);
}

}  // namespace
}  // namespace escapement
