// Program on hand-made plans with a kernel in plain C++: entry checks, outputs and their aliasing, library calls, packed weights,
// errors, threads, memory. What needs the recorder and compiled code is tested through Region.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "../unit/run_support.h"
#include "torch/program/program.h"

namespace escapement {
namespace {

using run_test::map_nest;
using run_test::PlanBuilder;

Source input_size(uint32_t input, uint32_t dim) {
  Source source;
  source.kind = Source::Kind::input_size;
  source.input = input;
  source.dim = dim;
  return source;
}

CallArg tensor_arg(int32_t operand) {
  CallArg arg;
  arg.kind = CallArg::Kind::tensor;
  arg.operands = {operand};
  return arg;
}

// Adds a library call as instruction and step.
void add_call(PlanBuilder& builder, Op op, std::string target, std::vector<ValueId> operands, std::vector<CallArg> args,
              std::vector<ValueId> results, bool into_planned, std::vector<uint32_t> writes = {}) {
  Instr instr;
  instr.op = op;
  instr.attrs.target = std::move(target);
  instr.attrs.args = std::move(args);
  instr.operands = std::move(operands);
  instr.results = std::move(results);
  instr.effect = !writes.empty();
  instr.writes = std::move(writes);
  CallStep step;
  step.instr = InstrId(static_cast<uint32_t>(builder.plan.trace.instrs.size()));
  step.into_planned = into_planned;
  builder.plan.trace.instrs.push_back(std::move(instr));
  builder.plan.steps.emplace_back(std::in_place_type<CallStep>, std::move(step));
}

Program make_program(PlanBuilder builder, std::vector<at::Tensor> captured = {}, const Options& options = {}) {
  auto compiled = std::make_shared<Compiled>();
  compiled->plan = std::move(builder.plan);
  compiled->code = std::move(builder.code);
  Recording recording;
  recording.captured = std::move(captured);
  return Program(std::move(compiled), std::move(recording), options);
}

std::vector<Argument> arguments(const std::vector<at::Tensor>& tensors) {
  std::vector<Argument> result;
  for (const at::Tensor& tensor : tensors) result.push_back({&tensor, 0});
  return result;
}

std::vector<c10::IValue> run(const Program& program, const std::vector<at::Tensor>& tensors) {
  std::vector<c10::IValue> outputs;
  EXPECT_TRUE(program.fits(arguments(tensors))) << program.explain_miss(arguments(tensors)).source;
  EXPECT_EQ(program.run(arguments(tensors), outputs), Program::Outcome::done);
  return outputs;
}

// out = a + (a + b)
Program chain_program() {
  PlanBuilder builder;
  const Dim m = builder.symbol(SymbolKind::size, input_size(0, 0)), n = builder.symbol(SymbolKind::size, input_size(0, 1));
  const ValueId a = builder.value({m, n}, Buffer::Kind::input), b = builder.value({m, n}, Buffer::Kind::input);
  const ValueId t = builder.value({m, n}, Buffer::Kind::temporary);
  const ValueId out = builder.output(builder.value({m, n}, Buffer::Kind::output));
  const uint32_t kernel = builder.kernel(map_nest(2, 2));
  builder.add(kernel, {a, b}, t);
  builder.add(kernel, {a, t}, out);
  return make_program(std::move(builder));
}

void check_chain(const Program& program, int64_t m, int64_t n) {
  const at::Tensor a = at::randn({m, n}), b = at::randn({m, n});
  const at::Tensor out = run(program, {a, b})[0].toTensor();
  EXPECT_EQ(out.sizes(), (c10::IntArrayRef{m, n}));
  EXPECT_TRUE(out.is_contiguous());
  EXPECT_TRUE(at::equal(out, at::add(a, at::add(a, b)))) << m << "x" << n;
}

TEST(Program, RunsAtAnyShape) {
  const Program program = chain_program();
  for (const int64_t m : {3, 1, 0, 101, 700}) {
    for (const int64_t n : {5, 1, 0, 97, 701}) check_chain(program, m, n);
  }
}

TEST(Program, OutputsBehaveLikeAnyTensor) {
  const Program program = chain_program();
  const at::Tensor a = at::randn({600, 700}), b = at::randn({600, 700});
  at::Tensor first = run(program, {a, b})[0].toTensor(), copy = first.clone();
  const at::Tensor second = run(program, {b, a})[0].toTensor();
  EXPECT_NE(first.data_ptr(), second.data_ptr());
  EXPECT_TRUE(at::equal(first, copy));
  first.resize_({2000, 700});
  first.zero_();
  EXPECT_EQ(first.size(0), 2000);
  EXPECT_FALSE(second.requires_grad());
}

TEST(Program, SaysWhatDoesNotFit) {
  const Program program = chain_program();
  const at::Tensor a = at::randn({3, 5});
  const auto miss = [&](const std::vector<at::Tensor>& tensors) {
    EXPECT_FALSE(program.fits(arguments(tensors)));
    return program.explain_miss(arguments(tensors));
  };
  EXPECT_EQ(miss({a, at::randn({3, 4})}).source, "arg1.size[1]");
  EXPECT_EQ(miss({a, a.to(at::kDouble)}).source, "arg1.dtype");
  EXPECT_EQ(miss({a, at::randn({3, 5, 1})}).source, "arg1.rank");
  EXPECT_EQ(miss({a, at::randn({5, 3}).t()}).source, "arg1.layout");
  EXPECT_EQ(miss({a, at::Tensor()}).source, "arg1.kind");
  EXPECT_EQ(miss({a, a.to_sparse()}).source, "arg1.kind");
  EXPECT_EQ(miss({a}).source, "the call");
}

// The quick check is compiled from the relations that explain walks one by one: they must agree about every call.
TEST(Program, CheckAndExplainAgree) {
  const Program program = chain_program();
  std::vector<at::Tensor> kinds;
  for (const int64_t m : {3, 1, 0}) {
    const at::Tensor a = at::randn({m, 5});
    for (const at::Tensor& t : {a, a.to(at::kDouble), a.t(), a.t().contiguous().t(), a.unsqueeze(0), a.flatten(), at::_neg_view(a), a.expand({m, 5}),
                                a.slice(1, 0, 5, 2), a.to_sparse(), at::Tensor(), at::randn({1, 1, 1, 1, 1, m, 5})})
      kinds.push_back(t);
  }
  size_t fitting = 0;
  for (const at::Tensor& a : kinds) {
    for (const at::Tensor& b : kinds) {
      const Miss miss = program.explain_miss(arguments({a, b}));
      EXPECT_EQ(program.fits(arguments({a, b})), !miss) << miss.source << " " << miss.expected << " " << miss.seen;
      fitting += !miss;
    }
  }
  EXPECT_GT(fitting, 3u);
}

// Relations that no recording of today makes: an integer that equals an expression, a layout without an order of axes.
TEST(Program, RelationsOfHandMadeTracesAreChecked) {
  const auto make = [](uint32_t left_out) {
    PlanBuilder builder;
    Trace& trace = builder.plan.trace;
    const Dim n = builder.symbol(SymbolKind::size, input_size(0, 0));
    Source stride = input_size(0, 0);
    stride.kind = Source::Kind::input_stride;
    const ValueId x = builder.value({n}, Buffer::Kind::input);
    trace.values[x.index].type.strides = {builder.symbol(SymbolKind::stride, stride)};
    trace.inputs.back().contiguous = false;
    Input number;
    number.kind = Input::Kind::integer;
    number.dim = trace.dims.mul(n, trace.dims.constant(2));
    number.name = "arg1";
    trace.inputs.push_back(number);
    return make_program(std::move(builder), {}, {.drop_guard = left_out});
  };
  const at::Tensor stepped = at::randn({8}).slice(0, 0, 8, 2), plain = at::randn({4});
  const auto call = [](const at::Tensor& x, int64_t n) { return std::vector<Argument>{{&x, 0}, {nullptr, n}}; };
  const Program program = make(0);
  const std::vector<std::string> relations = program.relations();
  EXPECT_EQ(program.explain_miss(call(plain, 8)).source, "arg0.layout");
  EXPECT_EQ(program.explain_miss(call(stepped, 7)).source, "arg1.value");
  for (uint32_t k = 1; k <= relations.size(); ++k) {
    const Program without = make(k);
    EXPECT_EQ(without.fits(call(plain, 8)), relations[k - 1] == "arg0 is not contiguous");
    EXPECT_EQ(without.fits(call(stepped, 7)), relations[k - 1] == "arg1 == 2*s0");
  }
}

TEST(Program, ManyWrittenInputsAreToldApartInOnePass) {
  PlanBuilder builder;
  const Dim n = builder.symbol(SymbolKind::size, input_size(0, 0));
  std::vector<ValueId> values;
  for (int i = 0; i < 6; ++i) values.push_back(builder.value({n}, Buffer::Kind::input));
  for (int i = 0; i < 4; ++i) {
    Instr write;
    write.op = Op::write;
    write.operands = {values[i], values[5]};
    write.writes = {0};
    write.effect = true;
    builder.plan.trace.instrs.push_back(write);
  }
  const Program program = make_program(std::move(builder));
  const at::Tensor memory = at::randn({100});
  const auto parts = [&](std::vector<int64_t> starts) {
    std::vector<at::Tensor> tensors;
    for (const int64_t start : starts) tensors.push_back(memory.narrow(0, start, 7));
    return tensors;
  };
  EXPECT_TRUE(program.fits(arguments(parts({70, 10, 30, 20, 50, 60}))));
  EXPECT_TRUE(program.fits(arguments(parts({70, 10, 30, 20, 50, 53}))));   // two that are only read may overlap
  EXPECT_FALSE(program.fits(arguments(parts({70, 10, 30, 20, 50, 13}))));
  EXPECT_FALSE(program.fits(arguments(parts({70, 10, 30, 24, 50, 60}))));
}

TEST(Program, EightThreadsAtOnce) {
  const Program program = chain_program();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) check_chain(program, 1 + (t * 7 + i) % 13, 1 + (t + i * 3) % 29);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

size_t resident_bytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4096;
}

TEST(Program, MemoryDoesNotGrowOverTenThousandShapes) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer keeps what was freed, to see whether somebody touches it";
#endif
  const Program program = chain_program();
  for (int64_t i = 0; i < 200; ++i) check_chain(program, 1 + i % 100, 100 + i % 90);
  const size_t before = resident_bytes();
  for (int64_t i = 0; i < 10000; ++i) {
    const at::Tensor a = at::ones({1 + i % 100, 1 + i / 100});
    run(program, {a, a});
  }
  EXPECT_LT(resident_bytes(), before + (size_t{16} << 20));
}

