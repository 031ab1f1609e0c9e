// Text of traces: what is printed reads back equal, for random traces with every kind of field, and mistakes are placed. Golden
// tests hold the format itself.
#include <gtest/gtest.h>

#include <random>

#include "support/error.h"
#include "trace/builder.h"
#include "trace/guard_relation.h"
#include "trace/verifier.h"

namespace escapement {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(engine_); }
  template <class T>
  const T& pick(const std::vector<T>& from) { return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))]; }

 private:
  std::mt19937_64 engine_;
};

// Traces that need not make sense: text says what is there, not whether it is right.
class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  Trace make() {
    trace_.name = random_.pick<std::string>({"", "f", "a \"name\"\n"});
    for (int i = 0; i < 6; ++i) add_symbol();
    for (int i = 0; i < 8; ++i) dims_.push_back(expression());
    add_facts();
    for (int i = 0; i < 3; ++i) add_input();
    for (int i = 0; i < 12; ++i) add_instr();
    for (int i = 0; i < 4; ++i) add_guard();
    for (int i = 0; i < 5; ++i) add_output();
    return std::move(trace_);
  }

 private:
  bool chance() { return random_.below(2) == 0; }
  DimTable& table() { return trace_.dims; }
  uint32_t small(int64_t n = 4) { return static_cast<uint32_t>(random_.below(n)); }

  void add_symbol() {
    const auto kind = static_cast<SymbolKind>(random_.below(4));
    const auto source = static_cast<Source::Kind>(random_.below(8));
    Source from{source, 0, {}, 0};
    const bool of_value = source >= Source::Kind::value_size;
    if (of_value) from.value = ValueId(small());
    else if (source != Source::Kind::none) from.input = small();
    const bool axis = source == Source::Kind::input_size || source == Source::Kind::input_stride || source == Source::Kind::value_size ||
                      source == Source::Kind::value_stride;
    if (axis) from.dim = small();
    const Dim symbol = table().new_symbol(kind, from, chance() ? std::optional(random_.below(9)) : std::nullopt);
    if (chance()) table().assume_range(symbol, {0, 1000});
    dims_.push_back(symbol);
  }

  Dim expression() {
    const Dim a = random_.pick(dims_), b = random_.pick(dims_), c = table().constant(random_.below(7) + 1);
    switch (random_.below(7)) {
      case 0: return table().add(a, b);
      case 1: return table().sub(a, table().mul(b, c));
      case 2: return table().mul(a, b);
      case 3: return table().floordiv(a, c);
      case 4: return table().mod(a, c);
      case 5: return table().min(a, b);
      default: return table().max(a, c);
    }
  }

  void add_facts() {  // contradictions are refused, which is fine here
    for (int i = 0; i < 3; ++i) {
      try {
        if (chance()) table().assume_equal(random_.pick(dims_), random_.pick(dims_));
        else table().assume_range(expression(), {-1000, 1000 + random_.below(3)});
      } catch (const UserError&) {
        return;
      }
    }
    for (uint32_t i = 0; i < 2; ++i) {  // known only after the facts, but printed before them
      const Range known = table().info(Symbol(i)).range;
      if (known.high > 500 && known.low <= 500) table().assume_range(table().of(Symbol(i)), {known.low, 500});
    }
  }

  TensorType type() {
    TensorType result;
    result.dtype = static_cast<DType>(random_.below(11));
    result.device = static_cast<DeviceKind>(random_.below(3));
    for (int64_t rank = random_.below(4); rank > 0; --rank) {
      result.sizes.push_back(random_.pick(dims_));
      result.strides.push_back(random_.pick(dims_));
    }
    if (chance()) result.strides = Builder(trace_).contiguous_strides(result.sizes);
    if (chance()) result.storage = Storage(small(8)), trace_.storage_count = std::max(trace_.storage_count, result.storage.index + 1);
    if (chance() && !trace_.values.empty()) {
      const ValueId root(small(static_cast<int64_t>(trace_.values.size())));
      if (trace_[root].kind == ValueKind::tensor) result.root = root, result.offset = random_.pick(dims_);
    }
    return result;
  }

  void add_input() {
    if (random_.below(4) == 0) {
      Builder(trace_).input_integer("n");
      return;
    }
    Builder(trace_).input(type(), random_.pick<std::string>({"x", "a b", "self.weight"}), chance());
    Input& input = trace_.inputs.back();
    input.contiguous = chance();
    input.stride_order = chance() ? std::vector<int32_t>{1, 0, 2} : std::vector<int32_t>{};
  }

  Number number() {
    Number n;
    n.kind = static_cast<Number::Kind>(random_.below(5));
    if (n.kind == Number::Kind::boolean) n.integer = random_.below(2);
    if (n.kind == Number::Kind::integer) n.integer = random_.pick<int64_t>({0, -7, 5, INT64_MIN, INT64_MAX});
    if (n.kind == Number::Kind::real) n.real = random_.pick<double>({0.0, -0.0, 0.1, -1e300, 5.0, INFINITY, -INFINITY, NAN});
    if (n.kind == Number::Kind::dim) n.dim = random_.pick(dims_);
    return n;
  }

  Attrs attrs() {
    Attrs a;
    if (chance()) a.axes = {2, 0};
    if (chance()) a.axis = 1;
    a.keepdim = chance();
    if (chance()) a.sizes = {random_.pick(dims_), random_.pick(dims_)};
    if (chance()) a.start = random_.pick(dims_);
    if (chance()) a.step = random_.pick(dims_);
    a.value = number();
    a.value2 = number();
    if (chance()) a.dtype = DType::bf16;
    if (chance()) a.eps = 1e-5;
    if (chance()) a.correction = 1;
    if (chance()) a.mode = "tanh \"x\"";
    return a;
  }

  CallArg call_arg(size_t operands, int32_t& next) {
    CallArg arg;
    arg.kind = static_cast<CallArg::Kind>(random_.below(11));
    const auto operand = [&] { return next < static_cast<int32_t>(operands) && chance() ? next++ : static_cast<int32_t>(random_.below(static_cast<int64_t>(operands))); };
    using Kind = CallArg::Kind;
    if (arg.kind == Kind::tensor) arg.operands = {operand()};
    if (arg.kind == Kind::tensors) for (int64_t n = random_.below(3); n > 0; --n) arg.operands.push_back(chance() ? operand() : -1);
    if (arg.kind == Kind::number) do arg.numbers = {number()}; while (arg.numbers[0].kind == Number::Kind::none);
    if (arg.kind == Kind::boolean) arg.numbers = {number()};
    if (arg.kind == Kind::numbers || arg.kind == Kind::booleans) for (int64_t n = random_.below(3); n > 0; --n) arg.numbers.push_back(number());
    if (arg.kind == Kind::text || arg.kind == Kind::device) arg.text = random_.pick<std::string>({"", "cuda:0", "a \"b\""});
    if (arg.kind == Kind::dtype || arg.kind == Kind::host) arg.code = static_cast<int32_t>(random_.below(40));
    return arg;
  }

  void add_instr() {
    if (trace_.values.empty()) return;
    Instr instr = blank_instr(random_.pick<Op>({Op::add, Op::reshape, Op::sum, Op::write, Op::call, Op::call, Op::linear, Op::full}));
    for (int64_t n = random_.below(4); n > 0; --n) instr.operands.emplace_back(small(static_cast<int64_t>(trace_.values.size())));
    instr.attrs = attrs();
    const bool called = instr.op == Op::call || (instr.op == Op::linear && chance());
    int32_t next = 0;
    if (called) instr.attrs.target = "aten::f";
    if (called && !instr.operands.empty()) for (int n = 0; n < 3; ++n) instr.attrs.args.push_back(call_arg(instr.operands.size(), next));
    if (chance()) instr.effect = chance();
    if (chance()) instr.writes = {0, 2};
    if (chance()) instr.why = Reason::call_random;
    if (chance()) instr.location = Builder(trace_).locate(random_.pick<std::string>({"m.py:3", "a file:4", "/x/y.py:1", "\"q\"", "#1"}));
    std::vector<TensorType> results;
    for (int64_t n = random_.below(3); n > 0; --n) results.push_back(type());
    const InstrId id = Builder(trace_).append(std::move(instr), std::move(results));
    for (ValueId result : trace_[id].results)
      if (random_.below(6) == 0) trace_.values[result.index].kind = ValueKind::none;
  }

  void add_guard() {
    Guard guard;
    guard.kind = static_cast<Guard::Kind>(random_.below(std::ssize(kRelations)));
    guard.left = random_.pick(dims_);
    guard.right = random_.pick(dims_);
    if (chance() && !trace_.instrs.empty()) guard.after = InstrId(small(static_cast<int64_t>(trace_.instrs.size())));
    guard.because = random_.pick<std::string>({"", "add", "a branch"});
    if (chance()) guard.location = Builder(trace_).locate("g.py:1");
    trace_.guards.push_back(guard);
  }

  void add_output() {
    Output output;
    output.kind = static_cast<Output::Kind>(random_.below(5));
    const bool value = output.kind == Output::Kind::value || output.kind == Output::Kind::input;
    if (value && trace_.values.empty()) output.kind = Output::Kind::none;
    else if (value) output.value = ValueId(small(static_cast<int64_t>(trace_.values.size())));
    if (output.kind == Output::Kind::integer || output.kind == Output::Kind::boolean) output.dim = random_.pick(dims_);
    trace_.outputs.push_back(output);
  }

  Random random_;
  Trace trace_;
  std::vector<Dim> dims_;
};

