// Values that a C++ function looks at behind an effect: each program is called with inputs that go each way, at sizes that differ, and
// compared with itself run eagerly: results, arguments, the generator. The second time nothing is recorded and nothing runs eagerly.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <string>

#include <escapement/jit.h>

#include "report.h"

namespace {

using at::Tensor;

using Function = Tensor (*)(Tensor x, Tensor state);

bool truth(const Tensor& t) { return t.item<bool>(); }

struct Row {
  const char* name;
  Function function;
};

const Row kPrograms[] = {
    {"clipping by norm", [](Tensor x, Tensor state) {
       state.add_(x.sum(0));
       if (truth(state.norm() > 3)) state.mul_(3 / state.norm());
       return x * state;
     }},
    {"a scale that skips steps", [](Tensor x, Tensor state) {
       const Tensor overflow = x.mul(1e30).mul(1e30).isinf().any();
       x.mul_(0.5);
       if (truth(overflow) && truth(x.sum() > 0)) return x * 2;
       state.sub_(x.mean(0));
       return state + x;
     }},
    {"early exit", [](Tensor x, Tensor state) {
       state.zero_();
       for (int layer = 0; layer < 3; ++layer) {
         x = at::tanh(x + 0.5);
         state.add_(x.mean(0));
         if (truth(x.min() > 0.4)) return x + layer;
       }
       return x;
     }},
    {"an iteration", [](Tensor x, Tensor state) {
       state.fill_(1);
       for (int turn = 0; turn < 6 && truth(state.sum() > 0.5); ++turn) state.mul_(0.25);
       return x + state;
     }},
    {"a count of elements", [](Tensor x, Tensor state) {
       state.add_(1);
       const int64_t n = (x > 0).sum().item<int64_t>() % 2;
       return n == 1 ? x.narrow(0, 0, 1) * n : x + state;
     }},
    {"experts by nonzero", [](Tensor x, Tensor state) {
       state.neg_();
       const Tensor rows = (x.sum(1) > 0).nonzero().squeeze(1);
       if (rows.numel() == 0) return x - state;
       return x.index_select(0, rows) * 2;
     }},
    {"random numbers", [](Tensor x, Tensor state) {
       const Tensor noise = at::rand_like(x);
       if (truth(x.sum() > 0)) return x + noise + at::rand_like(x);
       state.add_(noise.sum(0));
       return x * state;
     }},
    {"dropout", [](Tensor x, Tensor state) {
       const Tensor y = at::dropout(x, 0.5, true);
       state.add_(y.sum(0));
       return truth(x.amax() > 0) ? at::dropout(y, 0.25, true) : y - state;
     }},
    {"an assertion", [](Tensor x, Tensor state) {
       state.abs_();
       TORCH_CHECK(truth((state >= 0).all()), "negative");
       return x / (state + 1);
     }},
    {"views are held", [](Tensor x, Tensor state) {
       const Tensor y = x * 2, turned = y.t(), first = y[0];
       state.add_(first);
       if (truth(x.sum() > 0)) first.zero_();
       else turned.add_(state.unsqueeze(1));
       return y;
     }},
    {"sides that write", [](Tensor x, Tensor state) {
       x.add_(0.125);
       if (truth(x.sum() > 0)) x.mul_(state);
       else state.sub_(x.sum(0));
       return x + state;
     }},
    {"three in a row", [](Tensor x, Tensor state) {
       state.add_(1);
       Tensor y = truth(x.sum() > 0) ? x.sin() : x.cos();
       state.mul_(y.sum(0));
       y = truth(state.sum() > 0) ? y + 1 : y * 2;
       x.copy_(y);
       return truth(x.mean() > 1) ? x - state : x;
     }},
    {"a sorted column", [](Tensor x, Tensor state) {
       const auto [values, where] = x.sort(0);
       state.copy_(values[0]);
       if (truth(state.sum() > 0)) return values + where;
       return x.gather(0, where.flip(0));
     }},
    {"attention with a cache", [](Tensor x, Tensor state) {
       state.mul_(0.5).add_(x.mean(0), 0.5);
       const Tensor scores = at::softmax(x.matmul(state.unsqueeze(1)).squeeze(1), 0);
       return truth(scores.max() > 0.5) ? scores.unsqueeze(1) * x : (scores.unsqueeze(1) * x).sum(0, true);
     }},
    {"a value that goes on", [](Tensor x, Tensor state) {
       state.add_(0.5);
       const int64_t n = (x > 0).sum().item<int64_t>();
       if (n > 2) return x * n;
       return x - n;
     }},
    {"nothing returned but state", [](Tensor x, Tensor state) {
       state.add_(x.sum(0));
       if (truth(state.sum() > 0)) state.zero_();
       return state;
     }},
    {"half precision", [](Tensor x, Tensor state) {
       const Tensor y = x.to(at::kBFloat16);
       state.add_(y.sum(0).to(at::kFloat));
       return truth(state.sum() > 0) ? y.exp().to(at::kFloat) : y.to(at::kFloat) + state;
     }},
    {"integers", [](Tensor x, Tensor state) {
       const Tensor i = (x * 8).to(at::kLong);
       state.copy_(i[0]);
       i.add_(1);
       return truth(i.sum() > 0) ? i.remainder(5).to(at::kFloat) : i.bitwise_not().to(at::kFloat);
     }},
    {"a layer", [](Tensor x, Tensor state) {
       const Tensor weight = at::ones({4, 4}).triu();
       const Tensor y = at::linear(x, weight, state);
       state.add_(1);
       return truth(y.sum() > 0) ? at::relu(y) : at::linear(at::tanh(y), weight);
     }},
    {"debug reads", [](Tensor x, Tensor state) {
       state.add_(x[0]);
       const bool finite = truth(state.isfinite().all());
       x.mul_(2);
       return finite ? x + 1 : x.nan_to_num();
     }},
};

struct Call {
  Tensor x, state;
  explicit Call(int number) {
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(number));
    x = at::randn({2 + number % 3, 4}, generator).abs() * (number % 2 ? -1 : 1);
    state = at::rand({4}, generator);
  }
};

