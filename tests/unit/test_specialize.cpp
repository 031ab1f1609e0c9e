// Passes of src/specialize and guards of src/guards on small traces made with the Builder.
#include <gtest/gtest.h>

#include "guards/check.h"
#include "kernels/plan.h"
#include "specialize/epilogue.h"
#include "specialize/passes.h"
#include "specialize/side_trace.h"
#include "trace/builder.h"

namespace escapement {
namespace {

struct Program {
  Trace trace;
  Builder builder{trace};
  ValueId input() {
    TensorType type;
    const Source source{Source::Kind::input_size, static_cast<uint32_t>(trace.inputs.size()), {}, 0};
    type.sizes = {trace.dims.new_symbol(SymbolKind::size, source, 5)};
    return builder.input(type, "x" + std::to_string(trace.inputs.size()));
  }
  ValueId add(ValueId a, ValueId b) {
    const ValueId operands[] = {a, b};
    return builder.pointwise(Op::add, operands);
  }
  void output(ValueId value) { builder.output({Output::Kind::value, value, {}}); }
};

TEST(DeadCode, DropsWhatNobodyNeeds) {
  Program p;
  const ValueId x = p.input();
  p.add(x, x);
  p.output(p.builder.cast(x, DType::f64));
  const Trace after = remove_dead_code(p.trace);
  verify(after);
  EXPECT_EQ(after.instrs.size(), 1u);
  EXPECT_EQ(after.instrs[0].op, Op::cast);
}

TEST(DeadCode, KeepsWrites) {
  Program p;
  const ValueId x = p.input();
  p.builder.write(x, p.add(x, x));
  const Trace after = remove_dead_code(p.trace);
  verify(after);
  EXPECT_EQ(after.instrs.size(), 2u);
}

TEST(DeadCode, KeepsWhatBindsALiveSymbol) {
  Program p;
  const ValueId x = p.input();
  TensorType born;
  born.dtype = DType::i64;
  const Dim count = p.trace.dims.new_symbol(SymbolKind::born, {}, 3);
  born.sizes = {count, p.trace.dims.constant(1)};
  born.strides = {p.trace.dims.constant(1), p.trace.dims.constant(1)};
  born.offset = p.trace.dims.constant(0);
  CallArg self{CallArg::Kind::tensor, {0}, {}, "", 0};
  const ValueId operands[] = {x};
  const InstrId call = p.builder.call("aten::nonzero", operands, {self}, {born}, {}, false, Reason::call_no_row);
  p.trace.dims.set_source(*p.trace.dims.as_symbol(count), {Source::Kind::value_size, 0, p.trace[call].results[0], 0});
  p.builder.output({Output::Kind::integer, {}, count});
  const Trace after = remove_dead_code(p.trace);
  verify(after);
  EXPECT_EQ(after.instrs.size(), 1u);
}

// A symbol that was read from what is gone has no source: a stale one would name another value, or none.
TEST(DeadCode, LeavesNoSourceOfWhatItDrops) {
  Program p;
  const ValueId x = p.input(), y = p.input();
  const ValueId sum = p.builder.reduce(Op::sum, x, {}, false);
  const Dim item = p.trace.dims.new_symbol(SymbolKind::born, {Source::Kind::item, 0, sum, 0}, 3);
  p.output(p.add(y, y));
  const Trace after = remove_dead_code(p.trace);
  verify(after);
  EXPECT_EQ(after.instrs.size(), 1u);
  EXPECT_EQ(after.dims.info(*after.dims.as_symbol(item)).source, Source());
  EXPECT_EQ(make_plan(after, {}).steps.size(), 1u);
}

// Which arguments a library call refuses is the library's affair: eager makes the call, wanted or not.
TEST(DeadCode, KeepsLibraryCalls) {
  Program p;
  const ValueId x = p.input();
  TensorType born;
  born.sizes = {p.trace.dims.new_symbol(SymbolKind::born, {}, 3)};
  born.strides = {p.trace.dims.constant(1)};
  CallArg self{CallArg::Kind::tensor, {0}, {}, "", 0};
  const ValueId operands[] = {x};
  const InstrId call = p.builder.call("aten::unique", operands, {self}, {born}, {}, false, Reason::call_no_row);
  p.trace.dims.set_source(*p.trace.dims.as_symbol(born.sizes[0]), {Source::Kind::value_size, 0, p.trace[call].results[0], 0});
  p.output(p.add(x, x));
  const Trace after = remove_dead_code(p.trace);
  verify(after);
  EXPECT_EQ(after.instrs.size(), 2u);
  EXPECT_EQ(make_plan(after, {}).steps.size(), 2u);
}

TEST(CommonValues, ViewsFollowTheirRoot) {
  Program p;
  const ValueId x = p.input();
  const ValueId a = p.add(x, x), b = p.add(x, x);
  p.output(p.add(a, p.builder.view(Op::alias, b, {})));
  const Trace after = share_common_values(p.trace);
  verify(after);
  EXPECT_EQ(after.instrs.size(), 3u);
}

TEST(CommonValues, KeepsViewsThatLeaveApart) {
  Program p;
  const ValueId x = p.input();
  p.output(p.builder.view(Op::alias, x, {}));
  p.output(p.builder.view(Op::alias, x, {}));
  const Trace after = share_common_values(p.trace);
  verify(after);
  EXPECT_NE(after.outputs[0].value, after.outputs[1].value);
}

TEST(CommonValues, MergesEqualInstructions) {
  Program p;
  const ValueId x = p.input();
  const ValueId a = p.add(x, x), b = p.add(x, x);
  p.output(p.add(a, b));
  const Trace after = share_common_values(p.trace);
  verify(after);
  EXPECT_EQ(after.instrs.size(), 2u);
}

TEST(CommonValues, KeepsOutputsApart) {
  Program p;
  const ValueId x = p.input();
  p.output(p.add(x, x));
  p.output(p.add(x, x));
  EXPECT_EQ(share_common_values(p.trace).instrs.size(), 2u);
}

TEST(CommonValues, KeepsOutputsApartThatAreViewsOfFreshMemory) {
  Program p;
  const ValueId x = p.input();
  p.output(p.builder.view(Op::alias, p.add(x, x), {}));
  p.output(p.builder.view(Op::alias, p.add(x, x), {}));
  const Trace after = share_common_values(p.trace);
  verify(after);
  EXPECT_NE(after.type(after.outputs[0].value).root, after.type(after.outputs[1].value).root);
}

TEST(CommonValues, AWriteBetweenMakesThemDifferent) {
  Program p;
  const ValueId x = p.input();
  const ValueId before = p.add(x, x);
  p.builder.write(x, before);
  p.output(p.add(before, p.add(x, x)));
  const Trace after = share_common_values(p.trace);
  verify(after);
  EXPECT_EQ(after.instrs.size(), 4u);
}

// A linear layer and the activation of its result. What it becomes: the linear's mode, and how many instructions are left.
struct Layer : Program {
  explicit Layer(bool parameter) {
    TensorType given, weights;
    given.sizes = {trace.dims.new_symbol(SymbolKind::size, {}, 5), trace.dims.constant(3)};
    weights.sizes = {trace.dims.constant(4), trace.dims.constant(3)};
    const ValueId operands[] = {builder.input(given, "x"), builder.input(weights, "weight", parameter)};
    linear = builder.contract(Op::linear, operands, {});
    activated = unary(Op::relu, linear);
    output(activated);
  }
  ValueId unary(Op op, ValueId v) { return builder.pointwise(op, std::span(&v, 1)); }
  std::pair<std::string, size_t> marked() const {
    const Trace after = mark_epilogues(trace);
    verify(after);
    return {after.instrs[0].attrs.mode, after.instrs.size()};
  }
  ValueId linear, activated;
};

TEST(Epilogues, OfAParametersLinearThatNothingElseReads) {
  using Marked = std::pair<std::string, size_t>;
  EXPECT_EQ(Layer(true).marked(), Marked("relu", 1));
  EXPECT_EQ(Layer(false).marked(), Marked("", 2));
  Layer read(true), leaves(true), viewed(true), again(true);
  read.output(read.unary(Op::neg, read.linear));
  leaves.output(leaves.linear);
  Attrs first;
  first.axis = 1, first.start = viewed.trace.dims.constant(0);
  viewed.output(viewed.builder.view(Op::select, viewed.linear, first));
  again.output(again.unary(Op::relu, again.activated));
  EXPECT_EQ(read.marked(), Marked("", 3));
  EXPECT_EQ(leaves.marked(), Marked("", 2));
  EXPECT_EQ(viewed.marked(), Marked("", 3));
  EXPECT_EQ(again.marked(), Marked("relu", 2));
}

// x.add_(y); if (sum(x) > 0) ...: what stands before the branch, and behind it.
constexpr const char* kBranch = R"(trace "branch"
dims
  s0 = arg0.size[0]
  u0 = item(%5) in [0, 1]
  u0 == 1
in
  %0: f32[s0] = "x"
  %1: f32[s0] = "y"
guards
> u0 == 1 after %5  because "branch"
do
  %2: f32[s0] = add %0, %1
  write %0, %2
  %3: f32[] = sum %0, axes=[0]
  %4: f32[] = full value=0.0, dtype=f32
  %5: b8[] = gt %3, %4
  %6: f32[s0] = mul %2, %0
  %7: f32[s0] = mul %6, %4
out %7
)";

TEST(SideTraces, TakeWhatIsHandedOn) {
  const Trace whole = parse_trace(kBranch);
  const Snapshot at{5, {ValueId(2)}, {Symbol(1)}};
  const Trace before = trace_before(whole, at), side = side_trace(whole, at);
  verify(before);
  verify(side);
  ASSERT_EQ(before.outputs.size(), 2u);
  ASSERT_EQ(side.inputs.size(), 4u);
  EXPECT_EQ(side.inputs[3].kind, Input::Kind::integer);
  ASSERT_EQ(side.guards.size(), 1u);
  EXPECT_FALSE(side.guards[0].after);
  EXPECT_TRUE(testable_at_entry(side, side.guards[0]));
  EXPECT_EQ(side.instrs.size(), 3u);             // the number is made anew
}

TEST(SideTraces, RefuseWhatNobodyHeld) {
  const Trace whole = parse_trace(kBranch);
  EXPECT_THROW(side_trace(whole, {5, {}, {Symbol(1)}}), InternalError);
}

TEST(Guards, CheckAndExplainAgree) {
  Program p;
  const Dim a = p.trace.type(p.input()).sizes[0], b = p.trace.type(p.input()).sizes[0];
  const Guard guard{Guard::Kind::less_equal, a, b, {}, "a branch", {}};
  EXPECT_TRUE(holds(guard.kind, 1, 7));
  EXPECT_TRUE(holds(guard.kind, 7, 7));
  EXPECT_FALSE(holds(guard.kind, 7, 1));
  EXPECT_TRUE(testable_at_entry(p.trace, guard));
  const int64_t values[] = {7, 1};
  const GuardMiss miss = explain(p.trace, guard, values);
  EXPECT_EQ(miss.source, "arg0.size[0], arg1.size[0]");
  EXPECT_EQ(miss.seen, "7 and 1");
  EXPECT_NE(miss.expected.find("s0 <= s1"), std::string::npos);
}

}  // namespace
}  // namespace escapement
