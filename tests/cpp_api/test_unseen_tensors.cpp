// Tensors that no recorded operator made, memory that the host fills, gradients inside: a row each of how a program may come by them,
// run at several sizes in both modes against C++ itself. A row says how many recordings call mode keeps, and the reason otherwise.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <escapement/jit.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "report.h"

namespace {

using at::Tensor;

float memory_for_good[3] = {1, 2, 3};
const Tensor& table() {
  static const Tensor made = at::arange(3, at::kFloat);
  return made;
}

Tensor own_memory(float middle) {
  Tensor made = at::detail::empty_cpu({3}, at::TensorOptions().dtype(at::kFloat));
  float* const memory = made.data_ptr<float>();
  memory[0] = 1, memory[1] = middle, memory[2] = 3;
  return made;
}

struct Row {
  const char* name;
  Tensor (*run)(const Tensor& x);     // x: n by 3
  const char* reason;                 // of call mode's eager calls; "" where versions serve
};

const Row kRows[] = {
    {"blob_of_local_memory", [](const Tensor& x) { std::vector<float> v{1, 2, 3}; return x * at::from_blob(v.data(), {3}); }, "made_unseen"},
    {"blob_of_local_memory_copied", [](const Tensor& x) { std::vector<float> v{1, 2, 3}; return x * at::from_blob(v.data(), {3}).clone(); }, "made_unseen"},
    {"blob_with_a_deleter", [](const Tensor& x) { auto* const v = new float[3]{1, 2, 3}; return x * at::from_blob(v, {3}, [](void* p) { delete[] static_cast<float*>(p); }); }, "made_unseen"},
    {"blob_of_a_size", [](const Tensor& x) { std::vector<float> v(3, static_cast<float>(x.size(0))); return x * at::from_blob(v.data(), {3}); }, "made_unseen"},
    {"blob_of_a_value", [](const Tensor& x) { float v[3] = {x.sum().item<float>(), 1, 2}; return x + at::from_blob(v, {3}); }, "made_unseen"},
    {"blob_written", [](const Tensor& x) { float v[3] = {0, 0, 0}; Tensor t = at::from_blob(v, {3}); t.add_(x.sum()); return t.clone(); }, "made_unseen"},
    {"blob_returned", [](const Tensor& x) { return x.size(0) < 0 ? x : at::from_blob(memory_for_good, {3}); }, "made_unseen"},
    {"literal_of_a_vector", [](const Tensor& x) { return x * at::tensor(std::vector<float>{1, 2, 3}); }, ""},
    {"literal_of_a_list", [](const Tensor& x) { return x * torch::tensor({1.f, 2.f, 3.f}); }, ""},
    {"literal_written", [](const Tensor& x) { Tensor t = at::zeros({3}); t.add_(x.sum()); return t; }, ""},
    {"zeros_filled", [](const Tensor& x) { Tensor t = at::zeros({3}); auto a = t.accessor<float, 1>(); for (int i = 0; i < 3; ++i) a[i] = static_cast<float>(i); return x * t; }, ""},
    {"empty_filled", [](const Tensor& x) { Tensor t = at::empty({3}); std::iota(t.data_ptr<float>(), t.data_ptr<float>() + 3, 5.f); return x * t; }, ""},
    {"filled_in_between", [](const Tensor& x) { Tensor t = at::zeros({3}); auto a = t.accessor<float, 1>(); a[0] = 1; Tensor y = x * t; a[1] = 2; return y + x * t; }, ""},
    {"filled_and_returned", [](const Tensor& x) { Tensor t = at::zeros({3}); t.accessor<float, 1>()[1] = 4; return x.dim() == 0 ? x : t; }, ""},
    {"a_view_filled", [](const Tensor& x) { Tensor t = at::zeros({2, 3}); t[1].data_ptr<float>()[2] = 4; return x.sum(0) + t; }, ""},
    {"filled_then_written", [](const Tensor& x) { Tensor t = at::zeros({3}); float* const p = t.data_ptr<float>(); t.add_(x.sum()); return x + p[0]; }, "storage_access"},
    {"data_read", [](const Tensor& x) { return x + (x.numel() > 0 ? x.contiguous().data_ptr<float>()[0] : 0); }, "storage_access"},
    {"result_read", [](const Tensor& x) { return x + x.sum().data_ptr<float>()[0]; }, "result_read"},
    {"memory_handed_on", [](const Tensor& x) { return at::empty({0}).set_(table().storage(), 0, {3}, {1}) * x; }, "argument_reshaped"},
    {"data_of_a_global", [](const Tensor& x) { return x * table().data(); }, "made_unseen"},
    {"behind_what_became_smaller", [](const Tensor& x) { Tensor t = at::ones({4, 2}) + x.sum(); at::sum_out(t, t.clone(), 0); return t.as_strided({2, 2}, {1, 1}) + 1; }, "storage_access"},
    {"behind_a_slice", [](const Tensor& x) { Tensor t = (at::zeros({6}) + x.sum()).slice(0, 0, 2); return t.as_strided({3}, {2}) + 1; }, ""},
    {"a_global", [](const Tensor& x) { return x * table(); }, ""},
    {"made_below_the_dispatcher", [](const Tensor& x) { return x * own_memory(2); }, ""},
    {"made_there_and_written", [](const Tensor& x) { Tensor t = own_memory(2); t.add_(x.sum()); return t + 1; }, "storage_access"},
    {"made_there_and_returned", [](const Tensor& x) { return x.size(0) < 0 ? x : own_memory(2); }, "made_unseen"},
    {"made_there_and_changed", [](const Tensor& x) { Tensor t = own_memory(2); Tensor y = x * t; t.data_ptr<float>()[0] = 9; return y + x * t; }, "storage_access"},
    {"made_on_another_thread", [](const Tensor& x) { Tensor t; std::thread([&] { t = at::full({3}, 2.f); }).join(); return x * t; }, ""},
    {"used_on_another_thread", [](const Tensor& x) { Tensor t; std::thread([&] { t = x * 2; }).join(); return x * t; }, "recorder_refused"},
    {"gradients_inside", [](const Tensor& x) { const at::AutoGradMode on(true); Tensor z = x.detach().clone().requires_grad_(); (z * z).sum().backward(); return z.grad(); }, "gradient"},
    {"differentiated_inside", [](const Tensor& x) { const at::AutoGradMode on(true); Tensor z = x.detach().clone().requires_grad_(); return torch::autograd::grad({(z * z).sum()}, {z})[0]; }, "gradient"},
    {"gradient_asked_twice", [](const Tensor& x) { const at::AutoGradMode on(true); Tensor z = x.detach().clone().requires_grad_(); (z * z).sum().backward(); (z * 3).sum().backward(); return z.grad() + (z.requires_grad() ? 1 : 0); }, "gradient"},
};

template <class F>
std::array<Tensor, 2> outcome(const F& f, int64_t n) {
  Tensor x = at::arange(3 * n, at::kFloat).reshape({n, 3}) * 0.25;
  const Tensor y = f(x);
  std::vector<float> overwritten(64, -7.f);   // memory that a call has let go of
  return {y, x};
}

class Unseen : public testing::TestWithParam<std::tuple<size_t, const char*>> {};

TEST_P(Unseen, EqualsEager) {
  const at::NoGradGuard no_grad;
  const Row& row = kRows[std::get<0>(GetParam())];
  const std::string mode = std::get<1>(GetParam());
  if (mode == "replay" && row.name == std::string("made_there_and_changed"))
    GTEST_SKIP() << "memory that no operator made, written through its address: what replay mode cannot see (docs/jit.md)";
  const auto f = escapement::jit<Tensor(const Tensor&)>(row.run, {{"mode", mode}});
  for (const int64_t n : {4, 5, 1, 0, 7, 4, 11, 0}) {
    const auto wanted = outcome(row.run, n), found = outcome(f, n);
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(found[i].sizes(), wanted[i].sizes()) << n;
      EXPECT_TRUE(at::allclose(found[i], wanted[i], 1e-5, 1e-6)) << row.name << " at " << n;
    }
    if (std::string(row.name).ends_with("returned") && found[0].data_ptr() != memory_for_good) found[0].add_(1);   // the caller's own
  }
  if (mode != "call") return;
  const std::string report = f.explain();
  if (*row.reason != '\0') EXPECT_GT(sum_of(report, row.reason), 0) << report;
  else EXPECT_EQ(report.find("\"fallbacks\":{\""), std::string::npos) << report;
}