// y = linear(x, w, b), with an activation perhaps; w and b are captured.
Program linear_program(const at::Tensor& w, const at::Tensor& b, const std::string& epilogue, bool pack, size_t rank = 2) {
  PlanBuilder builder;
  std::vector<Dim> sizes;
  for (uint32_t d = 0; d + 1 < rank; ++d) sizes.push_back(builder.symbol(SymbolKind::size, input_size(0, d)));
  const Dim k = builder.constant(w.size(1)), n = builder.constant(w.size(0));
  std::vector<Dim> in = sizes, out = sizes;
  in.push_back(k);
  out.push_back(n);
  const ValueId x = builder.value(in, Buffer::Kind::input), weight = builder.value({n, k}, Buffer::Kind::input);
  const ValueId bias = builder.value({n}, Buffer::Kind::input);
  builder.plan.trace.inputs[1].parameter = builder.plan.trace.inputs[2].parameter = true;
  const ValueId y = builder.output(builder.value(out, Buffer::Kind::output));
  add_call(builder, Op::linear, "aten::linear", {x, weight, bias}, {tensor_arg(0), tensor_arg(1), tensor_arg(2)}, {y}, true);
  builder.plan.trace.instrs.back().attrs.mode = epilogue;
  return make_program(std::move(builder), {w, b}, {.pack_weights = pack});
}

