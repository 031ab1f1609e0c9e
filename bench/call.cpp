// What a call costs apart from its work: entry checks per input, and a run with one small kernel, on hand-made plans so that nothing
// but the run time is measured. Eager's cheapest op of the same size stands beside it.
#include <ATen/ops/add.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <benchmark/benchmark.h>

#include "../tests/unit/run_support.h"
#include "torch/program/program.h"

namespace escapement {
namespace {

using run_test::map_nest;
using run_test::PlanBuilder;

// A kernel as compiled code looks: one function for fast maps over f32, all inputs added up.
class FunctionKernel final : public KernelCode {
 public:
  explicit FunctionKernel(LoopNest nest) : nest_(std::move(nest)) {}
  const LoopNest& nest() const override { return nest_; }
  bool has(Variant variant) const override { return variant == Variant::fast; }
  KernelFunction function(Variant) override { return &sum; }
  void run(Variant, const KernelArgs&, int64_t, int64_t, int64_t, int64_t) override {}

 private:
  static void sum(const KernelArgs* args, int64_t, int64_t, int64_t begin, int64_t end) {
    const auto* a = static_cast<const float*>(args->data[0]);
    const auto* b = static_cast<const float*>(args->data[1]);
    auto* c = static_cast<float*>(args->data[2]);
    for (int64_t i = begin; i < end; ++i) c[i] = a[i] + b[i];
  }
  LoopNest nest_;
};

// out = in0 + in1; further inputs are only checked.
Program make_program(uint32_t inputs, bool parameters) {
  PlanBuilder builder;
  std::vector<Dim> sizes;
  for (uint32_t d = 0; d < 2; ++d) {
    Source source;
    source.kind = Source::Kind::input_size;
    source.dim = d;
    sizes.push_back(builder.symbol(SymbolKind::size, source));
  }
  std::vector<ValueId> values;
  for (uint32_t i = 0; i < inputs; ++i) {
    values.push_back(builder.value(sizes, Buffer::Kind::input));
    builder.plan.trace.inputs.back().parameter = parameters && i >= 2;
  }
  const ValueId out = builder.output(builder.value(sizes, Buffer::Kind::output));
  const uint32_t kernel = builder.kernel(map_nest(2, 2));
  builder.code[kernel] = std::make_shared<FunctionKernel>(map_nest(2, 2));
  builder.add(kernel, {values[0], values[1]}, out);
  auto compiled = std::make_shared<Compiled>();
  compiled->plan = std::move(builder.plan);
  compiled->code = std::move(builder.code);
  return Program(std::move(compiled), Recording(), Options());
}

struct Call {
  std::vector<at::Tensor> tensors;
  std::vector<Argument> arguments;
  Call(uint32_t inputs, int64_t m, int64_t n) {
    for (uint32_t i = 0; i < inputs; ++i) tensors.push_back(at::randn({m, n}));
    for (const at::Tensor& tensor : tensors) arguments.push_back({&tensor, 0});
  }
};

void entry_checks(benchmark::State& state) {
  const auto inputs = static_cast<uint32_t>(state.range(0));
  const Program program = make_program(inputs, false);
  const Call call(inputs, 4, 4);
  for (auto _ : state) benchmark::DoNotOptimize(program.fits(call.arguments));
}
BENCHMARK(entry_checks)->Arg(2)->Arg(10)->Arg(100);

void run_one_shape(benchmark::State& state) {
  const Program program = make_program(2, false);
  const Call call(2, 4, 4);
  std::vector<c10::IValue> outputs;
  for (auto _ : state) {
    outputs.clear();
    benchmark::DoNotOptimize(program.run(call.arguments, outputs));
  }
}
BENCHMARK(run_one_shape);

void run_changing_shapes(benchmark::State& state) {
  const Program program = make_program(2, false);
  const Call first(2, 4, 4), second(2, 3, 5);
  std::vector<c10::IValue> outputs;
  bool odd = false;
  for (auto _ : state) {
    outputs.clear();
    odd = !odd;
    benchmark::DoNotOptimize(program.run(odd ? first.arguments : second.arguments, outputs));
  }
}
BENCHMARK(run_changing_shapes);

void run_large(benchmark::State& state) {
  const Program program = make_program(2, false);
  const Call call(2, 1, state.range(0));
  std::vector<c10::IValue> outputs;
  for (auto _ : state) {
    outputs.clear();
    benchmark::DoNotOptimize(program.run(call.arguments, outputs));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 12);
}
BENCHMARK(run_large)->RangeMultiplier(2)->Range(1 << 13, 1 << 18)->Arg(1 << 22)->Arg(1 << 24);

void eager_add(benchmark::State& state) {
  const at::Tensor a = at::randn({1, state.range(0)}), b = at::randn({1, state.range(0)});
  for (auto _ : state) benchmark::DoNotOptimize(at::add(a, b));
  state.SetBytesProcessed(state.iterations() * state.range(0) * 12);
}
BENCHMARK(eager_add)->Arg(16)->RangeMultiplier(2)->Range(1 << 13, 1 << 18)->Arg(1 << 22)->Arg(1 << 24);

}  // namespace
}  // namespace escapement

BENCHMARK_MAIN();
