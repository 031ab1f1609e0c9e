// Composites: each expansion verifies, and its value is the formula's, computed here in double.
#include <gtest/gtest.h>

#include <numeric>

#include "evaluator_support.h"
#include "trace/expand.h"

namespace escapement {
namespace {

using evaluator_test::integer;
using evaluator_test::Program;
using evaluator_test::random_tensor;
using evaluator_test::real;
using evaluator_test::tensor_of;
using Doubles = std::vector<double>;

// Runs one composite on inputs of these values, as a trace of its own; also checks that the expansion is a valid trace.
HostTensor run(Op op, std::vector<HostTensor> inputs, Attrs attrs = {}) {
  Program p;
  std::vector<ValueId> operands;
  for (const HostTensor& t : inputs) operands.push_back(p.tensor(t.dtype, t.sizes));
  p.result(p.b.composite(op, operands, attrs));
  const Trace expanded = expand_composites(p.trace);
  verify(expanded);
  for (const Instr& instr : expanded.instrs) EXPECT_NE(info(instr.op).kind, OpKind::composite);
  EXPECT_EQ(to_string(expanded, expanded.type(expanded.outputs[0].value)).substr(0, 4),
            to_string(p.trace, p.trace.type(p.trace.outputs[0].value)).substr(0, 4));
  return p.run_one({inputs.begin(), inputs.end()});
}

void expect_near(const Doubles& got, const Doubles& wanted, double tolerance = 2e-6) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i])) EXPECT_TRUE(std::isnan(got[i])) << i;
    else if (std::isinf(wanted[i])) EXPECT_EQ(got[i], wanted[i]) << i;
    else EXPECT_NEAR(got[i], wanted[i], tolerance * std::max(1.0, std::abs(wanted[i]))) << i;
  }
}

Attrs over(std::vector<int32_t> axes, bool keepdim = false) {
  Attrs attrs;
  attrs.axes = std::move(axes);
  attrs.keepdim = keepdim;
  return attrs;
}

Attrs along(int32_t axis) {
  Attrs attrs;
  attrs.axis = axis;
  return attrs;
}

// f of every row of a matrix with `n` columns, joined.
template <class F>
Doubles by_rows(const Doubles& x, size_t n, F f) {
  Doubles result;
  for (size_t begin = 0; begin < x.size(); begin += n) {
    const Doubles row(x.begin() + static_cast<std::ptrdiff_t>(begin), x.begin() + static_cast<std::ptrdiff_t>(begin + n));
    for (double v : f(row)) result.push_back(v);
  }
  return result;
}

double mean(const Doubles& row) { return std::accumulate(row.begin(), row.end(), 0.0) / double(row.size()); }
double variance(const Doubles& row, double correction) {
  double sum = 0;
  for (double v : row) sum += (v - mean(row)) * (v - mean(row));
  return sum / (double(row.size()) - correction);
}
Doubles softmax(const Doubles& row) {
  Doubles e;
  for (double v : row) e.push_back(std::exp(v));
  const double total = std::accumulate(e.begin(), e.end(), 0.0);
  for (double& v : e) v /= total;
  return e;
}
Doubles normalised(const Doubles& row, double eps) {
  Doubles result;
  for (double v : row) result.push_back((v - mean(row)) / std::sqrt(variance(row, 0) + eps));
  return result;
}

TEST(Expand, Statistics) {
  for (int64_t n : {1, 2, 31, 1009}) {
    const HostTensor x = random_tensor(DType::f32, {3, n});
    const Doubles v = x.to_doubles();
    const auto columns = static_cast<size_t>(n);
    expect_near(run(Op::mean, {x}, over({1})).to_doubles(), by_rows(v, columns, [](const Doubles& r) { return Doubles{mean(r)}; }));
    Attrs attrs = over({1}, true);
    attrs.correction = 1;
    const auto unbiased = [](const Doubles& r) { return Doubles{r.size() < 2 ? NAN : variance(r, 1)}; };
    expect_near(run(Op::var, {x}, attrs).to_doubles(), by_rows(v, columns, unbiased));
    attrs.correction = 0;
    const auto deviation = [](const Doubles& r) { return Doubles{std::sqrt(variance(r, 0))}; };
    expect_near(run(Op::std, {x}, attrs).to_doubles(), by_rows(v, columns, deviation));
  }
}

TEST(Expand, StatisticsOfNothing) {
  EXPECT_TRUE(std::isnan(run(Op::mean, {HostTensor::make(DType::f32, {0})}).to_doubles()[0]));
  Attrs attrs;
  attrs.correction = 3;
  EXPECT_EQ(run(Op::var, {tensor_of(DType::f32, {2}, {1, 2})}, attrs).to_doubles()[0], INFINITY);  // eager: divisor max(0, n - 3)
  EXPECT_TRUE(std::isnan(run(Op::var, {HostTensor::make(DType::f64, {0})}, attrs).to_doubles()[0]));
  attrs.correction = -5;  // leaves five to divide by, of nothing
  EXPECT_TRUE(std::isnan(run(Op::var, {HostTensor::make(DType::f64, {0})}, attrs).to_doubles()[0]));
  EXPECT_EQ(run(Op::var, {tensor_of(DType::f32, {1}, {3})}, attrs).to_doubles()[0], 0);
}

