// Device kernels on a GPU against its copies of as many bytes, taken in turn (`./dev bench gpu`); what a launch costs the host; what code costs.
//
// The program begins with the device's name, or says in one line why there is none and ends. Times are the device's own (events). Bytes count each tensor
// once, however often a kernel passes over it. `of_copy`: the median over turns of (bytes/s of the kernel) / (bytes/s of the copy). Tensors that fit into
// the device's cache stay there, in the kernel and in the copy.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <vector>

#include "jit/cuda/launch.h"
#include "jit/cuda/linker.h"
#include "jit/llvm/device/device.h"
#include "typical_nests.h"

namespace escapement {
namespace {

using cuda::Address;
using cuda::DriverTable;

// What only a benchmark asks of the driver.
struct TimingTable {
  int (*cuEventCreate)(void** event, unsigned flags) = nullptr;
  int (*cuEventRecord)(void* event, cuda::Stream stream) = nullptr;
  int (*cuEventSynchronize)(void* event) = nullptr;
  int (*cuEventElapsedTime)(float* milliseconds, void* from, void* to) = nullptr;
  int (*cuMemcpyDtoDAsync_v2)(Address to, Address from, size_t bytes, cuda::Stream stream) = nullptr;
};

void check(int status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string(what) + " returned status " + std::to_string(status));
}

constexpr size_t kArena = size_t{5} << 29;    // 2.5 GiB twice: operands, and what the copies write
constexpr size_t kPattern = size_t{1} << 24;

class Gpu {
 public:
  explicit Gpu(const std::string& path) : driver(path), device(driver, 0) {
    find(times_.cuEventCreate, "cuEventCreate");
    find(times_.cuEventRecord, "cuEventRecord");
    find(times_.cuEventSynchronize, "cuEventSynchronize");
    if (!find(times_.cuEventElapsedTime, "cuEventElapsedTime_v2")) find(times_.cuEventElapsedTime, "cuEventElapsedTime");
    find(times_.cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync_v2");
    device.within([&] {
      driver.call<&DriverTable::cuStreamCreate>(&stream, 1u);
      driver.call<&DriverTable::cuMemAlloc_v2>(&operands, kArena);
      driver.call<&DriverTable::cuMemAlloc_v2>(&copies, kArena);
      check(times_.cuEventCreate(&from_, 0), "cuEventCreate");
      check(times_.cuEventCreate(&to_, 0), "cuEventCreate");
    });
    fill();
  }

  // Milliseconds on the device.
  template <class Work>
  float time(Work work) {
    float result = 0;
    device.within([&] {
      check(times_.cuEventRecord(from_, stream), "cuEventRecord");
      work();
      check(times_.cuEventRecord(to_, stream), "cuEventRecord");
      check(times_.cuEventSynchronize(to_), "cuEventSynchronize");
      check(times_.cuEventElapsedTime(&result, from_, to_), "cuEventElapsedTime");
    });
    return result;
  }
  void copy(Address to, Address from, size_t bytes) {
    device.within([&] { check(times_.cuMemcpyDtoDAsync_v2(to, from, bytes, stream), "cuMemcpyDtoDAsync"); });
  }
  void wait() {
    device.within([&] { driver.call<&DriverTable::cuStreamSynchronize>(stream); });
  }

  cuda::Driver driver;
  cuda::Device device;
  cuda::Stream stream = nullptr;
  Address operands = 0, copies = 0;

 private:
  template <class Function>
  bool find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(driver.find(symbol));
    return function != nullptr;
  }
  // Numbers between 0.5 and 2 in every floating type, and none the same as its neighbour.
  void fill() {
    std::vector<uint16_t> pattern(kPattern / 2);
    std::minstd_rand random(1);
    for (uint16_t& half : pattern) half = static_cast<uint16_t>(0x3f00 | (random() >> 8 & 0x7f));
    device.within([&] {
      driver.call<&DriverTable::cuMemcpyHtoDAsync_v2>(operands, static_cast<const void*>(pattern.data()), kPattern, stream);
    });
    for (size_t done = kPattern; done < kArena; done += kPattern) copy(operands + done, operands, std::min(kPattern, kArena - done));
    wait();
  }

