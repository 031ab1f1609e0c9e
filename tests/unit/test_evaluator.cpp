// The reference evaluator: sizes 0, 1 and primes, strides, aliasing, guards, symbols born on the way, errors.
#include <gtest/gtest.h>

#include "evaluator_support.h"

namespace escapement {
namespace {

using evaluator_test::integer;
using evaluator_test::Program;
using evaluator_test::random_tensor;
using evaluator_test::real;
using evaluator_test::tensor_of;
using Doubles = std::vector<double>;
using Sizes = std::vector<int64_t>;

TEST(Evaluator, PointwiseOfAnySize) {
  for (int64_t n : {0, 1, 7, 257, 1009}) {
    Program p;
    const ValueId x = p.tensor(DType::f32, {n}), y = p.tensor(DType::f32, {n});
    p.result(p.op(Op::add, {p.op(Op::mul, {x, y}), x}));
    const HostTensor a = random_tensor(DType::f32, {n}), b = random_tensor(DType::f32, {n}, 2);
    const Doubles va = a.to_doubles(), vb = b.to_doubles(), got = p.run_one({a, b}).to_doubles();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], float(float(va[i]) * float(vb[i])) + float(va[i]));
  }
}

TEST(Evaluator, HalvesComputeInSingleAndRoundOnce) {
  Program p;
  const ValueId x = p.tensor(DType::bf16, {2});
  Attrs third;
  third.value = real(0.3);
  p.result(p.op(Op::mul, {x}, third));
  p.result(p.op(Op::add, {x}, third));
  auto outputs = p.run({tensor_of(DType::bf16, {2}, {1.0, 3.0})});
  auto bf16 = [](float v) { return double_from_bits(to_bits(double(v), DType::bf16), DType::bf16); };
  EXPECT_EQ(std::get<HostTensor>(outputs[0]).to_doubles(), (Doubles{bf16(0.3f), bf16(3 * 0.3f)}));
  const float rounded = float(bf16(0.3f));  // an addend becomes a tensor of the type, a factor does not
  EXPECT_EQ(std::get<HostTensor>(outputs[1]).to_doubles(), (Doubles{bf16(1 + rounded), bf16(3 + rounded)}));
}

TEST(Evaluator, Broadcasts) {
  Program p;
  TensorType row;
  row.sizes = {p.constant(1), p.trace.dims.new_symbol(SymbolKind::size, {}, 3)};
  const ValueId x = p.tensor(DType::i32, {2, 3}), y = p.b.input(row);
  p.result(p.op(Op::add, {x, y}));
  const HostTensor got = p.run_one({tensor_of(DType::i32, {2, 3}, {1, 2, 3, 4, 5, 6}), tensor_of(DType::f32, {1, 3}, {.5, .25, 0})});
  EXPECT_EQ(got.dtype, DType::f32);
  EXPECT_EQ(got.to_doubles(), (Doubles{1.5, 2.25, 3, 4.5, 5.25, 6}));
}

