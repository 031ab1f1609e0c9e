// The API of jit.h beyond tensors and numbers: options as a struct, callables that may change themselves, copies, enums, texts and structs as
// arguments and results, what a function counts and tells.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <boost/hana/adapt_struct.hpp>
#include <boost/hana/define_struct.hpp>
#include <escapement/jit.h>
#include <gtest/gtest.h>
#include <torch/nn/modules.h>

#include <functional>
#include <mutex>
#include <string>

#include "report.h"

// At file scope, as users write them.
struct Scaling {
  at::Tensor weight;
  double factor;
  std::optional<at::Tensor> shift;
};
BOOST_HANA_ADAPT_STRUCT(Scaling, weight, factor, shift);

struct Moments {
  BOOST_HANA_DEFINE_STRUCT(Moments, (at::Tensor, mean), (at::Tensor, deviation), (int64_t, count));
};

struct Layer {
  std::vector<Scaling> parts;
  std::string name;
};
BOOST_HANA_ADAPT_STRUCT(Layer, parts, name);

namespace {

namespace nn = torch::nn;
using at::Tensor;
using escapement::jit;
using escapement::Mode;

Tensor rows(int64_t n) { return at::arange(n, at::kFloat) + 1; }

template <class F>
int64_t recordings_of(const F& f) {
  return sum_of(f.explain(), "recordings");
}

// --- options as a struct

TEST(Options, StrictIsStrict) {
  const auto f = jit([](Tensor x) { return (x * x).sum(); }, {.strict = true});
  EXPECT_THROW(f(rows(2).requires_grad_()), std::runtime_error);
}

TEST(Options, ReplayModeRunsTheFunctionItself) {
  const at::NoGradGuard no_grad;
  int runs = 0;
  const auto f = jit([&](Tensor x) { return ++runs, x + 1; }, {.mode = Mode::replay, .threads = 1, .name = "counted"});
  for (const int64_t n : {3, 4, 5}) EXPECT_TRUE(at::equal(f(rows(n)), rows(n) + 1));
  EXPECT_EQ(runs, 3);
  EXPECT_NE(f.explain().find("\"counted\""), std::string::npos);
}

TEST(Options, OfBothKindsSayTheSame) {
  const at::NoGradGuard no_grad;
  const auto pinned = [](Tensor x) { return x * x.size(0); };
  const auto by_struct = jit(pinned, {.max_recordings = 1}), by_text = jit(pinned, {{"max_recordings", "1"}});
  for (const int64_t n : {3, 4, 5}) by_struct(rows(n)), by_text(rows(n));
  EXPECT_EQ(recordings_of(by_struct), recordings_of(by_text));
  EXPECT_EQ(recordings_of(by_struct), 1);
}

TEST(Options, OfANamedSignatureToo) {
  const auto f = jit<Tensor(Tensor, Tensor)>([](const auto& x, const auto& y) { return x + y; }, {.strict = true});
  EXPECT_TRUE(at::equal(f(rows(2), rows(2)), rows(2) * 2));
}

TEST(Options, OutOfRangeAreRefused) {
  EXPECT_THROW(jit([](Tensor x) { return x; }, {.threads = -1}), std::invalid_argument);
}

// --- callables that may change themselves

TEST(Mutable, ALambdaThatHoldsAModule) {
  const at::NoGradGuard no_grad;
  nn::Linear linear(4, 3);
  const auto f = jit([linear](Tensor x) mutable { return at::relu(linear(x)); });
  for (const int64_t n : {2, 5, 1, 0}) {
    const Tensor x = at::randn({n, 4});
    EXPECT_TRUE(at::allclose(f(x), at::relu(linear(x)), 1e-5, 1e-5));
  }
  EXPECT_EQ(recordings_of(f), 1);
  EXPECT_GT(f.metrics().hits, 0);
}

TEST(Mutable, OneThatCountsItsCalls) {
  const at::NoGradGuard no_grad;
  for (const Mode mode : {Mode::call, Mode::replay}) {
    const auto f = jit([calls = int64_t{0}](Tensor x) mutable { return x + ++calls; }, {.mode = mode});
    for (int time = 1; time < 20; ++time) EXPECT_TRUE(at::equal(f(at::zeros({time % 4})), at::full({time % 4}, static_cast<double>(time)))) << time;
  }
}

TEST(Mutable, OneThatChangesAtSomeSizesOnly) {
  const at::NoGradGuard no_grad;
  const auto fresh = [] {
    return [offset = 0.0](Tensor x) mutable {
      if (escapement::sym_size(x, 0) > 10) offset += 1;
      return x + offset;
    };
  };
  const auto f = jit(fresh());
  auto wanted = fresh();
  for (const int64_t n : {3, 4, 20, 3, 30, 4, 4, 12, 5, 3}) EXPECT_TRUE(at::equal(f(rows(n)), wanted(rows(n)))) << n;
}

TEST(Mutable, AFunctorWhoseStateIsATensor) {
  const at::NoGradGuard no_grad;
  struct Mean {
    Tensor sum = at::zeros({});
    Tensor operator()(Tensor x) { return sum = sum + x.sum(), sum * 2; }
  };
  const auto f = jit(Mean());
  Mean wanted;
  for (const int64_t n : {3, 4, 3, 5, 3}) EXPECT_TRUE(at::equal(f(rows(n)), wanted(rows(n)))) << n;
}

TEST(Mutable, ACallableThatCannotBeCopied) {
  const at::NoGradGuard no_grad;
  const auto f = jit([weight = std::make_unique<Tensor>(rows(3))](Tensor x) { return x * *weight; });
  EXPECT_TRUE(at::equal(f(rows(3)), rows(3) * rows(3)));
}

// --- copies

TEST(Copies, AreTheSameFunction) {
  const at::NoGradGuard no_grad;
  const auto f = jit([](Tensor x) { return x * 2; });
  const auto copy = f;
  f(rows(3));
  EXPECT_EQ(grown("recordings", [&] { EXPECT_TRUE(at::equal(copy(rows(4)), rows(4) * 2)); }), 0);
  EXPECT_EQ(f.metrics().hits, 1);
  EXPECT_EQ(copy.metrics().recordings, 1);
}

TEST(Copies, OutliveTheFirst) {
  const at::NoGradGuard no_grad;
  std::function<Tensor(const Tensor&, const Tensor&)> function;
  {
    const auto f = jit([](Tensor x, Tensor y) { return x + y; });
    f(rows(2), rows(2));
    function = f;
  }
  EXPECT_EQ(grown("hits", [&] { EXPECT_TRUE(at::equal(function(rows(5), rows(5)), rows(5) * 2)); }), 1);
}

TEST(Copies, OfAMutableLambdaShareItsState) {
  const at::NoGradGuard no_grad;
  const auto f = jit([calls = 0](Tensor x) mutable { return x + ++calls; });
  const std::vector<std::function<Tensor(Tensor)>> all{f, f, f};
  for (int time = 0; time < 9; ++time) EXPECT_TRUE(at::equal(all[time % 3](at::zeros({2})), at::full({2}, time + 1.0)));
}

// --- enums and texts: part of the key

enum class Activation : uint8_t { relu, tanh };
enum Signed : int64_t { below = -5, above = 5 };

TEST(Enums, ChooseAVersion) {
  const at::NoGradGuard no_grad;
  const auto f = jit([](Tensor x, Activation kind) { return kind == Activation::relu ? at::relu(x) : at::tanh(x); });
  for (const int64_t n : {3, 5, 1}) {
    EXPECT_TRUE(at::allclose(f(-rows(n), Activation::relu), at::zeros({n})));
    EXPECT_TRUE(at::allclose(f(rows(n), Activation::tanh), at::tanh(rows(n))));
  }
  EXPECT_EQ(recordings_of(f), 2);
}

TEST(Enums, OfTorchsOwn) {
  const at::NoGradGuard no_grad;
  const auto f = jit([](Tensor x, at::ScalarType dtype, c10::MemoryFormat format) { return std::pair(x.to(dtype).contiguous(format), dtype); });
  for (const auto dtype : {at::kDouble, at::kLong, at::kHalf, at::kDouble}) {
    const auto [y, seen] = f(at::ones({2, 3, 4, 5}), dtype, c10::MemoryFormat::ChannelsLast);
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_EQ(seen, dtype);
    EXPECT_TRUE(y.is_contiguous(c10::MemoryFormat::ChannelsLast));
  }
  EXPECT_EQ(recordings_of(f), 3);
}

TEST(Enums, BelowZeroAndBoundAnew) {
  const at::NoGradGuard no_grad;
  const auto f = jit([](Tensor x, Signed& sign) { return sign = sign == below ? above : below, x * static_cast<int64_t>(sign); });
  Signed sign = below;
  for (const double wanted : {5., -5., 5., -5.}) EXPECT_TRUE(at::equal(f(at::ones({2}), sign), at::full({2}, wanted)));
}

TEST(Texts, ChooseAVersion) {
  const at::NoGradGuard no_grad;
  const auto f = jit([](Tensor x, std::string_view kind, const std::string& more) {
    return std::tuple(kind == "relu" ? at::relu(x) : x * 2, std::string(kind) + more, kind.size());
  });
  const std::string with_zero("a\0b", 3), long_text(100, 'x');
  for (const int64_t n : {3, 5}) {
    for (const std::string_view kind : {"relu", "", "12345678", "123456789"}) {
      for (const std::string& more : {std::string(), with_zero, long_text}) {
        const auto [y, text, size] = f(rows(n), kind, more);
        EXPECT_TRUE(at::equal(y, kind == "relu" ? at::relu(rows(n)) : rows(n) * 2));
        EXPECT_EQ(text, std::string(kind) + more);
        EXPECT_EQ(size, kind.size());
      }
    }
  }
  EXPECT_EQ(recordings_of(f), 12);
}

TEST(Texts, AreResultsAndAreBoundAnew) {
  const at::NoGradGuard no_grad;
  const auto f = jit([](Tensor x, std::string& log) -> std::string_view { return log += "!", x.dim() > 1 ? "matrix" : "vector"; });
  std::string log;
  for (int time = 0; time < 3; ++time) {
    EXPECT_EQ(f(rows(3), log), "vector");
    EXPECT_EQ(f(at::ones({2, 2}), log), "matrix");
  }
  EXPECT_EQ(log, "!!!!!!");
}

// --- structs

TEST(Structs, AsArguments) {
  const at::NoGradGuard no_grad;
  const auto body = [](const Tensor& x, const Scaling& s) { return x * s.weight * s.factor + (s.shift ? *s.shift : at::zeros({})); };
  const auto f = jit(body);
  for (const int64_t n : {3, 5, 1}) {
    for (const bool shifted : {true, false}) {
      const Scaling scaling{rows(n), 2.5, shifted ? std::optional(at::ones({n})) : std::nullopt};
      EXPECT_TRUE(at::equal(f(rows(n), scaling), body(rows(n), scaling)));
    }
  }
  EXPECT_EQ(recordings_of(f), 2);
}

TEST(Structs, AsResults) {
  const at::NoGradGuard no_grad;
  const auto f = jit([](const Tensor& x) { return Moments{x.mean(), x.std(), x.numel()}; });
  for (const int64_t n : {3, 5, 3}) {
    const Moments found = f(rows(n));
    EXPECT_TRUE(at::allclose(found.mean, rows(n).mean()));
    EXPECT_TRUE(at::allclose(found.deviation, rows(n).std()));
    EXPECT_EQ(found.count, n);
  }
}

TEST(Structs, NestedAndBoundAnew) {
  const at::NoGradGuard no_grad;
  const auto step = [](Layer& layer, const Tensor& x) {
    Tensor y = x;
    for (Scaling& part : layer.parts) y = y * part.weight, part.weight = y + part.factor;
    layer.name += std::to_string(layer.parts.size());
    return y;
  };
  const auto fresh = [] { return Layer{{{rows(3), 1.5, {}}, {rows(3), 2.0, rows(3)}}, "layer"}; };
  const auto f = jit(step);
  Layer mine = fresh(), wanted = fresh();
  for (int time = 0; time < 4; ++time) {
    EXPECT_TRUE(at::equal(f(mine, rows(3)), step(wanted, rows(3))));
    EXPECT_EQ(mine.name, wanted.name);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::equal(mine.parts[i].weight, wanted.parts[i].weight));
  }
}