std::string name_of(const testing::TestParamInfo<std::tuple<size_t, const char*>>& row) {
  return std::string(kRows[std::get<0>(row.param)].name) + "_" + std::get<1>(row.param);
}
INSTANTIATE_TEST_SUITE_P(All, Unseen, testing::Combine(testing::Range<size_t>(0, std::size(kRows)), testing::Values("call", "replay")), name_of);

// A tensor that the caller holds is live: what is written to it is seen.
// A literal whose bytes are those that its new memory holds by chance (zeros of new pages, what a tensor before it left there) is a literal.
TEST(Unseen, ALiteralThatItsMemoryHappensToHold) {
  const at::NoGradGuard no_grad;
  const auto zeros = escapement::jit([](const Tensor& x) -> Tensor { return at::tensor(std::vector<float>(100000, 0.f)) + x.sum(); });
  const auto squares = escapement::jit([](const Tensor& x) -> Tensor {
    std::vector<int64_t> made;
    for (int64_t i = 0; i < x.size(0); ++i) made.push_back(i * i);
    return at::tensor(made, at::kLong) + 1;
  });
  for (int round = 0; round < 6; ++round) {
    for (const int64_t n : {4, 7, 1}) {
      const Tensor x = at::ones({n});
      { std::vector<Tensor> left; for (int i = 0; i < 40; ++i) left.push_back(at::full({i % 2 ? 100000 : n}, 77, at::kLong)); }
      EXPECT_TRUE(at::equal(zeros(x), at::full({100000}, static_cast<float>(n))));
      EXPECT_TRUE(at::equal(squares(x), at::arange(n).square() + 1));
    }
  }
  EXPECT_GT(zeros.metrics().hits, 10);
  EXPECT_GT(squares.metrics().hits, 10);
}

