// What a call of a compiled function costs through the C++ API, beside eager, in one process: three operators on 16
// elements, all checks on. `interleaved` runs both in turn, so that a busy machine slows both alike; its counters are
// medians in ns and their ratio.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>
#include <escapement/jit.h>

#include <algorithm>
#include <chrono>

namespace {

using at::Tensor;

Tensor three_ops(const Tensor& x, const Tensor& y) { return at::relu((x + y) * y); }

const auto& compiled() {
  static const auto f = escapement::jit(three_ops);
  return f;
}

struct Inputs {
  at::NoGradGuard no_grad;
  Tensor x = at::randn({16}), y = at::randn({16});
};

void eager(benchmark::State& state) {
  const Inputs in;
  for (auto _ : state) benchmark::DoNotOptimize(three_ops(in.x, in.y));
}
BENCHMARK(eager);

void jitted(benchmark::State& state) {
  const Inputs in;
  for (auto _ : state) benchmark::DoNotOptimize(compiled()(in.x, in.y));
}
BENCHMARK(jitted);

void jitted_changing_shapes(benchmark::State& state) {
  const Inputs in;
  const Tensor x = at::randn({3, 5}), y = at::randn({3, 5}), u = at::randn({2, 8}), v = at::randn({2, 8});
  bool odd = false;
  for (auto _ : state) {
    odd = !odd;
    benchmark::DoNotOptimize(odd ? compiled()(x, y) : compiled()(u, v));
  }
}
BENCHMARK(jitted_changing_shapes);

void function(benchmark::State& state) {
  const Inputs in;
  const escapement::Function f([](const std::vector<Tensor>& t) { return std::vector<Tensor>{three_ops(t[0], t[1])}; });
  for (auto _ : state) benchmark::DoNotOptimize(f({in.x, in.y}));
}
BENCHMARK(function);

template <class Call>
double nanoseconds(const Call& call) {
  constexpr int kCalls = 200;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) benchmark::DoNotOptimize(call());
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kCalls;
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void interleaved(benchmark::State& state) {
  const Inputs in;
  std::vector<double> eager_times, jitted_times, ratios;
  for (auto _ : state) {
    eager_times.push_back(nanoseconds([&] { return three_ops(in.x, in.y); }));
    jitted_times.push_back(nanoseconds([&] { return compiled()(in.x, in.y); }));
    ratios.push_back(eager_times.back() / jitted_times.back());
  }
  state.counters["eager_ns"] = median(eager_times);
  state.counters["jitted_ns"] = median(jitted_times);
  state.counters["ratio"] = median(ratios);
}
BENCHMARK(interleaved);

}  // namespace

BENCHMARK_MAIN();