double worst(const at::Tensor& a, const at::Tensor& b) { return a.numel() == 0 ? 0 : a.sub(b).abs().max().item().toDouble(); }

TEST(Program, PlainLinearIsEagersBitForBit) {
  const at::Tensor w = at::randn({48, 64}), b = at::randn({48});
  const Program two = linear_program(w, b, "", false), three = linear_program(w, b, "", false, 3);
  for (const int64_t m : {1, 2, 7, 33, 0}) {
    const at::Tensor x = at::randn({m, 64}), x3 = at::randn({3, m, 64});
    EXPECT_TRUE(at::equal(run(two, {x})[0].toTensor(), at::linear(x, w, b))) << m;
    EXPECT_TRUE(at::equal(run(three, {x3})[0].toTensor(), at::linear(x3, w, b))) << m;
  }
}

TEST(Program, LinearTakesItsActivation) {
  const at::Tensor w = at::randn({96, 128}), b = at::randn({96});
  for (const bool pack : {false, true}) {
    const Program relu = linear_program(w, b, "relu", pack), gelu = linear_program(w, b, "gelu", pack);
    const Program tanh_gelu = linear_program(w, b, "gelu_tanh", pack), silu = linear_program(w, b, "silu", pack);
    for (const int64_t m : {1, 5, 33, 0}) {
      const at::Tensor x = at::randn({m, 128}), y = at::linear(x, w, b);
      EXPECT_LT(worst(run(relu, {x})[0].toTensor(), at::relu(y)), 2e-4);
      EXPECT_LT(worst(run(gelu, {x})[0].toTensor(), at::gelu(y)), 2e-4);
      EXPECT_LT(worst(run(tanh_gelu, {x})[0].toTensor(), at::gelu(y, "tanh")), 2e-4);
      EXPECT_LT(worst(run(silu, {x})[0].toTensor(), y.mul(y.sigmoid())), 2e-4);
    }
  }
}