class Exits : public testing::TestWithParam<Row> {};

void expect_equal(const Tensor& a, const Tensor& b, int number) {
  EXPECT_EQ(a.strides(), b.strides()) << number;
  EXPECT_TRUE(at::allclose(a, b, 1e-5, 1e-6, true)) << number << "\n" << a << "\n" << b;
}

template <class F>
void compare(F& f, Function eager, int number) {
  Call ours(number), theirs(number);
  torch::manual_seed(number);
  const Tensor expected = eager(theirs.x, theirs.state), drawn = at::rand({1});
  torch::manual_seed(number);
  const Tensor result = f(ours.x, ours.state);
  EXPECT_TRUE(at::equal(at::rand({1}), drawn)) << number;
  expect_equal(result, expected, number);
  expect_equal(ours.x, theirs.x, number);
  expect_equal(ours.state, theirs.state, number);
}

TEST_P(Exits, AreGoneOnFrom) {
  const at::NoGradGuard no_grad;
  const Function eager = GetParam().function;
  auto f = escapement::jit(eager);
  constexpr int kCalls = 12;
  for (int number = 0; number < kCalls; ++number) compare(f, eager, number);
  const auto again = [&] { for (int number = 0; number < kCalls; ++number) compare(f, eager, number); };
  int64_t recordings = 0, sides = 0, eagerly = 0;
  EXPECT_EQ(grown("hits", [&] {
    sides = grown("side_traces", [&] { recordings = grown("recordings", [&] { eagerly = grown("eager_calls", again); }); });
  }), kCalls) << f.explain();
  EXPECT_EQ(recordings + sides + eagerly, 0);
}

INSTANTIATE_TEST_SUITE_P(All, Exits, testing::ValuesIn(kPrograms), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

}  // namespace