  TimingTable times_;
  void *from_ = nullptr, *to_ = nullptr;
};

Gpu* g_gpu = nullptr;

// --- kernels

struct Loaded {
  explicit Loaded(LoopNest loop_nest) : nest(std::move(loop_nest)) {
    std::vector<DeviceSource> sources;
    for (const Team team : {Team::thread, Team::tile, Team::warp, Team::block, Team::partial, Team::finish})
      for (const bool fast : {false, true})
        if (has_team(nest, {team, fast})) sources.push_back({&nest, {team, fast}, "nest_" + name_of(DeviceVariant{team, fast})});
    ptx = device_ptx(sources, {});
  }
  std::vector<cuda::Function> functions(const cuda::DeviceLaunch& launch) {
    if (!module) module = std::make_unique<cuda::LoadedModule>(g_gpu->device, ptx);
    std::vector<cuda::Function> result;
    for (const cuda::GridStep& step : launch.steps) result.push_back(module->function("nest_" + name_of(step.variant)));
    return result;
  }
  LoopNest nest;
  std::string ptx;
  std::unique_ptr<cuda::LoadedModule> module;
};

// How a kernel's operands lie: [rows, columns], flat where the nest has one axis.
struct Shape {
  int64_t rows, columns;
  bool turned = false;   // the first operand is [columns, rows], transposed
};

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

class Run {
 public:
  Run(LoopNest nest, Shape shape) : loaded_(std::move(nest)) {
    const LoopNest& n = loaded_.nest;
    const size_t axes = n.axes.size();
    Geometry geometry;
    if (axes == 1) geometry.extents = {shape.rows * shape.columns};
    else geometry.extents = {shape.rows, shape.columns};
    size_t next = 0;
    for (size_t p = 0; p < n.params.size(); ++p) {
      const int64_t size = size_of(n.params[p].dtype);
      const auto [outer, inner] = strides_of(n, p, shape);
      if (axes == 2) geometry.strides.push_back(outer * size);
      geometry.strides.push_back(inner * size);
      geometry.strides.push_back(0);
      addresses_.push_back(g_gpu->operands + next);
      const int64_t elements = axes == 1 ? shape.rows * shape.columns : (outer ? shape.rows : 1) * (inner ? shape.columns : 1);
      bytes += static_cast<size_t>(elements * size);
      next += aligned(static_cast<size_t>(elements * size));
    }
    scratch_ = g_gpu->operands + next;
    const std::vector<uint64_t> scalars(n.scalars.size(), to_bits(1.0 / static_cast<double>(shape.columns), kF32));
    launch_ = cuda::prepare(n, geometry, scalars, g_gpu->device.limits());
    if (next + launch_.scratch_bytes > kArena) throw std::runtime_error("operands of more than the arena");
    functions_ = loaded_.functions(launch_);
    cuda::set_addresses(n, addresses_, 0, scratch_, launch_);
  }

  void run() { cuda::launch(g_gpu->device, functions_, launch_, g_gpu->stream); }
  std::string how() const {
    std::string text;
    for (const cuda::GridStep& step : launch_.steps)
      text += (text.empty() ? "" : ", ") + name_of(step.variant) + " " + std::to_string(step.blocks) + "x" + std::to_string(step.threads);
    return text;
  }
  size_t bytes = 0;

 private:
  // In elements. Rows: parameters between the first and the last are vectors (weights); a column's or row's result is one.
  static std::pair<int64_t, int64_t> strides_of(const LoopNest& n, size_t p, Shape shape) {
    const bool last = p + 1 == n.params.size(), first = p == 0;
    if (n.schedule == Schedule::column && last) return {0, 1};
    if (n.schedule == Schedule::row && last && n.params[p].inner == InnerStride::zero) return {1, 0};
    if (n.axes.size() == 2 && !first && !last) return {0, 1};
    if (first && shape.turned) return {1, shape.rows};
    return {shape.columns, 1};
  }

  Loaded loaded_;
  std::vector<Address> addresses_;
  Address scratch_ = 0;
  cuda::DeviceLaunch launch_;
  std::vector<cuda::Function> functions_;
};

constexpr int kTurns = 9;
constexpr double kWorthTiming = 0.4;   // milliseconds

void against_copy(benchmark::State& state, LoopNest (*build)(DType), DType type, Shape shape) {
  Run run(build(type), shape);
  const size_t half = run.bytes / 2;
  auto copy = [&] { g_gpu->copy(g_gpu->copies, g_gpu->operands, half); };
  for (int i = 0; i < 3; ++i) run.run(), copy();
  g_gpu->wait();
  const int times = std::clamp(static_cast<int>(kWorthTiming / std::max(g_gpu->time([&] { run.run(); }), 1e-3f)), 1, 200);
  std::vector<double> kernel, ratio;
  for (auto _ : state) {
    for (int turn = 0; turn < kTurns; ++turn) {
      const double ours = g_gpu->time([&] { for (int i = 0; i < times; ++i) run.run(); }) / times;
      const double theirs = g_gpu->time([&] { for (int i = 0; i < times; ++i) copy(); }) / times;
      kernel.push_back(ours), ratio.push_back(theirs / ours);
    }
  }
  std::nth_element(kernel.begin(), kernel.begin() + kTurns / 2, kernel.end());
  std::nth_element(ratio.begin(), ratio.begin() + kTurns / 2, ratio.end());
  state.SetIterationTime(kernel[kTurns / 2] * 1e-3);
  state.counters["GB/s"] = static_cast<double>(run.bytes) / kernel[kTurns / 2] * 1e-6;
  state.counters["of_copy"] = ratio[kTurns / 2];
  state.SetLabel(run.how());
}

// --- the host's part

// `count` launches with sizes that are new at each turn, without what they compute: the device has next to nothing to do.
void new_sizes(benchmark::State& state) {
  Loaded loaded(softmax_nest(kF32));
  const int64_t count = state.range(0);
  int64_t rows = 1;
  auto turn = [&] {
    rows = rows % 7 + 1;
    for (int64_t i = 0; i < count; ++i) {
      const Geometry geometry{{rows, 64}, {256, 4, 0, 256, 4, 0}};
      cuda::DeviceLaunch launch = cuda::prepare(loaded.nest, geometry, {}, g_gpu->device.limits());
      const std::vector<Address> addresses{g_gpu->operands, g_gpu->operands + 4096};
      cuda::set_addresses(loaded.nest, addresses, 0, 0, launch);
      cuda::launch(g_gpu->device, loaded.functions(launch), launch, g_gpu->stream);
    }
  };
  turn();
  for (auto _ : state) {
    turn();
    state.PauseTiming();
    g_gpu->wait();
    state.ResumeTiming();
  }
}

void assemble_by_driver(benchmark::State& state, LoopNest (*build)(DType)) {
  const Loaded loaded(build(kF32));
  int turn = 0;   // in the text, so that nothing that was kept is found
  for (auto _ : state) cuda::LoadedModule module(g_gpu->device, loaded.ptx + "\n// " + std::to_string(std::random_device{}()) + std::to_string(++turn) + "\n");
}

void assemble_by_linker(benchmark::State& state, LoopNest (*build)(DType)) {
  const std::unique_ptr<cuda::Linker> linker = cuda::Linker::open(std::getenv("ESCAPEMENT_NVJITLINK") ? std::getenv("ESCAPEMENT_NVJITLINK") : "");
  if (!linker) return state.SkipWithError("no nvJitLink");
  const Loaded loaded(build(kF32));
  for (auto _ : state) linker->link(loaded.ptx, g_gpu->device.limits().compute);
}

// --- what is measured

using Build = LoopNest (*)(DType);

void add(const std::string& name, Build build, DType type, Shape shape) {
  const std::string full = name + "/" + std::string(name_of(type)) + "/" + std::to_string(shape.rows) + "x" + std::to_string(shape.columns);
  benchmark::RegisterBenchmark(full.c_str(), against_copy, build, type, shape)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);
}