TEST(Program, APackedWeightFollowsEveryChangeOfTheParameter) {
  at::Tensor w = at::randn({96, 128}), b = at::randn({96});
  const Program program = linear_program(w, b, "", true);
  const at::Tensor x = at::randn({4, 128});
  const auto check = [&] { EXPECT_LT(worst(run(program, {x})[0].toTensor(), at::linear(x, w, b)), 2e-4); };
  check();
  w.mul_(-3);
  check();
  w.detach().mul_(2);                   // another tensor, the same memory and counter
  check();
  w.set_data(at::randn({96, 128}));     // the same tensor, other memory
  check();
  const at::Tensor data = w.variable_data();  // as Python's .data: a counter of its own
  data.copy_(at::randn({96, 128}));
  check();
}

TEST(Program, ACallMayBringSizesToLife) {
  PlanBuilder builder;
  Source born;
  born.kind = Source::Kind::value_size;
  born.value = ValueId(1);
  const Dim s = builder.symbol(SymbolKind::size, input_size(0, 0)), u = builder.symbol(SymbolKind::born, born);
  const ValueId x = builder.value({s}, Buffer::Kind::input);
  const ValueId positions = builder.output(builder.value({u, builder.constant(1)}, Buffer::Kind::call));
  builder.plan.trace.values[1].type.dtype = DType::i64;
  add_call(builder, Op::call, "aten::nonzero", {x}, {tensor_arg(0)}, {positions}, false);
  builder.plan.trace.outputs.push_back({Output::Kind::integer, {}, u});
  const Program program = make_program(std::move(builder));
  for (const int64_t n : {5, 0, 3, 100}) {
    const at::Tensor v = at::randn({n}).relu();
    const auto outputs = run(program, {v});
    EXPECT_TRUE(at::equal(outputs[0].toTensor(), at::nonzero(v)));
    EXPECT_EQ(outputs[1].toInt(), at::nonzero(v).size(0));
  }
}