// --- what a function counts and tells

TEST(Metrics, AreOfTheFunction) {
  const at::NoGradGuard no_grad;
  const auto f = jit([](Tensor x) { return x * 2; }), other = jit([](Tensor x) { return x * 3; });
  for (int time = 0; time < 5; ++time) f(rows(time)), other(rows(time)), other(rows(time));
  const escapement::Metrics metrics = f.metrics();
  EXPECT_EQ(metrics.calls, 5);
  EXPECT_EQ(metrics.hits, 4);
  EXPECT_EQ(metrics.recordings, 1);
  EXPECT_EQ(metrics.versions, 1);
  EXPECT_EQ(metrics.eager_calls(), 0);
  EXPECT_GT(metrics.record_seconds + metrics.compile_seconds, 0);
}

TEST(Metrics, SayWhyCallsRanEagerly) {
  const auto f = jit([](Tensor x) { return (x * x).sum(); });
  for (int time = 0; time < 3; ++time) f(rows(3).requires_grad_());
  EXPECT_EQ(f.metrics().eager_by_reason.at("gradient"), 3);
  EXPECT_EQ(f.metrics().calls, 3);
}

TEST(Metrics, CountReplaysAndEveryCallOnce) {
  const at::NoGradGuard no_grad;
  const auto replayed = jit([](Tensor x) { return x * 2; }, {.mode = Mode::replay});
  for (int time = 0; time < 4; ++time) replayed(rows(3));
  EXPECT_EQ(replayed.metrics().replays, 4);
  const auto pinned = jit([](Tensor x) { return x * x.size(0); });
  for (int64_t n = 1; n < 9; ++n) pinned(rows(n)), pinned(rows(n));
  EXPECT_EQ(pinned.metrics().calls, 16);
  EXPECT_GT(pinned.metrics().replays, 0);
}

