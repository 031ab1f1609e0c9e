// Many threads on one compiled function: first calls at once, a budget used up together, code made in the background, replay
// mode that grows branches, kernels shared and freed, and reports read meanwhile. Every result is eager's, and counters say
// how often was recorded. ThreadSanitizer runs this file (`./dev tsan`): what threads of ours share is to be driven here;
// modules are driven in serving.cpp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules.h>

#include <atomic>
#include <barrier>
#include <thread>

#include <escapement/escapement.h>
#include <escapement/jit.h>

#include "report.h"
#include "torch/program/engine.h"
#include "torch/replay_mode/replay_region.h"

namespace {

namespace nn = torch::nn;
using at::Tensor;
using escapement::counter;
using escapement::jit;

constexpr int kThreads = 8;
constexpr int kCalls = 24;   // of each thread

// `work(t)` for each thread t, all let go at once, and `meanwhile` on another thread, again and again until they are done.
// The number of calls of `work` that said no.
template <class Work, class Meanwhile>
int wrong_at_once(const Work& work, const Meanwhile& meanwhile) {
  std::barrier start(kThreads + 1);
  std::atomic<int> wrong{0}, busy{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      if (!work(t)) ++wrong;
      --busy;
    });
  }
  threads.emplace_back([&] {
    start.arrive_and_wait();
    do meanwhile();
    while (busy > 0);
  });
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

// Each thread's own order of sizes; 0 and 1 are among them.
Tensor rows(int thread, int call, int64_t width = 5) {
  const int64_t n = (thread * 3 + call) % 7;
  return at::arange(n * width).reshape({n, width}).to(at::kFloat).mul(0.37).sin();
}

// Whether `f` gives what `eager` gives in all calls of one thread.
template <class F, class Eager>
bool right(int thread, const F& f, const Eager& eager) {
  const at::NoGradGuard no_grad;
  for (int call = 0; call < kCalls; ++call) {
    const Tensor x = rows(thread, call);
    if (!at::allclose(f(x), eager(x), 1e-5, 1e-6)) return false;
  }
  return true;
}

template <class F>
auto reports_of(const F& f) {
  return [&f] {
    EXPECT_FALSE(f.explain().empty());
    for (const escapement::Escape& escape : f.escapes()) EXPECT_FALSE(escape.relation.empty());
    EXPECT_GE(counter("calls"), 0);
  };
}

TEST(Threads, FirstCallsRecordOnce) {
  for (int round = 0; round < 6; ++round) {
    const auto sum = [round](Tensor x, Tensor y) { return at::softmax(x * (round + 2) + y, -1); };
    const auto f = jit(sum);
    const auto call = [&](const Tensor& x) { return f(x, x.cos()); };   // whose sizes agree: a relation to be tested
    const auto eager = [&](const Tensor& x) { return sum(x, x.cos()); };
    const int64_t guards = counter("guards_compiled");
    const auto work = [&](int t) { return right(t, call, eager); };
    EXPECT_EQ(wrong_at_once(work, reports_of(f)), 0);   // some run eagerly, until there is code
    const int64_t hits = counter("hits");
    EXPECT_EQ(wrong_at_once(work, reports_of(f)), 0);
    EXPECT_EQ(counter("hits"), hits + kThreads * kCalls);
    EXPECT_EQ(sum_of(f.explain(), "recordings"), 1);
    EXPECT_EQ(counter("guards_compiled"), guards + 1);   // once, although many threads find it hot
  }
}

TEST(Threads, FirstCallsOfManyFormsAndModes) {
  const auto eager = [](Tensor x, bool flip, std::optional<Tensor> y) {
    const Tensor z = flip ? x.neg() : x;
    return (y ? z + *y : z).to(at::kDouble).sum(-1);
  };
  const auto f = jit(eager);
  const auto work = [&](int t) {
    for (int call = 0; call < kCalls; ++call) {
      const at::AutoGradMode grad(t % 2 == 0);
      const Tensor x = call % 3 == 0 ? rows(t, call).to(at::kDouble) : rows(t, call);
      const std::optional<Tensor> y = call % 2 == 0 ? std::optional(x * 2) : std::nullopt;
      if (!at::allclose(f(x, call % 4 == 0, y), eager(x, call % 4 == 0, y), 1e-5, 1e-6)) return false;
    }
    return true;
  };
  EXPECT_EQ(wrong_at_once(work, reports_of(f)), 0);
  const int64_t hits = counter("hits");
  EXPECT_EQ(wrong_at_once(work, reports_of(f)), 0);
  EXPECT_GT(counter("hits"), hits);
}

