// Machine code of typical kernels against roofs that are taken by plain C++ loops in the same process, and what compiling costs.
// One thread. Bytes count each tensor once, however often a kernel passes over it. Trust ratios within one run only.
#include <benchmark/benchmark.h>

#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "jit/llvm/compile.h"
#include "jit/llvm/device/device.h"
#include "typical_nests.h"

namespace escapement {
namespace {

// --- running

// A kernel on [rows, columns] (maps: flat).
class Runner {
 public:
  Runner(LoopNest nest, Variant variant, int64_t rows, int64_t columns) : nest_(std::move(nest)) {
    module_ = CodeGenerator::instance().compile({{&nest_, variant, "kernel"}});
    if (nest_.schedule == Schedule::map) extents_ = {rows * columns};
    else extents_ = {rows, columns};
    const size_t axes = extents_.size();
    for (size_t p = 0; p < nest_.params.size(); ++p) {
      const int64_t size = size_of(nest_.params[p].dtype);
      const bool vector_only = (axes == 2 && nest_.schedule == Schedule::row && p > 0 && p + 1 < nest_.params.size()) ||
                               (nest_.schedule == Schedule::column && p == 1);
      const int64_t elements = vector_only ? columns : rows * columns;
      buffers_.push_back(std::make_unique<char[]>(static_cast<size_t>(elements * size) + 64));
      std::memset(buffers_.back().get(), 0x3c, static_cast<size_t>(elements * size));   // a small positive number in every type
      data_.push_back(buffers_.back().get());
      if (axes == 2) strides_.push_back(vector_only ? 0 : columns * size);
      strides_.push_back(size);
      strides_.push_back(0);
      bytes_ += elements * size;
    }
    for (size_t s = 0; s < nest_.scalars.size(); ++s) scalars_.push_back(to_bits(1.0 / static_cast<double>(columns), kF32));
  }

  void run() {
    KernelArgs args{data_.data(), extents_.data(), strides_.data(), scalars_.data(), &failure_, nullptr};
    const bool map = nest_.schedule == Schedule::map, column = nest_.schedule == Schedule::column;
    module_->function(0)(&args, 0, map || column ? 1 : extents_[0], 0, map || column ? extents_.back() : 0);
  }
  int64_t bytes() const { return bytes_; }

 private:
  LoopNest nest_;
  std::unique_ptr<CodeModule> module_;
  std::vector<std::unique_ptr<char[]>> buffers_;
  std::vector<void*> data_;
  std::vector<int64_t> extents_, strides_;
  std::vector<uint64_t> scalars_;
  int64_t failure_ = 0, bytes_ = 0;
};

using Build = LoopNest (*)(DType);

void kernel(benchmark::State& state, Build build, DType type, Variant variant) {
  Runner runner(build(type), variant, state.range(0), state.range(1));
  for (auto _ : state) runner.run();
  state.SetBytesProcessed(state.iterations() * runner.bytes());
}

void compile(benchmark::State& state, Build build, DType type, Variant variant) {
  LoopNest nest = build(type);
  for (auto _ : state) CodeGenerator::instance().compile({{&nest, variant, "kernel"}});
}

void compile_twelve(benchmark::State& state, Build build, DType type) {
  LoopNest nest = build(type);
  std::vector<KernelSource> sources;
  for (int i = 0; i < 12; ++i) sources.push_back({&nest, Variant::fast, "kernel" + std::to_string(i)});
  for (auto _ : state) CodeGenerator::instance().compile(sources);
}

void emit_only(benchmark::State& state, Build build, DType type) {
  LoopNest nest = build(type);
  for (auto _ : state) benchmark::DoNotOptimize(CodeGenerator::instance().text({{&nest, Variant::fast, "kernel"}}, CodeText::ir));
}

// --- roofs: as STREAM's add, and a sum in eight vectors

typedef float Vector __attribute__((vector_size(32), aligned(4)));

void roof_add(benchmark::State& state) {
  const int64_t n = state.range(0) * state.range(1);
  std::vector<float> a(static_cast<size_t>(n), 1), b(a), c(a);
  for (auto _ : state) {
    for (int64_t i = 0; i + 8 <= n; i += 8)
      *reinterpret_cast<Vector*>(&c[static_cast<size_t>(i)]) = *reinterpret_cast<Vector*>(&a[static_cast<size_t>(i)]) + *reinterpret_cast<Vector*>(&b[static_cast<size_t>(i)]);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * n * 12);
}

void roof_copy(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0) * state.range(1)) * 4;
  std::vector<char> a(bytes, 1), b(bytes, 2);
  for (auto _ : state) {
    std::memcpy(b.data(), a.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(2 * bytes));
}

// Device code: `count` kernels in one PTX text, one thread. docs/cuda.md.
void ptx(benchmark::State& state, Build build, DType type, Team team) {
  const LoopNest nest = build(type);
  std::vector<DeviceSource> sources;
  for (int64_t i = 0; i < state.range(0); ++i) sources.push_back({&nest, {team, true}, "kernel" + std::to_string(i)});
  for (auto _ : state) benchmark::DoNotOptimize(device_ptx(sources, {}));
}

struct Case {
  const char* name;
  Build build;
};
constexpr Case kCases[] = {{"add", add_nest},         {"chain", chain_nest},           {"silu_mul", silu_mul_nest},
                           {"gelu", gelu_nest},       {"softmax", softmax_nest},       {"layer_norm", layer_norm},
                           {"layer_norm_gelu", layer_norm_gelu}, {"column_sum", column_sum_nest}};

void shapes(benchmark::internal::Benchmark* b) { b->Args({16, 768})->Args({256, 768})->Args({16384, 1024})->Args({8192, 31}); }

void register_all() {
  benchmark::RegisterBenchmark("roof/add", roof_add)->Apply(shapes);
  benchmark::RegisterBenchmark("roof/copy", roof_copy)->Apply(shapes);
  for (const Case& c : kCases) {
    for (DType type : {DType::f32, DType::bf16}) {
      const std::string name = std::string(c.name) + "/" + std::string(name_of(type));
      benchmark::RegisterBenchmark(("compile/" + name).c_str(), compile, c.build, type, Variant::fast)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
      benchmark::RegisterBenchmark(("run/" + name).c_str(), kernel, c.build, type, Variant::fast)->Apply(shapes);
    }
    benchmark::RegisterBenchmark(("compile_general/" + std::string(c.name)).c_str(), compile, c.build, DType::f32, Variant::general)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
    benchmark::RegisterBenchmark(("run_general/" + std::string(c.name)).c_str(), kernel, c.build, DType::f32, Variant::general)->Args({256, 768});
    benchmark::RegisterBenchmark(("emit/" + std::string(c.name)).c_str(), emit_only, c.build, DType::f32)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
  }
  for (const Case& c : kCases) {
    for (const Team team : {Team::tile, Team::warp, Team::block})
      if (has_team(c.build(DType::f32), {team, true}))
        benchmark::RegisterBenchmark(("ptx/" + std::string(c.name) + "/" + name_of(DeviceVariant{team, true})).c_str(), ptx, c.build, DType::f32, team)
            ->Arg(1)->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark("ptx/softmax", ptx, softmax_nest, DType::f32, Team::block)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("compile_twelve/layer_norm_gelu", compile_twelve, layer_norm_gelu, DType::f32)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();
}

}  // namespace
}  // namespace escapement

int main(int argc, char** argv) {
  escapement::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