TEST(Text, RandomTracesReadBackEqual) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const Trace trace = Maker(seed).make();
    const std::string text = print(trace);
    try {
      const Trace again = parse_trace(text);
      ASSERT_EQ(print(again), text);
      ASSERT_TRUE(equal(trace, again)) << text;
    } catch (const UserError& error) {
      FAIL() << error.what() << "\n" << text;
    }
  }
}

TEST(Text, EqualitySeesEveryField) {
  const Trace original = Maker(5).make();
  ASSERT_FALSE(original.instrs.empty());
  const auto changed = [&](auto change) {
    Trace other = original;
    change(other);
    return !equal(original, other);
  };
  EXPECT_FALSE(changed([](Trace&) {}));
  EXPECT_TRUE(changed([](Trace& t) { t.name += "x"; }));
  EXPECT_TRUE(changed([](Trace& t) { t.instrs[0].effect = !t.instrs[0].effect; }));
  EXPECT_TRUE(changed([](Trace& t) { t.instrs[0].attrs.eps += 1; }));
  EXPECT_TRUE(changed([](Trace& t) { t.instrs[0].attrs.args.emplace_back(); }));
  EXPECT_TRUE(changed([](Trace& t) { t.instrs[0].operands.emplace_back(); }));
  EXPECT_TRUE(changed([](Trace& t) { t.instrs[0].writes.push_back(9); }));
  EXPECT_TRUE(changed([](Trace& t) { t.guards.pop_back(); }));
  EXPECT_TRUE(changed([](Trace& t) { t.outputs[0].kind = t.outputs[0].kind == Output::Kind::none ? Output::Kind::value : Output::Kind::none; }));
  EXPECT_TRUE(changed([](Trace& t) { t.inputs[0].name += "x"; }));
  EXPECT_TRUE(changed([](Trace& t) { t.dims.new_symbol(SymbolKind::born, {}); }));
  EXPECT_TRUE(changed([](Trace& t) { t.values[0].type.dtype = t.values[0].type.dtype == DType::f32 ? DType::f64 : DType::f32; }));
}

// Cutting a text anywhere, or dropping any one character, never crashes: it is an error with a place, or another trace.
TEST(Text, DamagedTextIsAnErrorWithAPlace) {
  const std::string text = print(Maker(7).make());
  const auto expect_placed = [](const std::string& damaged) {
    try {
      parse_trace(damaged);
    } catch (const UserError& error) {
      EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(error.what()[0]))) << error.what();
    }
  };
  for (size_t i = 0; i < text.size(); i += 3) {
    expect_placed(text.substr(0, i));
    expect_placed(text.substr(0, i) + text.substr(i + 1));
  }
}

}  // namespace
}  // namespace escapement