TEST(Threads, UseUpABudgetTogether) {
  const auto eager = [](Tensor x) { return (x * 2).sum(0) + static_cast<double>(x.size(0)); };   // each size is a version
  const auto f = jit(eager);
  const int64_t used_up = counter("budget_used");
  for (int round = 0; round < 8 && counter("budget_used") == used_up; ++round)   // a call beside a recording runs eagerly
    EXPECT_EQ(wrong_at_once([&](int t) { return right(t, f, eager); }, reports_of(f)), 0);
  EXPECT_GT(counter("budget_used"), used_up);
  // Three, and one more of each thread that was on its way when the third was made, up to `max_recordings`.
  EXPECT_LE(sum_of(f.explain(), "recordings"), 8);
}

TEST(Threads, CodeMadeInTheBackground) {
  for (int round = 0; round < 6; ++round) {
    const auto eager = [round](Tensor x) { return at::tanh(x.sum(-1, true) * (round + 3)) + x; };
    const auto f = jit(eager, {{"compile", "background"}});
    const int64_t recordings = counter("recordings");
    EXPECT_EQ(wrong_at_once([&](int t) { return right(t, f, eager); }, reports_of(f)), 0);
    EXPECT_EQ(counter("recordings"), recordings + 1);
  }   // `f` ends, whether its code is made or not
}

TEST(Threads, CodeForSizesThatComeOften) {
  const auto eager = [](Tensor x) { return at::softmax(x * 3, -1) - 0.25; };
  const auto f = jit(eager, {{"hot_launches", "2"}});
  const int64_t tuned = counter("kernels_tuned");
  EXPECT_EQ(wrong_at_once(
      [&](int t) {
        bool good = right(t, f, eager);
        while (counter("kernels_tuned") == tuned) good = good && right(t, f, eager);   // the background thread gets there
        return good && right(t, f, eager);
      },
      reports_of(f)), 0);
  EXPECT_EQ(sum_of(f.explain(), "recordings"), 1);
}

TEST(Threads, KernelsAreSharedAndFreed) {
  const int64_t recordings = counter("recordings");
  const auto work = [&](int t) {
    for (int life = 0; life < 6; ++life) {
      const auto eager = [number = life % 2](Tensor x) { return at::sigmoid(x) * (number + 7); };
      const auto f = jit(eager);
      if (!right(t, f, eager)) return false;
    }
    return true;
  };
  EXPECT_EQ(wrong_at_once(work, [] { EXPECT_FALSE(escapement::counter_facts().empty()); }), 0);
  EXPECT_EQ(counter("recordings"), recordings + kThreads * 6);
}

TEST(Threads, PackedWeights) {
  const at::NoGradGuard no_grad;
  nn::Sequential model(nn::Linear(5, 16), nn::ReLU(), nn::Linear(16, 3));
  const auto f = jit<Tensor(Tensor)>(model);
  for (int round = 0; round < 4; ++round) {
    model->train(round % 2 == 0);   // a state of its own: the threads find it together
    EXPECT_EQ(wrong_at_once([&](int t) { return right(t, f, [&](const Tensor& x) { return model->forward(x); }); },
                            reports_of(f)), 0);
  }
  EXPECT_EQ(sum_of(f.explain(), "recordings"), 2);
}

TEST(Threads, AFailedRecordingLeavesTheOthersTheirTurn) {
  std::atomic<int> failing{3}, failed{0};
  const auto eager = [](Tensor x) { return at::relu(x) * 5 - 1; };
  const auto f = jit([&](Tensor x) {
    if (failing-- > 0) throw std::runtime_error("the program's own");
    return eager(x);
  });
  const auto once = [&](const Tensor& x) {
    while (true) {
      try {
        return f(x);
      } catch (const std::runtime_error&) {
        ++failed;
      }
    }
  };
  EXPECT_EQ(wrong_at_once([&](int t) { return right(t, once, eager); }, reports_of(f)), 0);
  EXPECT_EQ(failed, 3);
  EXPECT_EQ(sum_of(f.explain(), "recordings"), 1);
}

