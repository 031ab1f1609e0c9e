// exec/nest_harness.h on a GPU: the nests of tests/exec as kernels of the device, in every variant that fits, on random grids and as a launch would have
// them; every byte is compared with the loop interpreter's. `./dev gpu-test`; where there is no GPU it says so and passes nothing off as tested.
//
// $ESCAPEMENT_CUDA_DRIVER names another driver: with the twin (tests/simt) this harness itself is tested without a GPU.
#include "exec/nest_harness.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "jit/cuda/linker.h"
#include "kernels/loop_interpreter.h"
#include "simt/cuda_run.h"
#include "simt/device_runner.h"
#include "trace/reduce_order.h"

namespace escapement::testing {

namespace {

std::string driver_path() {
  const char* given = std::getenv("ESCAPEMENT_CUDA_DRIVER");
  return given ? given : cuda::kDriverName;
}

bool is_twin() { return driver_path() == twin_driver_path(); }

struct Gpu {
  Gpu() : driver((is_twin() ? twin_driver().reset(1, 5) : void(), driver_path())), device(driver, 0), stream(device) {
    std::cout << "device 0: " << device.name() << ", compute capability " << device.limits().compute / 10.0 << ", " << device.limits().multiprocessors
              << " multiprocessors, driver for CUDA " << driver.version() / 1000 << "." << driver.version() % 1000 / 10 << "\n";
  }
  cuda::Driver driver;
  cuda::Device device;
  DeviceStream stream;
};

Gpu& gpu() {
  static Gpu* gpu = new Gpu;   // never given back: the process ends with it
  return *gpu;
}

// A nest's kernels, loaded.
struct Loaded {
  LoopNest nest;
  std::unique_ptr<DeviceCode> code;
  std::unique_ptr<cuda::LoadedModule> module;
};

Loaded& loaded(const LoopNest& nest) {
  static std::vector<std::unique_ptr<Loaded>>* all = new std::vector<std::unique_ptr<Loaded>>;
  for (const auto& entry : *all)
    if (structurally_equal(entry->nest, nest)) return *entry;
  auto entry = std::make_unique<Loaded>();
  entry->nest = nest;
  entry->code = std::make_unique<DeviceCode>(entry->nest, is_twin());
  entry->module = std::make_unique<cuda::LoadedModule>(gpu().device, entry->code->ptx);
  all->push_back(std::move(entry));
  return *all->back();
}

// Memory of the device with what is in `memory`; brought back by `download`.
class OnDevice {
 public:
  explicit OnDevice(Memory& memory) : memory_(memory), failure_(gpu().device, 8) {
    for (const GuardedBuffer& buffer : memory.buffers) {
      arrays_.emplace_back(gpu().device, buffer.size());
      if (buffer.size() > 0) gpu().stream.upload(arrays_.back(), buffer.data(), buffer.size());
    }
    gpu().stream.upload(failure_, &memory.failure, 8);
  }

  std::vector<cuda::Address> addresses() const {
    std::vector<cuda::Address> result;
    for (const size_t buffer : memory_.buffer_of) result.push_back(arrays_[buffer].address());
    return result;
  }
  cuda::Address failure() const { return failure_.address(); }

  void download() {
    for (size_t p = 0; p < arrays_.size(); ++p)
      if (memory_.buffers[p].size() > 0) gpu().stream.download(memory_.buffers[p].data(), arrays_[p], memory_.buffers[p].size());
    gpu().stream.download(&memory_.failure, failure_, 8);
    gpu().stream.wait();
  }