TEST(Expand, HalvesRoundOnce) {
  const HostTensor x = tensor_of(DType::bf16, {4}, {256, 1, 1, 1});  // the sum 259 is no bf16
  EXPECT_EQ(run(Op::mean, {x}).to_doubles()[0], double_from_bits(to_bits(259.0 / 4, DType::bf16), DType::bf16));
}

TEST(Expand, Norms) {
  const HostTensor x = tensor_of(DType::f32, {3}, {3, -4, 0});
  const std::pair<double, double> wanted[] = {{0, 2}, {1, 7}, {2, 5}, {INFINITY, 4}, {-INFINITY, 0}, {3, std::cbrt(91.0)}};
  for (auto [p, value] : wanted) {
    Attrs attrs;
    attrs.value = real(p);
    expect_near(run(Op::norm, {x}, attrs).to_doubles(), {value});
  }
}

TEST(Expand, Softmax) {
  const HostTensor x = random_tensor(DType::f32, {5, 37});
  const Doubles wanted = by_rows(x.to_doubles(), 37, softmax);
  expect_near(run(Op::softmax, {x}, along(1)).to_doubles(), wanted);
  Doubles logs;
  for (double v : wanted) logs.push_back(std::log(v));
  expect_near(run(Op::log_softmax, {x}, along(1)).to_doubles(), logs);
  EXPECT_TRUE(std::isnan(run(Op::softmax, {tensor_of(DType::f32, {1, 2}, {-INFINITY, -INFINITY})}, along(1)).to_doubles()[0]));
}

TEST(Expand, SoftmaxBackward) {
  const HostTensor g = random_tensor(DType::f64, {1, 3}, 2), x = random_tensor(DType::f64, {1, 3});
  const Doubles y = softmax(x.to_doubles()), grad = g.to_doubles();
  double dot = 0, total = 0;
  for (size_t i = 0; i < 3; ++i) dot += y[i] * grad[i], total += grad[i];
  Doubles wanted, log_wanted, logs;
  for (size_t i = 0; i < 3; ++i) {
    wanted.push_back((grad[i] - dot) * y[i]);
    log_wanted.push_back(grad[i] - y[i] * total);
    logs.push_back(std::log(y[i]));
  }
  expect_near(run(Op::softmax_backward, {g, tensor_of(DType::f64, {1, 3}, y)}, along(1)).to_doubles(), wanted, 1e-14);
  expect_near(run(Op::log_softmax_backward, {g, tensor_of(DType::f64, {1, 3}, logs)}, along(1)).to_doubles(), log_wanted, 1e-14);
}

TEST(Expand, LogSumExp) {
  const HostTensor x = tensor_of(DType::f32, {5, 2}, {1000, 1000, -INFINITY, -INFINITY, INFINITY, 0, INFINITY, -INFINITY, NAN, 1});
  for (bool keepdim : {false, true})
    expect_near(run(Op::logsumexp, {x}, over({1}, keepdim)).to_doubles(), {1000 + std::log(2.0), -INFINITY, INFINITY, INFINITY, NAN});
}

TEST(Expand, LayerNorm) {
  const HostTensor x = random_tensor(DType::f32, {3, 53}), w = random_tensor(DType::f32, {53}, 2), b = random_tensor(DType::f32, {53}, 3);
  const Doubles weights = w.to_doubles(), biases = b.to_doubles();
  for (int form = 0; form < 4; ++form) {
    Attrs attrs = over({1});
    attrs.eps = 1e-5;
    std::vector<HostTensor> inputs{x};
    if (form & 1) inputs.push_back(w);
    if (form & 2) inputs.push_back(b);
    if (form == 2) attrs.mode = "bias";
    const Doubles wanted = by_rows(x.to_doubles(), 53, [&](const Doubles& r) {
      Doubles y = normalised(r, 1e-5);
      for (size_t i = 0; i < y.size(); ++i) y[i] = y[i] * (form & 1 ? weights[i] : 1) + (form & 2 ? biases[i] : 0);
      return y;
    });
    expect_near(run(Op::layer_norm, inputs, attrs).to_doubles(), wanted, 4e-6);
  }
}

