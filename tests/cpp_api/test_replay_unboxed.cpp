// Operators that come without boxes (replay_mode/unboxed.h): arguments that differ in one place only never continue the same
// stream, whatever C++ type they have.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "torch/program/engine.h"
#include "torch/replay_mode/replay_region.h"

namespace escapement {
namespace {

using Values = ReplayRegion::Values;
using Variant = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& y)>;

int64_t counter(const std::string& name) {
  for (const auto& [key, value] : counter_facts())
    if (key == name) return value;
  return 0;
}

// One region whose host code takes another variant at each call, in several orders; then only one more recording a variant
// may come, and all later calls are launches.
void expect_told_apart(const std::vector<Variant>& variants) {
  const c10::InferenceMode inference;
  size_t chosen = 0;
  ReplayRegion region("variants", [&](const Values& in, Values& out) {
    out.emplace_back(variants[chosen](in[0].toTensor() + 1, in[1].toTensor()).to(at::kDouble) + 1);
  }, default_options());
  const auto call = [&](int64_t rows) {
    const at::Tensor x = at::rand({rows, 4}) + 0.5, y = at::rand({rows, 4}) + 0.5;
    Values outputs;
    region.call({x, y}, outputs);
    const at::Tensor expected = variants[chosen](x + 1, y).to(at::kDouble) + 1;
    ASSERT_EQ(outputs[0].toTensor().sizes(), expected.sizes()) << "variant " << chosen << "\n" << region.text();
    EXPECT_TRUE(outputs[0].toTensor().allclose(expected, 1e-5, 1e-5)) << "variant " << chosen << "\n" << region.text();
  };
  for (chosen = 0; chosen < variants.size(); ++chosen) call(4), call(4), call(7);
  for (chosen = variants.size(); chosen-- > 0;) call(4), call(5);
  const int64_t recordings = counter("recordings"), hits = counter("hits");
  for (chosen = 0; chosen < variants.size(); ++chosen) call(4), call(6);
  EXPECT_EQ(counter("recordings"), recordings) << region.text();
  EXPECT_GE(counter("hits"), hits + 2 * static_cast<int64_t>(variants.size())) << region.text();
}

TEST(Unboxed, OneRecordingForAllSizes) {
  const c10::InferenceMode inference;
  const auto body = [](const at::Tensor& x, const at::Tensor& y) {
    return at::relu(at::mul(at::add(x, y, 2), 1.5)).view({x.size(1), x.size(0)}).sum(0);
  };
  ReplayRegion region("sizes", [&](const Values& in, Values& out) { out.emplace_back(body(in[0].toTensor(), in[1].toTensor())); },
                      default_options());
  const auto call = [&](int64_t rows, int64_t columns) {
    const at::Tensor x = at::randn({rows, columns}), y = at::randn({rows, columns});
    const int64_t hits = counter("hits"), launches = counter("launches"), matched = counter("matched_operators");
    Values outputs;
    region.call({x, y}, outputs);
    EXPECT_TRUE(outputs[0].toTensor().allclose(body(x, y), 1e-5, 1e-5)) << rows << " x " << columns;
    return std::array{counter("hits") - hits, counter("launches") - launches, counter("matched_operators") - matched};
  };
  call(6, 4);
  const int64_t recordings = counter("recordings"), specialisations = counter("specialisations");
  for (const auto& [rows, columns] : {std::pair{7, 5}, {2, 3}, {1, 7}, {11, 1}, {1, 1}, {0, 3}, {13, 0}, {101, 17}}) {
    const auto [hits, launches, matched] = call(rows, columns);
    EXPECT_EQ(hits, 1) << rows << " x " << columns << "\n" << region.text();
    EXPECT_GE(launches, 1) << rows << " x " << columns;
    EXPECT_EQ(matched, 5) << rows << " x " << columns;
  }
  EXPECT_EQ(counter("recordings"), recordings) << region.text();
  EXPECT_EQ(counter("specialisations"), specialisations) << region.text();
}

#define VARIANT(expression) [](const at::Tensor& x, const at::Tensor& y) -> at::Tensor { static_cast<void>(y); return expression; }

TEST(Unboxed, KindsOfNumbers) {
  expect_told_apart({VARIANT(at::mul(x, 2)), VARIANT(at::mul(x, 2.0)), VARIANT(at::mul(x, true)), VARIANT(at::mul(x, 3.5))});
  expect_told_apart({VARIANT(at::add(x, y)), VARIANT(at::add(x, y, 2)), VARIANT(at::add(x, y, 2.5)), VARIANT(at::add(y, x, 2))});
  expect_told_apart({VARIANT(at::mul(x.to(at::kInt), 2)), VARIANT(at::mul(x.to(at::kInt), 2.0)), VARIANT(at::mul(x.to(at::kInt), true))});
  expect_told_apart({VARIANT(at::mul(x, 0.0)), VARIANT(at::mul(x, -0.0).reciprocal().sign()), VARIANT(at::mul(x, 0.0).reciprocal().sign())});
}

TEST(Unboxed, OptionalArguments) {
  expect_told_apart({VARIANT(at::clamp(x, 1.2)), VARIANT(at::clamp(x, std::nullopt, 1.2)), VARIANT(at::clamp(x, 1.1, 1.3)),
                     VARIANT(at::clamp(x, 1.1, 1.4))});
  expect_told_apart({VARIANT(at::linear(x, y.slice(0, 0, 2))), VARIANT(at::linear(x, y.slice(0, 0, 2), y.select(1, 0).slice(0, 0, 2)))});
  expect_told_apart({VARIANT(at::slice(x, 0, 1)), VARIANT(at::slice(x, 0, 1, 3)), VARIANT(at::slice(x, 0, std::nullopt, 2)),
                     VARIANT(at::slice(x, 1, 1)), VARIANT(at::slice(x, 0, 0, 4, 2))});
  expect_told_apart({VARIANT(at::softmax(x, 1)), VARIANT(at::softmax(x, 0)), VARIANT(at::softmax(x, 1, at::kDouble))});
}

TEST(Unboxed, Lists) {
  expect_told_apart({VARIANT(at::sum(x, {0})), VARIANT(at::sum(x, {1})), VARIANT(at::sum(x, {0, 1})), VARIANT(at::sum(x, {1}, true)),
                     VARIANT(at::sum(x, at::OptionalIntArrayRef())), VARIANT(at::sum(x, {1}, false, at::kDouble))});
  expect_told_apart({VARIANT(x.view({-1})), VARIANT(x.view({4, -1})), VARIANT(x.view({-1, 2})), VARIANT(x.view({2, -1, 2}))});
  expect_told_apart({VARIANT(x.permute({1, 0})), VARIANT(x.permute({0, 1})), VARIANT(x.permute({-1, 0}))});
  expect_told_apart({VARIANT(at::cat({x, y})), VARIANT(at::cat({y, x})), VARIANT(at::cat({x, x})), VARIANT(at::cat({x, y, x})),
                     VARIANT(at::cat({x, y}, 1))});
  expect_told_apart({VARIANT(at::layer_norm(x, {4})), VARIANT(at::layer_norm(x, {4}, y[0])), VARIANT(at::layer_norm(x, {4}, y[0], y[1])),
                     VARIANT(at::layer_norm(x, {4}, {}, y[1])), VARIANT(at::layer_norm(x, {4}, {}, {}, 0.5))});
}

TEST(Unboxed, Choices) {
  expect_told_apart({VARIANT(at::gelu(x)), VARIANT(at::gelu(x, "tanh"))});
  expect_told_apart({VARIANT(x.to(at::kInt)), VARIANT(x.to(at::kDouble)), VARIANT(x.to(at::kBool)), VARIANT(x.to(at::kFloat))});
  expect_told_apart({VARIANT(at::argmax(x)), VARIANT(at::argmax(x, 1)), VARIANT(at::argmax(x, 0)), VARIANT(at::argmax(x, 1, true))});
  expect_told_apart({VARIANT(x.transpose(0, 1)), VARIANT(x.transpose(0, 1).clone()),
                     VARIANT(x.transpose(0, 1).clone(at::MemoryFormat::Contiguous))});
}

TEST(Unboxed, WritesToPendingAndOuterTensors) {
  expect_told_apart({VARIANT(at::Tensor(x).add_(y)), VARIANT(at::Tensor(x).add_(y, 2)), VARIANT(at::Tensor(x).mul_(y)),
                     VARIANT(at::Tensor(y).add_(x) * 0), VARIANT(x.select(1, 0).zero_() + x.sum())});
}

TEST(Unboxed, VersionsCountWritesThroughViews) {
  const at::NoGradGuard no_grad;
  ReplayRegion region("versions", [](const Values& in, Values& out) {
    const at::Tensor z = in[0].toTensor() * 2;
    const auto before = z._version();
    z.select(0, 0).add_(1);
    z.add_(1);
    out.emplace_back(z);
    out.emplace_back(static_cast<int64_t>(z._version() - before));
  }, default_options());
  for (int i = 0; i < 4; ++i) {
    Values outputs;
    region.call({at::rand({3 + i, 4})}, outputs);
    EXPECT_EQ(outputs[1].toInt(), 2) << "call " << i;
  }
}

TEST(Unboxed, AKnownTensorThatBeginsToWantGradients) {
  ReplayRegion region("wants", [](const Values& in, Values& out) {
    const at::Tensor& x = in[0].toTensor();
    const at::Tensor first = x * 2;
    if (in[1].toBool()) at::Tensor(x).requires_grad_(true);
    out.emplace_back(x * 3 + first);
  }, default_options());
  for (const bool wants : {false, false, true, false, true}) {
    Values outputs;
    const at::Tensor x = at::rand({5});
    region.call({x, wants}, outputs);
    EXPECT_EQ(outputs[0].toTensor().requires_grad(), wants);
    EXPECT_TRUE(outputs[0].toTensor().detach().allclose(x.detach() * 5));
  }
}

}  // namespace
}  // namespace escapement
