// escapement::jit beyond single programs: gradients, refusals, budget, modules whose members change, threads, errors,
// reports.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules.h>

#include <functional>
#include <map>
#include <optional>
#include <thread>

#include <escapement/jit.h>

#include "report.h"

namespace {

namespace nn = torch::nn;
using at::Tensor;
using escapement::counter;
using escapement::jit;

// Of call mode: the counter also has those of segments in replay mode.
template <class F>
int64_t recordings_of(const F& f) {
  return sum_of(f.explain(), "recordings");
}

// --- gradients

TEST(Gradients, OfArgumentsRunEagerly) {
  const auto f = jit([](Tensor x) { return (x * x).sum(); });
  const Tensor x = at::randn({3}).requires_grad_();
  EXPECT_EQ(grown("gradient", [&] { f(x).backward(); }), 1);
  EXPECT_TRUE(at::allclose(x.grad(), 2 * x));
  const at::NoGradGuard no_grad;
  EXPECT_EQ(grown("gradient", [&] { f(x); f(x); }), 0);
}

TEST(Gradients, OfCapturedTensorsRunEagerlyAfterOneRecording) {
  const Tensor w = at::randn({3}).requires_grad_();
  const auto f = jit([w](Tensor x) { return (x * w).sum(); });
  for (int time = 0; time < 3; ++time) {
    w.mutable_grad() = Tensor();
    const Tensor x = at::randn({3});
    f(x).backward();
    EXPECT_TRUE(at::allclose(w.grad(), x)) << time;
  }
  EXPECT_EQ(grown("recordings", [&] { f(at::randn({3})).backward(); }), 0);
  const at::NoGradGuard no_grad;
  EXPECT_EQ(grown("hits", [&] { f(at::randn({3})), f(at::randn({3})); }), 1);
}

TEST(Gradients, OfAParameterThatBeginsToRequireThem) {
  Tensor w = at::randn({3});
  const auto f = jit([w](Tensor x) { return (x * w).sum(); });
  f(at::randn({3}));
  EXPECT_EQ(grown("hits", [&] { f(at::randn({3})); }), 1);
  w.requires_grad_();
  EXPECT_EQ(grown("gradient", [&] { f(at::ones({3})).backward(); }), 1);
  EXPECT_TRUE(at::allclose(w.grad(), at::ones({3})));
}

TEST(Gradients, OfFunctionToo) {
  const Tensor w = at::randn({3}).requires_grad_();
  const escapement::Function f([w](const std::vector<Tensor>& in) { return std::vector<Tensor>{(in[0] * w).sum()}; });
  for (int time = 0; time < 2; ++time) f({at::randn({3})})[0].backward();
  EXPECT_TRUE(w.grad().defined());
}

// --- what a program keeps elsewhere than in its result: later calls put theirs there

struct Elsewhere {
  std::vector<Tensor> list;
  std::map<std::string, Tensor> map;
  std::optional<Tensor> last;
  std::vector<int64_t> sizes;
  Tensor tensor = at::ones({3}), parameter = at::ones({3}).requires_grad_();
};

template <class F>
void expect_kept_at_each_call(F put, const std::function<Tensor(const Elsewhere&)>& kept) {
  const at::NoGradGuard no_grad;
  for (const auto mode : {"call", "replay"}) {
    Elsewhere mine, theirs;
    const auto f = jit([&mine, put](Tensor x) { return put(mine, x), x + 1; }, {{"mode", mode}});
    for (const int64_t size : {3, 3, 5, 2, 3, 4, 4, 3})
      for (const double value : {1., 2.}) {
        const Tensor x = at::full({size}, value);
        put(theirs, x);
        EXPECT_TRUE(at::equal(f(x), x + 1));
        EXPECT_TRUE(at::equal(kept(mine), kept(theirs))) << mode << size;
      }
  }
}

TEST(Elsewhere, InAList) {
  expect_kept_at_each_call([](Elsewhere& e, const Tensor& x) { e.list.push_back(x * 2); }, [](const Elsewhere& e) { return at::cat(e.list); });
}
TEST(Elsewhere, AView) {
  expect_kept_at_each_call([](Elsewhere& e, const Tensor& x) { e.list.push_back((x * 2).slice(0, 1)); }, [](const Elsewhere& e) { return at::cat(e.list); });
}
TEST(Elsewhere, AnArgument) {
  expect_kept_at_each_call([](Elsewhere& e, const Tensor& x) { e.last = x; }, [](const Elsewhere& e) { return *e.last; });
}
TEST(Elsewhere, InAMap) {
  expect_kept_at_each_call([](Elsewhere& e, const Tensor& x) { e.map["sum"] = x.sum(); }, [](const Elsewhere& e) { return e.map.at("sum"); });
}
TEST(Elsewhere, AsData) {
  expect_kept_at_each_call([](Elsewhere& e, const Tensor& x) { e.tensor.set_data(x * 2); }, [](const Elsewhere& e) { return e.tensor + 0; });
}
TEST(Elsewhere, AsTheDataOfAParameter) {
  expect_kept_at_each_call([](Elsewhere& e, const Tensor& x) { e.parameter.set_data(x * 2); }, [](const Elsewhere& e) { return e.parameter + 0; });
}
TEST(Elsewhere, AsAGradient) {
  expect_kept_at_each_call([](Elsewhere& e, const Tensor& x) { e.parameter.mutable_grad() = at::ones({3}) * x.sum(); }, [](const Elsewhere& e) { return e.parameter.grad() + 0; });
}

// --- refusals

TEST(Refusals, AreNotRecordedAgain) {
  const auto f = jit([](Tensor x) { return x + x.data_ptr<float>()[0]; });
  const Tensor x = at::ones({3});
  EXPECT_EQ(grown("recordings", [&] {
              for (int time = 0; time < 5; ++time) EXPECT_TRUE(at::equal(f(x), x + 1));
            }), 1);
  EXPECT_EQ(grown("storage_access", [&] { f(x); }), 1);
}

TEST(Refusals, BehindABranchLeaveTheOtherSide) {
  const auto f = jit([](Tensor x) {
    if (escapement::sym_size(x, 0) > 10) return x + x.data_ptr<float>()[0];
    return x * 2;
  });
  f(at::ones({20}));
  f(at::ones({3}));
  EXPECT_EQ(grown("hits", [&] { EXPECT_TRUE(at::equal(f(at::ones({4})), at::full({4}, 2.))); }), 1);
  for (int time = 0; time < 5; ++time) EXPECT_TRUE(at::equal(f(at::ones({20})), at::full({20}, 2.)));
  EXPECT_EQ(recordings_of(f), 3);   // once more after the first refusal; then it goes on in replay mode
}

// --- budget

Tensor pinned(Tensor x) { return x * x.size(0); }

TEST(Budget, IsTwoRecompiles) {
  const auto f = jit(pinned);
  for (int64_t n = 1; n < 8; ++n) EXPECT_TRUE(at::equal(f(at::ones({n})), at::full({n}, static_cast<double>(n))));
  EXPECT_EQ(recordings_of(f), 3);
  EXPECT_EQ(grown("budget_used", [&] { f(at::ones({9})); }), 1);
  EXPECT_EQ(grown("hits", [&] { f(at::ones({2})); }), 1);   // old versions serve
}

TEST(Budget, IsOfEachRankAndDtype) {
  const auto f = jit(pinned);
  for (int64_t n = 1; n < 5; ++n) f(at::ones({n})), f(at::ones({n, 2}));
  EXPECT_EQ(recordings_of(f), 6);
}

TEST(Budget, OfDoubles) {
  const auto f = jit([](Tensor x, double scale) { return x * scale; });
  const Tensor x = at::ones({3});
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(at::equal(f(x, i * 0.5), x * (i * 0.5)));
  EXPECT_EQ(recordings_of(f), 3);
}

// --- reports

TEST(Reports, NameTheLineOfAnEscape) {
  const auto f = jit([](Tensor x) {
    const int64_t rows = x.size(0);
    return x + rows;
  });
  const int line = __LINE__ - 3;
  f(at::ones({2, 3}));
  const auto escapes = f.escapes();
  ASSERT_EQ(escapes.size(), 1u);
  EXPECT_NE(escapes[0].where.find("test_jit.cpp:" + std::to_string(line)), std::string::npos) << escapes[0].where;
  EXPECT_NE(escapes[0].relation.find("== 2"), std::string::npos) << escapes[0].relation;
  EXPECT_NE(f.explain().find("test_jit.cpp:" + std::to_string(line)), std::string::npos) << f.explain();
}

TEST(Reports, NameTheCallOfAPlainInteger) {
  const auto f = jit([](Tensor x, int64_t n) { return x + n; });
  f(at::ones({2}), 3);
  const int line = __LINE__ - 1;
  const auto escapes = f.escapes();
  ASSERT_EQ(escapes.size(), 1u);
  EXPECT_NE(escapes[0].because.find("c10::SymInt stays symbolic"), std::string::npos) << escapes[0].because;
  EXPECT_NE(escapes[0].where.find("test_jit.cpp:" + std::to_string(line)), std::string::npos) << escapes[0].where;
}

// --- modules

class Modules : public testing::Test {
  const at::NoGradGuard no_grad_;
};

TEST_F(Modules, UpdatesInPlaceAreSeen) {
  nn::Linear linear(4, 3);
  const auto f = jit(linear);
  const Tensor x = at::randn({2, 4});
  f(x);
  linear->weight.mul_(2);
  linear->bias.set_data(at::ones({3}));
  EXPECT_EQ(grown("recordings", [&] { EXPECT_TRUE(at::allclose(f(x), linear(x), 1e-5, 1e-5)); }), 0);
}

TEST_F(Modules, ReplacedMembersAreNoticed) {
  nn::Linear linear(4, 3);
  const auto f = jit(linear);
  const Tensor x = at::randn({2, 4});
  f(x);
  const Tensor kept = linear->weight;
  linear->weight = at::randn({3, 4});
  EXPECT_TRUE(at::allclose(f(x), linear(x), 1e-5, 1e-5));
  EXPECT_EQ(grown("hits", [&] { EXPECT_TRUE(at::allclose(f(x), linear(x), 1e-5, 1e-5)); }), 1);
}

TEST_F(Modules, ReplacedChildrenAreNoticed) {
  nn::Sequential model(nn::Linear(4, 4), nn::ReLU());
  const auto f = jit(model);
  const Tensor x = at::randn({2, 4});
  f(x);
  model->push_back(nn::Linear(4, 2));
  EXPECT_TRUE(at::allclose(f(x), model->forward(x), 1e-5, 1e-5));
  *model->begin() = nn::AnyModule(nn::Linear(4, 4));
  EXPECT_TRUE(at::allclose(f(x), model->forward(x), 1e-5, 1e-5));
}

TEST_F(Modules, TrainAndEvalAreTwoStates) {
  nn::Sequential model(nn::Linear(4, 4), nn::Dropout(0.5));
  const auto f = jit(model);
  const Tensor x = at::randn({2, 4});
  model->eval();
  EXPECT_TRUE(at::allclose(f(x), model->forward(x), 1e-5, 1e-5));
  model->train();
  at::manual_seed(3);
  const Tensor found = f(x);
  at::manual_seed(3);
  EXPECT_TRUE(at::allclose(found, model->forward(x), 1e-5, 1e-5));
  model->eval();
  EXPECT_EQ(grown("recordings", [&] { EXPECT_TRUE(at::allclose(f(x), model->forward(x), 1e-5, 1e-5)); }), 0);
}

struct Block : nn::Module {
  Tensor scale;
  Block() { scale = register_parameter("scale", at::ones({4})); }
  Tensor forward(Tensor x) { return x * scale; }
};
struct Tower : nn::Module {
  std::shared_ptr<Block> block;
  Tower() { block = register_module("block", std::make_shared<Block>()); }
  Tensor forward(Tensor x) { return block->forward(x) + 1; }
};

TEST_F(Modules, OfUnknownClassesRunEagerlyUntilTheyAreKnown) {
  const auto tower = std::make_shared<Tower>();
  const Tensor x = at::randn({2, 4});
  const auto unknown = jit(tower);
  EXPECT_EQ(grown("unwatched_module", [&] { EXPECT_TRUE(at::equal(unknown(x), tower->forward(x))); }), 1);
  EXPECT_NE(unknown.explain().find("Block"), std::string::npos);
  escapement::watch_module<Block>();
  const auto known = jit(tower);
  known(x);
  EXPECT_EQ(grown("hits", [&] { EXPECT_TRUE(at::equal(known(x), tower->forward(x))); }), 1);
  tower->block->scale = at::randn({4});
  EXPECT_TRUE(at::equal(known(x), tower->forward(x)));
}

struct Sized : nn::Module {
  Tensor member = at::ones({3}), registered;
  Sized() { registered = register_buffer("registered", at::ones({2})); }
  Tensor forward(Tensor x) { return x * member.size(0) + registered.size(0); }
};

// Tensors of which only the sizes are read are in no recording: the watch keeps them, else another one would come to lie where they lay.
TEST_F(Modules, ATensorAtTheSameAddressIsAnotherOne) {
  const auto module = std::make_shared<Sized>();
  const auto f = jit(module);
  const Tensor x = at::ones({2});
  for (int64_t n = 1; n < 5; ++n) {
    EXPECT_TRUE(at::equal(f(x), module->forward(x))) << n;
    module->member = at::zeros({1});
    module->member = at::ones({n});
    EXPECT_TRUE(at::equal(f(x), module->forward(x))) << n;
  }
}

TEST_F(Modules, OptionsOnTheHeapAreCompared) {
  nn::Unflatten unflatten(nn::UnflattenOptions(1, {2, 6}));
  const auto f = jit(unflatten);
  const Tensor x = at::randn({3, 12}), square = at::randn({1, 1, 3, 3});
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2, 6}, {3, 4}, {6, 2}}) {
    unflatten->options.sizes() = sizes;
    for (int call = 0; call < 2; ++call) EXPECT_TRUE(at::equal(f(x), unflatten(x)));
  }
  nn::Upsample upsample(nn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kNearest));
  const auto g = jit(upsample);
  for (const double scale : {2., 3., 1.}) {
    upsample->options.scale_factor()->front() = scale;
    for (int call = 0; call < 2; ++call) EXPECT_TRUE(at::equal(g(square), upsample(square)));
  }
  nn::LayerNorm norm(nn::LayerNormOptions({3, 3}).elementwise_affine(false));
  const auto h = jit(norm);
  for (int call = 0; call < 2; ++call) EXPECT_TRUE(at::allclose(h(square), norm(square)));
  norm->options.normalized_shape() = {3};
  EXPECT_TRUE(at::allclose(h(square), norm(square), 1e-5, 1e-5));
}