TEST(Expand, RmsNorm) {
  const HostTensor x = random_tensor(DType::f32, {2, 19}), w = random_tensor(DType::f32, {19}, 2);
  const Doubles weights = w.to_doubles();
  Attrs attrs = over({1});
  attrs.eps = 1e-6;
  const Doubles wanted = by_rows(x.to_doubles(), 19, [&](Doubles r) {
    double squares = 0;
    for (double v : r) squares += v * v;
    for (size_t i = 0; i < r.size(); ++i) r[i] *= weights[i] / std::sqrt(squares / 19 + 1e-6);
    return r;
  });
  expect_near(run(Op::rms_norm, {x, w}, attrs).to_doubles(), wanted);
}

TEST(Expand, GroupNorm) {
  const HostTensor x = random_tensor(DType::f32, {2, 6, 5}), w = random_tensor(DType::f32, {6}, 2), b = random_tensor(DType::f32, {6}, 3);
  Attrs attrs = along(3);
  attrs.eps = 1e-5;
  Doubles wanted = by_rows(x.to_doubles(), 10, [](const Doubles& r) { return normalised(r, 1e-5); });
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] * w.to_doubles()[i / 5 % 6] + b.to_doubles()[i / 5 % 6];
  expect_near(run(Op::group_norm, {x, w, b}, attrs).to_doubles(), wanted, 4e-6);
}

TEST(Expand, BatchNorm) {
  const HostTensor x = random_tensor(DType::f32, {2, 3, 4}), w = random_tensor(DType::f32, {3}, 2), b = random_tensor(DType::f32, {3}, 3),
                   m = random_tensor(DType::f32, {3}, 4), v = tensor_of(DType::f32, {3}, {0.5, 1, 2});
  Attrs attrs;
  attrs.eps = 1e-5;
  Doubles wanted = x.to_doubles();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const size_t c = i / 4 % 3;
    wanted[i] = (wanted[i] - m.to_doubles()[c]) / std::sqrt(v.to_doubles()[c] + 1e-5) * w.to_doubles()[c] + b.to_doubles()[c];
  }
  expect_near(run(Op::batch_norm, {x, w, b, m, v}, attrs).to_doubles(), wanted, 4e-6);
}

TEST(Expand, Triangles) {
  const HostTensor x = tensor_of(DType::i32, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run(Op::tril, {x}).to_doubles(), (Doubles{1, 0, 0, 4, 5, 0}));
  EXPECT_EQ(run(Op::triu, {x}).to_doubles(), (Doubles{1, 2, 3, 0, 5, 6}));
  Program p;
  Attrs attrs;
  attrs.start = p.constant(1);
  const ValueId v = p.tensor(DType::i32, {2, 3});
  p.result(p.b.composite(Op::triu, std::span(&v, 1), attrs));
  EXPECT_EQ(p.run_one({x}).to_doubles(), (Doubles{0, 2, 3, 0, 0, 6}));
}

TEST(Expand, MaskedFill) {
  const HostTensor x = tensor_of(DType::bf16, {3}, {1, 2, 3}), mask = tensor_of(DType::b8, {3}, {0, 1, 0});
  Attrs attrs;
  attrs.value = real(-0.5);
  const HostTensor got = run(Op::masked_fill, {x, mask}, attrs);
  EXPECT_EQ(got.dtype, DType::bf16);
  EXPECT_EQ(got.to_doubles(), (Doubles{1, -0.5, 3}));
}

TEST(Expand, Glu) {
  const HostTensor x = tensor_of(DType::f32, {1, 4}, {1, 2, 0, 1});
  expect_near(run(Op::glu, {x}, along(1)).to_doubles(), {0.5, 2 / (1 + std::exp(-1.0))});
}

// A view of an expanded composite, and a write into it.
TEST(Expand, ViewsFollow) {
  Program p;
  const ValueId x = p.tensor(DType::f32, {2, 2});
  Attrs swap;
  swap.axes = {1, 0};
  const ValueId softmax = p.b.composite(Op::softmax, std::span(&x, 1), along(1));
  const ValueId turned = p.b.view(Op::permute, softmax, swap);
  p.b.write(turned, p.op(Op::add, {turned, turned}));
  p.result(softmax);
  verify(expand_composites(p.trace));
  EXPECT_EQ(p.run_one({tensor_of(DType::f32, {2, 2}, {0, 0, 5, 5})}).to_doubles(), (Doubles{1, 1, 1, 1}));
}

TEST(Expand, SizesStaySymbolic) {
  Program p;
  const ValueId x = p.tensor(DType::f32, {3, 4});
  p.result(p.b.composite(Op::softmax, std::span(&x, 1), along(1)));
  for (int64_t rows : {1, 2, 17})
    for (int64_t columns : {1, 5, 64}) {
      const HostTensor input = random_tensor(DType::f32, {rows, columns});
      const Doubles wanted = by_rows(input.to_doubles(), static_cast<size_t>(columns), softmax);
      expect_near(p.run_one({input}).to_doubles(), wanted);
    }
}

}  // namespace
}  // namespace escapement
