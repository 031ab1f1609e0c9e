// What the entry checks of a call cost: n inputs whose sizes are eight symbols, a hit; the fourth of four versions, where the first
// three miss in the last guard and in the first input; parameters (constant sizes) as inputs. No library, no kernel: the checks alone.
//
//   checks/inputs:N            time per call; items are tensors, so items_per_second is the inverse of the time per tensor
//   fourth_by_guard, fourth_by_dtype: compare with checks of the same N
#include <ATen/ops/empty.h>
#include <benchmark/benchmark.h>

#include "../tests/unit/run_support.h"
#include "jit/llvm/compile.h"
#include "torch/program/program.h"

namespace escapement {
namespace {

using run_test::PlanBuilder;

constexpr uint32_t kSymbols = 8;
constexpr int64_t kSizes[kSymbols] = {2, 3, 4, 5, 6, 7, 8, 9};

struct Shape {
  DType dtype = DType::f32;
  int64_t modulus = 2;       // a guard on the first symbol: s0 % modulus == 0, and
  int64_t below = 1 << 20;   // s0 < below
  bool parameters = false;   // all inputs but the first four have constant sizes
};

bool is_parameter(const Shape& shape, uint32_t input) { return shape.parameters && input >= 4; }

void guard_first_symbol(Trace& trace, Dim symbol, const Shape& shape) {
  const Dim rest = trace.dims.mod(symbol, trace.dims.constant(shape.modulus));
  trace.guards.push_back({Guard::Kind::equal, rest, trace.dims.constant(0), {}, "bench", {}});
  trace.guards.push_back({Guard::Kind::less, symbol, trace.dims.constant(shape.below), {}, "bench", {}});
}

Program make_program(uint32_t inputs, const Shape& shape) {
  PlanBuilder builder;
  Trace& trace = builder.plan.trace;
  std::vector<Dim> symbols;
  for (uint32_t s = 0; s < kSymbols; ++s) {
    Source source;
    source.kind = Source::Kind::input_size;
    source.input = s / 2 % inputs;
    source.dim = s % 2;
    symbols.push_back(s / 2 < inputs ? builder.symbol(SymbolKind::size, source) : symbols[s % 2]);
  }
  for (uint32_t i = 0; i < inputs; ++i) {
    const uint32_t first = 2 * i % kSymbols;
    std::vector<Dim> sizes{symbols[first], symbols[first + 1]};
    if (is_parameter(shape, i)) sizes = {builder.constant(kSizes[first]), builder.constant(kSizes[first + 1])};
    const ValueId value = builder.value(sizes, Buffer::Kind::input);
    trace.values[value.index].type.dtype = shape.dtype;
    trace.inputs.back().parameter = is_parameter(shape, i);
  }
  guard_first_symbol(trace, symbols[0], shape);
  for (uint32_t g = 0; g < trace.guards.size(); ++g) builder.plan.entry.push_back(g);
  auto compiled = std::make_shared<Compiled>();
  compiled->plan = std::move(builder.plan);
  compiled->guards = compile_guards;
  Program program(std::move(compiled), Recording(), Options());
  program.compile_guards();
  return program;
}

struct Call {
  std::vector<at::Tensor> tensors;
  std::vector<Argument> arguments;
  explicit Call(uint32_t inputs) {
    for (uint32_t i = 0; i < inputs; ++i) tensors.push_back(at::empty({kSizes[2 * i % kSymbols], kSizes[2 * i % kSymbols + 1]}));
    for (const at::Tensor& tensor : tensors) arguments.push_back({&tensor, 0});
  }
};

// The versions in order, as a region tries them.
void run(benchmark::State& state, std::span<const Shape> shapes) {
  const auto inputs = static_cast<uint32_t>(state.range(0));
  std::vector<Program> versions;
  for (const Shape& shape : shapes) versions.push_back(make_program(inputs, shape));
  const Call call(inputs);
  for (auto _ : state) {
    size_t hit = 0;
    while (hit < versions.size() && !versions[hit].fits(call.arguments)) ++hit;
    if (hit + 1 != versions.size()) return state.SkipWithError("the last version is not the one that fits");
  }
  state.SetItemsProcessed(state.iterations() * inputs);
}

void checks(benchmark::State& state) { run(state, std::array{Shape{}}); }
void parameters(benchmark::State& state) { run(state, std::array{Shape{.parameters = true}}); }
void fourth_by_guard(benchmark::State& state) {
  run(state, std::array{Shape{.modulus = 5}, Shape{.modulus = 3}, Shape{.below = 2}, Shape{}});
}
void fourth_by_dtype(benchmark::State& state) {
  run(state, std::array{Shape{DType::f64}, Shape{DType::i64}, Shape{DType::f16}, Shape{}});
}

// The least that a check in C++ can cost here: one loop that reads the same words of each tensor and compares them with constants.
void floor(benchmark::State& state) {
  const Call call(static_cast<uint32_t>(state.range(0)));
  struct Expected {
    c10::DispatchKeySet keys;
    caffe2::TypeMeta dtype;
    int64_t sizes[2];
  };
  std::vector<Expected> expected;
  for (const at::Tensor& t : call.tensors) expected.push_back({t.key_set(), t.dtype(), {t.size(0), t.size(1)}});
  for (auto _ : state) {
    bool same = true;
    for (size_t i = 0; i < expected.size(); ++i) {
      const c10::TensorImpl& impl = *call.arguments[i].tensor->unsafeGetTensorImpl();
      const auto sizes = impl.sizes();
      const Expected& e = expected.data()[i];
      same &= impl.key_set() == e.keys && impl.dtype() == e.dtype && sizes.size() == 2 && sizes.data()[0] == e.sizes[0] &&
              sizes.data()[1] == e.sizes[1] && impl.is_contiguous();
    }
    benchmark::DoNotOptimize(same);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(floor)->Arg(1)->Arg(10)->Arg(100)->Arg(300);
BENCHMARK(checks)->Arg(1)->Arg(10)->Arg(100)->Arg(300);
BENCHMARK(parameters)->Arg(10)->Arg(100)->Arg(300);
BENCHMARK(fourth_by_guard)->Arg(1)->Arg(10)->Arg(100)->Arg(300);
BENCHMARK(fourth_by_dtype)->Arg(1)->Arg(10)->Arg(100)->Arg(300);

}  // namespace
}  // namespace escapement

BENCHMARK_MAIN();