struct Hoard : nn::Module {
  std::vector<Tensor> weights{at::ones({4})};
  Tensor forward(Tensor x) { return x * weights[0]; }
};

TEST_F(Modules, TensorsThatNoComparedWordNamesRunEagerly) {
  const auto hoard = std::make_shared<Hoard>();
  const auto f = jit(hoard);
  const Tensor x = at::ones({4});
  f(x);
  hoard->weights[0] = at::full({4}, 3.);
  EXPECT_TRUE(at::equal(f(x), at::full({4}, 3.)));
  EXPECT_GT(counter("unwatched_module"), 0);
}

struct Calls : nn::Module {
  int64_t calls = 0;
  Tensor forward(Tensor x) { return x + ++calls; }
};

TEST_F(Modules, ThatCountTheirCallsRunEagerly) {
  const auto module = std::make_shared<Calls>();
  const auto f = jit(module);
  for (int time = 1; time < 5; ++time) EXPECT_TRUE(at::equal(f(at::zeros({2})), at::full({2}, static_cast<double>(time))));
  EXPECT_GT(counter("state_changed"), 0);
}

// --- the thread's state

TEST(State, DecidesAboutVersions) {
  const auto f = jit([](Tensor x) { return at::matmul(x, x) + at::ones({2, 2}); });
  const Tensor x = at::randn({2, 2});
  const at::ScalarType usual = f(x).scalar_type();
  at::set_default_dtype(caffe2::TypeMeta::Make<double>());
  const at::ScalarType wide = f(x).scalar_type();
  at::set_default_dtype(caffe2::TypeMeta::Make<float>());
  EXPECT_EQ(usual, at::kFloat);
  EXPECT_EQ(wide, at::kDouble);
  {
    const c10::InferenceMode inference;
    EXPECT_TRUE(f(x).is_inference());
  }
  EXPECT_FALSE(f(x).is_inference());
}