struct Identity : torch::autograd::Function<Identity> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list gradients) { return gradients; }
};

struct Flat : torch::autograd::Function<Flat> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x.view({-1}); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list gradients) { return gradients; }
};

// torch writes into what it keeps of a view.
TEST(Unseen, FunctionsOfAutogradThatHandBackTheirArgument) {
  const at::NoGradGuard no_grad;
  const auto f = escapement::jit([](const Tensor& x) -> Tensor { return Identity::apply(x * 2) + Flat::apply(x).sum() + Identity::apply(x); });
  for (const int64_t n : {3, 5, 1, 2}) {
    const Tensor x = at::arange(2.0f * n).view({n, 2});
    EXPECT_TRUE(at::allclose(f(x), 3 * x + x.sum()));
  }
}

TEST(Unseen, ASizeThatIsPrinted) {
  const at::NoGradGuard no_grad;
  const auto f = escapement::jit([](const Tensor& x) -> std::string {
    std::ostringstream text;
    text << escapement::sym_size(x, 0) << " x " << escapement::sym_size(x, 1) * 2;
    return text.str();
  });
  for (const int64_t n : {4, 7, 1}) EXPECT_EQ(f(at::ones({n, 3})), std::to_string(n) + " x 6");
}

TEST(Unseen, WhatSomebodyHoldsIsReadAnew) {
  const at::NoGradGuard no_grad;
  const Tensor held = at::from_blob(memory_for_good, {3});
  const auto f = escapement::jit([held](Tensor x) { return x * held; });
  for (const float value : {2.f, 3.f, 5.f}) {
    memory_for_good[0] = value;
    EXPECT_EQ(f(at::ones({3}))[0].item<float>(), value);
  }
  memory_for_good[0] = 1;
  EXPECT_EQ(sum_of(f.explain(), "recordings"), 1);
}

// A branch on what was drawn at random: a version whose check may fail then would have drawn already.
TEST(Unseen, WhatFollowsARandomDrawIsNotDecidedByACheck) {
  const at::NoGradGuard no_grad;
  const auto plain = [](Tensor x) {
    Tensor drawn = x.mean(1);
    drawn.random_(5);
    return drawn + drawn.amax().item<float>();
  };
  const auto f = escapement::jit(plain);
  for (const int64_t n : {5, 1, 5, 2, 3}) {
    const Tensor x = at::ones({n, 3});
    at::manual_seed(static_cast<uint64_t>(n));
    const Tensor wanted = plain(x), next = at::rand({1});
    at::manual_seed(static_cast<uint64_t>(n));
    EXPECT_TRUE(at::equal(f(x), wanted)) << n;
    EXPECT_TRUE(at::equal(at::rand({1}), next)) << n;
  }
}

// Gradients of the caller's own tensors, taken inside.
TEST(Unseen, GradientsReachTheCallersTensor) {
  const at::NoGradGuard no_grad;
  const auto f = escapement::jit([](Tensor x) {
    const at::AutoGradMode on(true);
    (x * x).sum().backward();
    return x.grad().clone();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = at::ones({3}).requires_grad_();
    EXPECT_TRUE(at::equal(f(x), at::full({3}, 2)));
    EXPECT_TRUE(at::equal(x.grad(), at::full({3}, 2)));
  }
  EXPECT_GT(sum_of(f.explain(), "gradient"), 0) << f.explain();
}

}  // namespace