TEST(Program, ViewsOfInputsAndRepeatedOutputsKeepTheirIdentity) {
  PlanBuilder builder;
  const Dim m = builder.symbol(SymbolKind::size, input_size(0, 0)), n = builder.symbol(SymbolKind::size, input_size(0, 1));
  const ValueId x = builder.value({m, n}, Buffer::Kind::input);
  const ValueId view = builder.value({n, m}, Buffer::Kind::temporary);
  TensorType& type = builder.plan.trace.values[view.index].type;
  type.root = x;
  type.strides = {builder.constant(1), n};
  builder.plan.buffer_of[view.index] = builder.plan.buffer_of[x.index];
  builder.plan.buffers.pop_back();
  builder.plan.slot_count = 0;
  for (const ValueId value : {x, view, view, x}) builder.output(value);
  builder.plan.trace.outputs.push_back({Output::Kind::none, {}, {}});
  builder.plan.trace.outputs.push_back({Output::Kind::boolean, {}, m});
  const Program program = make_program(std::move(builder));
  const at::Tensor input = at::randn({3, 4});
  const auto outputs = run(program, {input});
  EXPECT_TRUE(outputs[0].toTensor().is_same(input));
  EXPECT_TRUE(outputs[3].toTensor().is_same(input));
  EXPECT_TRUE(outputs[1].toTensor().is_same(outputs[2].toTensor()));
  EXPECT_TRUE(at::equal(outputs[1].toTensor(), input.t()));
  EXPECT_TRUE(outputs[1].toTensor().is_alias_of(input));
  EXPECT_TRUE(outputs[4].isNone());
  EXPECT_TRUE(outputs[5].toBool());
}

TEST(Program, AWrittenInputMovesItsVersionAndMustNotOverlapOthers) {
  PlanBuilder builder;
  const Dim n = builder.symbol(SymbolKind::size, input_size(0, 0));
  const ValueId x = builder.value({n}, Buffer::Kind::input), y = builder.value({n}, Buffer::Kind::input);
  Instr write;
  write.op = Op::write;
  write.operands = {y, x};
  write.writes = {0};
  write.effect = true;
  builder.plan.trace.instrs.push_back(write);
  builder.add(builder.kernel(map_nest(1, 1)), {x}, y);
  const Program program = make_program(std::move(builder));
  const at::Tensor a = at::randn({7}), b = at::zeros({7});
  const auto version = b._version();
  run(program, {a, b});
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_GT(b._version(), version);
  const at::Tensor both = at::randn({14});
  EXPECT_TRUE(program.fits(arguments({both.narrow(0, 0, 7), both.narrow(0, 7, 7)})));
  const std::vector<at::Tensor> overlapping = {both.narrow(0, 0, 7), both.narrow(0, 3, 7)};
  EXPECT_FALSE(program.fits(arguments(overlapping)));
  EXPECT_EQ(program.explain_miss(arguments(overlapping)).source, "arg1.memory");
}

TEST(Program, WhatTheLibraryRefusesIsSaidAndTheProgramStaysUsable) {
  PlanBuilder builder;
  const Dim m = builder.symbol(SymbolKind::size, input_size(0, 0)), n = builder.symbol(SymbolKind::size, input_size(1, 0));
  const ValueId x = builder.value({m, m}, Buffer::Kind::input), y = builder.value({n, n}, Buffer::Kind::input);
  const ValueId out = builder.output(builder.value({m, m}, Buffer::Kind::output));
  add_call(builder, Op::mm, "aten::mm", {x, y}, {tensor_arg(0), tensor_arg(1)}, {out}, true);
  const Program program = make_program(std::move(builder));
  const at::Tensor a = at::randn({3, 3}), b = at::randn({4, 4});
  std::vector<c10::IValue> outputs;
  EXPECT_EQ(program.run(arguments({a, b}), outputs), Program::Outcome::refused_clean);
  EXPECT_TRUE(outputs.empty());
  EXPECT_TRUE(at::equal(run(program, {a, a})[0].toTensor(), a.mm(a)));
}

}  // namespace
}  // namespace escapement