TEST(Evaluator, ViewsShareMemoryAndWritesShow) {
  Program p;
  const ValueId x = p.tensor(DType::f32, {3, 4});
  Attrs swap, second;
  swap.axes = {1, 0};
  second.axis = 0;
  second.start = p.constant(1);
  const ValueId column = p.b.view(Op::select, p.b.view(Op::permute, x, swap), second);
  const ValueId before = p.op(Op::copy, {x});
  Attrs ten;
  ten.value = integer(10);
  p.b.write(column, p.op(Op::mul, {column}, ten));
  p.result(x);
  p.result(before);
  const HostTensor input = tensor_of(DType::f32, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  auto outputs = p.run({input});
  EXPECT_EQ(input.to_doubles(), (Doubles{0, 10, 2, 3, 4, 50, 6, 7, 8, 90, 10, 11}));
  EXPECT_EQ(std::get<HostTensor>(outputs[0]).storage, input.storage);
  EXPECT_EQ(std::get<HostTensor>(outputs[1]).to_doubles()[1], 1);
}

TEST(Evaluator, SlicesAndReshapes) {
  Program p;
  const ValueId x = p.tensor(DType::i64, {7});
  Attrs every_third, as_matrix;
  every_third.axis = 0;
  every_third.start = p.constant(1);
  every_third.step = p.constant(3);
  every_third.sizes = {p.constant(2)};
  p.result(p.b.view(Op::slice, x, every_third));
  as_matrix.sizes = {p.constant(1), p.size(x, 0)};
  p.result(p.b.view(Op::reshape, x, as_matrix));
  auto outputs = p.run({tensor_of(DType::i64, {7}, {0, 1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(std::get<HostTensor>(outputs[0]).to_doubles(), (Doubles{1, 4}));
  EXPECT_EQ(std::get<HostTensor>(outputs[1]).sizes, (Sizes{1, 7}));
}

TEST(Evaluator, Reductions) {
  Program p;
  const ValueId x = p.tensor(DType::f32, {2, 3});
  p.result(p.b.reduce(Op::sum, x, {0}, false));
  p.result(p.b.reduce(Op::amax, x, {1}, true));
  p.result(p.b.reduce(Op::argmin, x, {}, false));
  p.result(p.b.reduce(Op::sum, p.b.cast(x, DType::b8), {}, false));
  auto outputs = p.run({tensor_of(DType::f32, {2, 3}, {3, 0, 5, -1, 7, 0})});
  EXPECT_EQ(std::get<HostTensor>(outputs[0]).to_doubles(), (Doubles{2, 7, 5}));
  EXPECT_EQ(std::get<HostTensor>(outputs[1]).to_doubles(), (Doubles{5, 7}));
  EXPECT_EQ(std::get<HostTensor>(outputs[1]).sizes, (Sizes{2, 1}));
  EXPECT_EQ(std::get<HostTensor>(outputs[2]).to_doubles(), (Doubles{3}));
  EXPECT_EQ(std::get<HostTensor>(outputs[3]).to_doubles(), (Doubles{4}));
  EXPECT_EQ(std::get<HostTensor>(outputs[3]).dtype, DType::i64);
}

TEST(Evaluator, EmptySums) {
  Program p;
  const ValueId x = p.tensor(DType::f64, {3, 0});
  p.result(p.b.reduce(Op::sum, x, {1}, false));
  EXPECT_EQ(p.run_one({HostTensor::make(DType::f64, {3, 0})}).to_doubles(), (Doubles{0, 0, 0}));
}

TEST(Evaluator, Creates) {
  Program p;
  const ValueId x = p.tensor(DType::f32, {3});
  Attrs full, range;
  full.sizes = {p.size(x, 0)};
  full.value.kind = Number::Kind::dim;
  full.value.dim = p.trace.dims.mul(p.size(x, 0), p.constant(2));
  full.dtype = DType::f32;
  range.sizes = {p.size(x, 0)};
  range.value = integer(5);
  range.value2 = integer(-2);
  range.dtype = DType::i64;
  p.result(p.b.create(Op::full, full));
  p.result(p.b.create(Op::arange, range));
  auto outputs = p.run({random_tensor(DType::f32, {4})});
  EXPECT_EQ(std::get<HostTensor>(outputs[0]).to_doubles(), (Doubles{8, 8, 8, 8}));
  EXPECT_EQ(std::get<HostTensor>(outputs[1]).to_doubles(), (Doubles{5, 3, 1, -1}));
}

TEST(Evaluator, Indexes) {
  Program p;
  const ValueId table = p.tensor(DType::f32, {3, 2}), at = p.tensor(DType::i64, {2, 2});
  const ValueId operands[] = {table, at};
  Attrs axis;
  axis.axis = 0;
  p.result(p.b.index(Op::embedding, operands, {}));
  p.result(p.b.index(Op::gather, operands, axis));
  Attrs first;
  first.axis = 0;
  first.start = p.constant(0);
  const ValueId columns[] = {table, p.b.view(Op::select, at, first)};
  axis.axis = 1;
  p.result(p.b.index(Op::index_select, columns, axis));
  const HostTensor data = tensor_of(DType::f32, {3, 2}, {0, 1, 10, 11, 20, 21});
  auto outputs = p.run({data, tensor_of(DType::i64, {2, 2}, {1, 0, 2, 1})});
  EXPECT_EQ(std::get<HostTensor>(outputs[0]).to_doubles(), (Doubles{10, 11, 0, 1, 20, 21, 10, 11}));
  EXPECT_EQ(std::get<HostTensor>(outputs[1]).to_doubles(), (Doubles{10, 1, 20, 11}));
  EXPECT_EQ(std::get<HostTensor>(outputs[2]).to_doubles(), (Doubles{1, 0, 11, 10, 21, 20}));
  EXPECT_THROW(p.run({data, tensor_of(DType::i64, {2, 2}, {1, 0, 3, 1})}), UserError);
  EXPECT_THROW(p.run({data, tensor_of(DType::i64, {2, 2}, {1, 0, -1, 1})}), UserError);
}

TEST(Evaluator, CatAndPad) {
  Program p;
  const ValueId x = p.tensor(DType::i32, {2, 1}), y = p.tensor(DType::f32, {2, 2});
  const ValueId both[] = {x, y};
  Attrs axis, padding;
  axis.axis = 1;
  p.result(p.b.combine(Op::cat, both, axis));
  padding.sizes = {p.constant(1), p.constant(-1)};
  padding.value = real(9);
  p.result(p.b.combine(Op::pad, std::span(&y, 1), padding));
  auto outputs = p.run({tensor_of(DType::i32, {2, 1}, {7, 8}), tensor_of(DType::f32, {2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(std::get<HostTensor>(outputs[0]).to_doubles(), (Doubles{7, 1, 2, 8, 3, 4}));
  EXPECT_EQ(std::get<HostTensor>(outputs[1]).to_doubles(), (Doubles{9, 1, 9, 3}));
}

TEST(Evaluator, MatrixProducts) {
  Program p;
  const ValueId x = p.tensor(DType::f32, {2, 3}), w = p.tensor(DType::f32, {2, 3}), c = p.tensor(DType::f32, {2});
  const ValueId operands[] = {x, w, c};
  p.result(p.b.contract(Op::linear, operands, {}));
  Attrs first;
  first.axis = 0;
  first.start = p.constant(1);
  const ValueId vector[] = {w, p.b.view(Op::select, x, first)};
  p.result(p.b.contract(Op::matmul, vector, {}));
  auto outputs = p.run({tensor_of(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6}), tensor_of(DType::f32, {2, 3}, {1, 0, 1, 0, 2, 0}),
                        tensor_of(DType::f32, {2}, {100, 200})});
  EXPECT_EQ(std::get<HostTensor>(outputs[0]).to_doubles(), (Doubles{104, 204, 110, 210}));
  EXPECT_EQ(std::get<HostTensor>(outputs[1]).to_doubles(), (Doubles{10, 10}));
}

TEST(Evaluator, FailingGuardsAreNamed) {
  Program p;
  const ValueId x = p.tensor(DType::f32, {3}), y = p.tensor(DType::f32, {3});
  p.result(p.op(Op::add, {x, y}));
  const std::vector<HostInput> inputs{random_tensor(DType::f32, {3}), random_tensor(DType::f32, {4})};
  const Evaluation e = evaluate(p.trace, inputs);
  ASSERT_TRUE(e.failed_guard);
  EXPECT_TRUE(e.outputs.empty());
  const std::string why = explain_guard(p.trace, *e.failed_guard, inputs);
  EXPECT_NE(why.find("s0 = 3"), std::string::npos) << why;
  EXPECT_NE(why.find("s1 = 4"), std::string::npos) << why;
}

TEST(Evaluator, InputsMustFit) {
  Program p;
  p.result(p.tensor(DType::f32, {3}));
  EXPECT_THROW(p.run({}), UserError);
  EXPECT_THROW(p.run({int64_t{3}}), UserError);
  EXPECT_THROW(p.run({random_tensor(DType::f64, {3})}), UserError);
  EXPECT_THROW(p.run({HostTensor::make(DType::f32, {3}, {2})}), UserError);
}

TEST(Evaluator, IntegersComeAndGo) {
  Program p;
  const Dim n = p.b.input_integer();
  Attrs range;
  range.sizes = {n};
  range.value = integer(0);
  range.dtype = DType::f32;
  p.result(p.b.create(Op::arange, range));
  Output output;
  output.kind = Output::Kind::integer;
  output.dim = p.trace.dims.mul(n, n);
  p.b.output(output);
  auto outputs = p.run({int64_t{3}});
  EXPECT_EQ(std::get<HostTensor>(outputs[0]).to_doubles(), (Doubles{0, 1, 2}));
  EXPECT_EQ(std::get<int64_t>(outputs[1]), 9);
}

// A call makes a tensor of a size that only it knows; what follows uses that size.
TEST(Evaluator, CallsBearSizes) {
  Program p;
  const ValueId x = p.tensor(DType::f32, {4});
  const ValueId future(static_cast<uint32_t>(p.trace.values.size()));
  const Dim born = p.trace.dims.new_symbol(SymbolKind::born, {Source::Kind::value_size, 0, future, 0});
  const InstrId call = p.b.call("test::positive", std::span(&x, 1), {}, {p.b.fresh(DType::f32, {born})}, {}, false, Reason::call_no_row);
  const ValueId kept = p.trace[call].results[0];
  p.result(p.op(Op::add, {kept, kept}));
  EvaluatorHooks hooks;
  hooks.call = [](const Trace&, const Instr&, std::span<const HostTensor> operands) {
    std::vector<double> positive;
    for (double v : operands[0].to_doubles())
      if (v > 0) positive.push_back(v);
    const auto count = static_cast<int64_t>(positive.size());
    return std::vector{HostTensor::from_doubles(DType::f32, {count}, positive)};
  };
  const HostTensor input = tensor_of(DType::f32, {4}, {1, -2, 3, 0});
  EXPECT_EQ(std::get<HostTensor>(p.run({input}, hooks)[0]).to_doubles(), (Doubles{2, 6}));
  EXPECT_THROW(p.run({input}), UserError);
}

}  // namespace
}  // namespace escapement