 private:
  Memory& memory_;
  std::vector<DeviceMemory> arrays_;
  DeviceMemory failure_;
};

struct Case {
  const LoopNest& nest;
  const Launch& launch;
  uint64_t seed;
  Memory expected;
};

Case make_case(const LoopNest& nest, const Launch& launch, uint64_t seed) {
  Case c{nest, launch, seed, make_memory(nest, launch, GuardedBuffer::Guard::after, seed)};
  const Ranges ranges = ranges_of(nest, launch);
  interpret(nest, NestPart::whole, c.expected.args(launch, nullptr), 0, ranges.outer, 0, ranges.inner);
  return c;
}

// Runs the steps of a launch, whose argument block lacks its addresses, and compares.
void expect_right(const Case& c, cuda::DeviceLaunch launch, const std::string& what) {
  Memory got = make_memory(c.nest, c.launch, GuardedBuffer::Guard::after, c.seed);
  if (is_twin()) loaded(c.nest).code->offer();
  OnDevice memory(got);
  const DeviceMemory scratch(gpu().device, launch.scratch_bytes);
  cuda::set_addresses(c.nest, memory.addresses(), memory.failure(), launch.scratch_bytes ? scratch.address() : 0, launch);
  std::vector<cuda::Function> functions;
  for (const cuda::GridStep& step : launch.steps) functions.push_back(loaded(c.nest).module->function(kernel_name(step.variant)));
  cuda::launch(gpu().device, functions, launch, gpu().stream.handle());
  memory.download();
  if (is_twin()) EXPECT_STREQ(twin_driver().complaints(), "");
  expect_same(c.nest, c.expected, got, what);
}

bool is_empty(const LoopNest& nest, const Launch& launch) {
  const Ranges ranges = ranges_of(nest, launch);
  return ranges.outer == 0 || (nest.schedule != Schedule::row && ranges.inner == 0);
}

Geometry geometry_of(const LoopNest& nest, const Launch& launch) {
  Memory memory;
  Geometry geometry{launch.extents, {}};
  for (size_t p = 0; p < nest.params.size(); ++p) {
    const int64_t size = size_of(nest.params[p].dtype);
    for (const int64_t stride : launch.operands[p].strides) geometry.strides.push_back(stride * size);
    geometry.strides.push_back(launch.operands[p].gather_stride * size);
  }
  return geometry;
}

// One variant on the layout as it is.
cuda::DeviceLaunch forced(const Case& c, std::vector<DeviceVariant> variants) {
  cuda::DeviceLaunch launch = cuda::prepare(c.nest, geometry_of(c.nest, c.launch), c.launch.scalars, gpu().device.limits());
  Memory none = make_memory(c.nest, c.launch, GuardedBuffer::Guard::after, c.seed);
  launch.words = words_of(c.nest, c.launch, none, nullptr);
  launch.steps.clear();
  for (const DeviceVariant variant : variants) {
    const Grid grid = random_grid(c.nest, variant, c.seed + launch.words[0]);
    launch.steps.push_back({variant, grid.blocks, grid.threads});
  }
  if (variants.size() == 1) return launch;
  const Ranges ranges = ranges_of(c.nest, c.launch);
  const int64_t points = ranges.outer * (c.nest.schedule == Schedule::column ? ranges.inner : 1);
  const int64_t stretches = (ranges.reduced + kReduceStretch - 1) / kReduceStretch;
  launch.scratch_bytes = static_cast<uint64_t>(points * stretches) * c.nest.stages[0].reductions.size() * 16;
  return launch;
}

}  // namespace

void expect_equal(const LoopNest& nest, Variant variant, const Launch& launch, Pieces, uint64_t seed) {
  verify(nest);
  if (is_empty(nest, launch)) return;
  const Case c = make_case(nest, launch, seed);
  const std::vector<DeviceVariant> variants = variants_for(nest, launch, is_for_fast(nest, launch, variant));
  for (const DeviceVariant device : variants) expect_right(c, forced(c, {device}), name_of(device) + " " + describe(nest, variant, launch));
  expect_right(c, cuda::prepare(nest, geometry_of(nest, launch), launch.scalars, gpu().device.limits()), "as launched: " + describe(nest, variant, launch));
  const bool fast = variants.front().fast;
  if (has_team(nest, {Team::partial, fast})) expect_right(c, forced(c, {{Team::partial, fast}, {Team::finish, fast}}), "in parts: " + describe(nest, variant, launch));
}

void expect_equal_sized(const LoopNest& nest, Variant variant, const Launch& launch, Pieces pieces, uint64_t seed) {
  expect_equal(nest, variant, launch, pieces, seed);
}

void expect_equal_split(const LoopNest& nest, const Launch& launch, uint64_t seed) { expect_equal(nest, Variant::fast, launch, {}, seed); }

}  // namespace escapement::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    escapement::testing::gpu();
  } catch (const std::exception& error) {
    std::cout << error.what() << "\nnothing was tested\n";
    return 77;   // meson: skipped
  }
  return RUN_ALL_TESTS();
}
