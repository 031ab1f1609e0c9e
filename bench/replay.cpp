// What a matched operator costs in replay mode, beside the same operator run by eager. A chain of N operators on 8 floats:
// one call of the region, its one launch included, against N eager operators. `per_op` is time by operator; the difference
// between two lengths is the matched operator alone. Run with --benchmark_enable_random_interleaving=true
// --benchmark_repetitions=9.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>

#include "torch/replay_mode/replay_region.h"

namespace escapement {
namespace {

using Values = ReplayRegion::Values;
using Step = at::Tensor (*)(const at::Tensor& x, const at::Tensor& y);

at::Tensor add_step(const at::Tensor& x, const at::Tensor& y) { return at::add(x, y); }
at::Tensor relu_step(const at::Tensor& x, const at::Tensor&) { return at::relu(x); }
at::Tensor scale_step(const at::Tensor& x, const at::Tensor&) { return at::mul(x, 1.5); }
at::Tensor view_step(const at::Tensor& x, const at::Tensor& y) { return x.view({y.size(0)}); }
at::Tensor in_place_step(const at::Tensor& x, const at::Tensor& y) { return at::Tensor(x).add_(y); }

at::Tensor chain(Step step, int64_t length, const at::Tensor& x, const at::Tensor& y) {
  at::Tensor z = at::add(x, y);
  for (int64_t i = 1; i < length; ++i) z = step(z, y);
  return z;
}

void report(benchmark::State& state, int64_t length) {
  state.counters["per_op"] = benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(length),
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

template <Step step>
void replay_chain(benchmark::State& state) {
  const c10::InferenceMode inference;
  const int64_t length = state.range(0);
  ReplayRegion region("chain", [length](const Values& in, Values& out) {
    out.emplace_back(chain(step, length, in[0].toTensor(), in[1].toTensor()));
  }, default_options());
  const Values arguments{at::rand({8}), at::rand({8})};
  Values outputs;
  for (int i = 0; i < 3; ++i) region.call(arguments, outputs);
  for (auto _ : state) {
    outputs.clear();
    region.call(arguments, outputs);
  }
  report(state, length);
}

template <Step step>
void eager_chain(benchmark::State& state) {
  const c10::InferenceMode inference;
  const at::Tensor x = at::rand({8}), y = at::rand({8});
  for (auto _ : state) benchmark::DoNotOptimize(chain(step, state.range(0), x, y));
  report(state, state.range(0));
}

#define BOTH(step)                                          \
  BENCHMARK(replay_chain<step>)->Arg(8)->Arg(64)->Arg(512); \
  BENCHMARK(eager_chain<step>)->Arg(64)

BOTH(add_step);
BOTH(relu_step);
BOTH(scale_step);
BOTH(view_step);
BOTH(in_place_step);

}  // namespace
}  // namespace escapement

int main(int argc, char** argv) {
  at::set_num_threads(1);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