void add_maps() {
  const std::pair<const char*, Build> maps[] = {{"add", add_nest}, {"chain", chain_nest}, {"silu_mul", silu_mul_nest}, {"gelu", gelu_nest}};
  for (const auto& [name, build] : maps)
    for (const DType type : {DType::f32, DType::bf16})
      for (const Shape shape : {Shape{256, 1024}, Shape{4096, 1024}, Shape{4095, 1025}, Shape{32768, 1024}, Shape{131072, 1024}}) add(name, build, type, shape);
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Shape shape : {Shape{32768, 1024}, Shape{32768, 1023}, Shape{1 << 20, 31}, Shape{1 << 22, 4}}) add("add_bias", add_bias_nest, type, shape);
    for (const Shape shape : {Shape{4096, 4096, true}, Shape{8191, 8193, true}}) add("transpose", shift_nest, type, shape);
  }
}

void add_reductions() {
  const std::pair<const char*, Build> rows[] = {{"softmax", softmax_nest}, {"layer_norm", layer_norm}, {"row_sum", row_sum_nest}};
  for (const auto& [name, build] : rows)
    for (const DType type : {DType::f32, DType::bf16})
      for (const Shape shape : {Shape{1 << 20, 64}, Shape{1 << 18, 257}, Shape{65536, 768}, Shape{65536, 1024}, Shape{65536, 1023}, Shape{16384, 4096},
                                Shape{2048, 50257}, Shape{64, 1 << 20}, Shape{1024, 768}, Shape{1, 1 << 26}})
        add(name, build, type, shape);
  for (const DType type : {DType::f32, DType::bf16})
    for (const Shape shape : {Shape{65536, 1024}, Shape{65536, 1023}, Shape{1 << 20, 64}, Shape{1024, 65536}, Shape{4096, 768}})
      add("column_sum", column_sum_nest, type, shape);
}

void add_host() {
  benchmark::RegisterBenchmark("launches_of_new_sizes", new_sizes)->Arg(1)->Arg(20)->Arg(100)->Iterations(300)->Unit(benchmark::kMicrosecond);
  for (const auto& [name, build] : {std::pair<const char*, Build>{"add", add_nest}, {"softmax", softmax_nest}, {"layer_norm", layer_norm}}) {
    benchmark::RegisterBenchmark((std::string("assemble/driver/") + name).c_str(), assemble_by_driver, build)->Iterations(3)->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark((std::string("assemble/linker/") + name).c_str(), assemble_by_linker, build)->Iterations(3)->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace escapement

int main(int argc, char** argv) {
  using namespace escapement;
  try {
    const char* path = std::getenv("ESCAPEMENT_CUDA_DRIVER");
    g_gpu = new Gpu(path ? path : cuda::kDriverName);   // never given back: the process ends with it
  } catch (const std::exception& error) {
    std::cout << error.what() << "\nnothing was measured\n";
    return 0;
  }
  std::cout << "device 0: " << g_gpu->device.name() << ", " << g_gpu->device.limits().multiprocessors << " multiprocessors\n";
  add_maps();
  add_reductions();
  add_host();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