struct Told {
  std::mutex mutex;
  std::vector<escapement::LogLine> lines;
  escapement::Log log() {
    return [this](const escapement::LogLine& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(line);
    };
  }
  int64_t count(std::string_view event) { return std::count_if(lines.begin(), lines.end(), [&](const auto& line) { return line.event == event; }); }
};

TEST(Logs, TellOfRecordingsAndCompiles) {
  const at::NoGradGuard no_grad;
  Told told;
  const auto f = jit([](Tensor x) { return x * 2; }, {.name = "doubled", .log = told.log()});
  f(rows(3)), f(rows(4));
  EXPECT_EQ(told.count("recorded"), 1);
  EXPECT_EQ(told.count("compiled"), 1);
  for (const auto& line : told.lines) EXPECT_EQ(line.module, "doubled");
}

TEST(Logs, MayBeSetAndTakenAwayLater) {
  const at::NoGradGuard no_grad;
  Told told;
  const auto f = jit([](Tensor x) { return x * x.size(0); });
  f(rows(3));
  f.set_log(told.log());
  f(rows(4));
  EXPECT_EQ(told.count("recorded"), 1);
  f.set_log(nullptr);
  f(rows(5));
  EXPECT_EQ(told.count("recorded"), 1);
}

TEST(Logs, MayThrow) {
  const at::NoGradGuard no_grad;
  const auto f = jit([](Tensor x) { return x * 2; }, {.log = [](const escapement::LogLine&) { throw std::runtime_error("a full disk"); }});
  EXPECT_TRUE(at::equal(f(rows(3)), rows(3) * 2));
}

TEST(Logs, NothingGoesToStandardErrorByItself) {
  const at::NoGradGuard no_grad;
  testing::internal::CaptureStderr();
  Told told;
  const auto refused = [](Tensor x) { return x + x.data_ptr<float>()[0]; };
  const auto silent = jit(refused), heard = jit(refused, {.log = told.log()});
  for (int time = 0; time < 3; ++time) silent(rows(3)), heard(rows(3));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(told.count("not_compiled"), 1);
  EXPECT_EQ(silent.metrics().eager_by_reason.count("storage_access") + static_cast<size_t>(silent.metrics().recordings > 0), 2u);
}

TEST(Versions, OfHeadersAndLibraryAreTheSame) {
  const std::string headers = std::to_string(ESCAPEMENT_VERSION_MAJOR) + "." + std::to_string(ESCAPEMENT_VERSION_MINOR) + "." + std::to_string(ESCAPEMENT_VERSION_PATCH);
  EXPECT_EQ(escapement::version(), headers);
}

}  // namespace