struct Hidden : nn::Module {   // no class that the library knows
  Tensor scale = at::full({5}, 2.);
  Tensor forward(Tensor x) { return x * scale; }
};
struct Holder : nn::Module {
  std::shared_ptr<Hidden> hidden;
  Holder() { hidden = register_module("hidden", std::make_shared<Hidden>()); }
  Tensor forward(Tensor x) { return hidden->forward(x) + 1; }
};

TEST(Threads, EachIsToldWhyNothingIsCompiled) {
  const auto f = jit(std::make_shared<Holder>(), {{"strict", "true"}});
  const auto work = [&](int t) {
    for (int call = 0; call < kCalls; ++call) {
      try {
        f(rows(t, call));
        return false;
      } catch (const std::runtime_error& error) {
        if (std::string(error.what()).find("Hidden") == std::string::npos) return false;
      }
    }
    return true;
  };
  EXPECT_EQ(wrong_at_once(work, reports_of(f)), 0);
}

TEST(Threads, CountersReadAndResetMeanwhile) {
  const auto eager = [](Tensor x) { return at::exp(x) - x; };
  const escapement::Function f([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{eager(in[0])}; });
  const auto call = [&](const Tensor& x) { return f({x})[0]; };
  const auto meanwhile = [&] {
    EXPECT_FALSE(f.explain().empty());
    for (const auto& [name, value] : escapement::counter_facts()) EXPECT_GE(value, 0) << name;
    escapement::reset_engine();
  };
  EXPECT_EQ(wrong_at_once([&](int t) { return right(t, call, eager); }, meanwhile), 0);
  EXPECT_EQ(sum_of(f.explain(), "recordings"), 1);
}

// --- replay mode

Tensor winding(const Tensor& x) {   // as many ways through it as there are sizes, and two for values
  Tensor y = x * 2 + 1;
  for (int64_t i = 0; i < x.size(0); ++i) y = i % 2 == 0 ? at::relu(y) + i : at::tanh(y) - i;
  if (x.size(0) > 0 && x.sum().item<double>() > 0) y = y * y;
  return y.sum(-1);
}

TEST(Threads, GrowBranchesOfReplayModeTogether) {
  for (int round = 0; round < 3; ++round) {
    const auto forward = [](const auto& in, auto& out) { out.emplace_back(winding(in[0].toTensor())); };
    escapement::ReplayRegion region("winding", forward, {});
    const auto replayed = [&](const Tensor& x) {
      escapement::ReplayRegion::Values outputs;
      region.call({x}, outputs);
      return outputs.at(0).toTensor();
    };
    const auto meanwhile = [&] { EXPECT_FALSE(region.text().empty() && region.info().empty()); };
    EXPECT_EQ(wrong_at_once([&](int t) { return right(t, replayed, winding); }, meanwhile), 0);
    const int64_t hits = counter("hits"), recordings = counter("recordings");
    EXPECT_EQ(wrong_at_once([&](int t) { return right(t, replayed, winding); }, meanwhile), 0);
    EXPECT_EQ(counter("recordings"), recordings) << region.text();   // all branches are known
    EXPECT_GT(counter("hits"), hits) << region.text();
  }
}

TEST(Threads, ReplayWhatLiesBeyondTheBudget) {
  const auto f = jit(winding);
  const int64_t used_up = counter("budget_used");
  for (int round = 0; round < 8 && counter("budget_used") == used_up; ++round)
    EXPECT_EQ(wrong_at_once([&](int t) { return right(t, f, winding); }, reports_of(f)), 0);
  EXPECT_GT(counter("budget_used"), used_up);
  EXPECT_EQ(wrong_at_once([&](int t) { return right(t, f, winding); }, reports_of(f)), 0);
}

}  // namespace
