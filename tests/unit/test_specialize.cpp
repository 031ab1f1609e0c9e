// Passes of src/specialize and guards of src/guards on small traces made with the Builder.
#include <gtest/gtest.h>

#include "guards/check.h"
#include "specialize/passes.h"
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

TEST(Guards, CheckAndExplainAgree) {
  Program p;
  const Dim a = p.trace.type(p.input()).sizes[0], b = p.trace.type(p.input()).sizes[0];
  const Guard guard{Guard::Kind::broadcast, a, b, {}, "broadcast", {}};
  EXPECT_TRUE(holds(guard.kind, 1, 7));
  EXPECT_TRUE(holds(guard.kind, 7, 7));
  EXPECT_FALSE(holds(guard.kind, 7, 1));
  EXPECT_TRUE(testable_at_entry(p.trace, guard));
  const int64_t values[] = {7, 1};
  const GuardMiss miss = explain(p.trace, guard, values);
  EXPECT_EQ(miss.source, "arg0.size[0], arg1.size[0]");
  EXPECT_EQ(miss.seen, "7 and 1");
  EXPECT_NE(miss.expected.find("s0 broadcasts to s1"), std::string::npos);
}

}  // namespace
}  // namespace escapement