TEST(State, AJittedFunctionInsideAnotherIsAPartOfIt) {
  const auto inner = jit([](Tensor x, c10::SymInt n) { return at::relu(x) + at::ones_symint({n}); });
  const auto outer = jit([&](Tensor x) { return inner(x, escapement::sym_size(x, 0)) * 2; });
  const auto wanted = [](const Tensor& x) { return (at::relu(x) + 1) * 2; };
  EXPECT_EQ(grown("recordings", [&] {
              for (const int64_t n : {3, 5, 1, 0}) {
                const Tensor x = at::randn({n});
                EXPECT_TRUE(at::equal(outer(x), wanted(x)));
              }
            }), 1);
}

TEST(State, ThreadsRecordOnce) {
  const auto f = jit([](Tensor x, Tensor y) { return at::softmax(x * 2 + y, -1); });
  const auto work = [&](int seed) {
    for (int time = 0; time < 50; ++time) {
      const Tensor x = at::full({1 + (time + seed) % 7, 5}, 0.5), y = at::full({5}, static_cast<double>(seed));
      if (!at::allclose(f(x, y), at::softmax(x * 2 + y, -1))) return false;
    }
    return true;
  };
  std::vector<char> good(6);
  EXPECT_EQ(grown("recordings", [&] {
              std::vector<std::thread> threads;
              for (size_t i = 0; i < good.size(); ++i) threads.emplace_back([&, i] { good[i] = work(static_cast<int>(i)); });
              for (std::thread& thread : threads) thread.join();
            }), 1);
  EXPECT_EQ(good, std::vector<char>(6, 1));
}

// --- errors

TEST(Errors, NameTheOption) {
  try {
    jit(pinned, {{"stict", "true"}});
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("strict"), std::string::npos) << error.what();
  }
  EXPECT_THROW(jit(pinned, {{"mode", "fast"}}), std::invalid_argument);
}

// What raised at one size does not at another.
TEST(Errors, ThatTheFunctionCatchesAreNotRecorded) {
  const at::NoGradGuard no_grad;
  const auto attempt = [](Tensor x) {
    try {
      return x.view({2, -1}).sum(1);
    } catch (const c10::Error&) {
      return x - 1;
    }
  };
  const auto f = jit(attempt);
  for (const int64_t n : {4, 6, 3, 8, 5, 10, 0, 1, 2}) {
    const Tensor x = at::arange(n, at::kFloat);
    EXPECT_TRUE(at::equal(f(x), attempt(x))) << n;
  }
  EXPECT_GT(counter("caught_exception"), 0);
}

TEST(Errors, StrictRaisesInsteadOfRunningEagerly) {
  const auto f = jit([](Tensor x) { return (x * x).sum(); }, {{"strict", "true"}});
  EXPECT_THROW(f(at::ones({2}).requires_grad_()), std::runtime_error);
}

TEST(Calls, MayLeaveOutTensorsAtTheEnd) {
  const auto f = jit([](Tensor x, std::optional<Tensor> y, Tensor z) { return x + (y ? 1 : 0) + (z.defined() ? 1 : 0); });
  EXPECT_TRUE(at::equal(f(at::zeros({2})), at::zeros({2})));
  EXPECT_TRUE(at::equal(f(at::zeros({2}), at::zeros({2})), at::ones({2})));
}

TEST(Calls, NameOneSignatureOfSeveral) {
  const auto f = jit<Tensor(Tensor, Tensor)>([](const auto& x, const auto& y) { return x + y; });
  f(at::ones({2}), at::ones({2}));
  EXPECT_EQ(grown("hits", [&] { EXPECT_TRUE(at::equal(f(at::ones({3}), at::ones({3})), at::full({3}, 2.))); }), 1);
}

}  // namespace
