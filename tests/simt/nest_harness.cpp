// exec/nest_harness.h on the SIMT twin: the tests of code generation for CPUs, run as device kernels by every team that fits, on a grid and in an order
// of threads that differ from launch to launch.
#include "exec/nest_harness.h"

#include "kernels/loop_interpreter.h"
#include "simt/device_runner.h"
#include "trace/reduce_order.h"

namespace escapement::testing {

namespace {

// Different launches get different grids and orders.
uint64_t mixed(const LoopNest& nest, const Launch& launch, uint64_t seed) {
  uint64_t hash = structural_hash(nest) ^ seed;
  for (const int64_t extent : launch.extents) hash = hash * 1099511628211u + static_cast<uint64_t>(extent);
  return hash >> 3;
}

std::string describe(const LoopNest& nest, DeviceVariant variant, const Launch& launch, Grid grid) {
  return "team " + name_of(variant) + " " + std::to_string(grid.blocks) + " x " + std::to_string(grid.threads) + " " +
         describe(nest, variant.fast ? Variant::fast : Variant::general, launch);
}

Memory interpreted(const LoopNest& nest, const Launch& launch, GuardedBuffer::Guard guard, uint64_t seed) {
  Memory memory = make_memory(nest, launch, guard, seed);
  const Ranges ranges = ranges_of(nest, launch);
  interpret(nest, NestPart::whole, memory.args(launch, nullptr), 0, ranges.outer, 0, ranges.inner);
  return memory;
}

// Short rows by the hundred are one variant for a CPU; a device takes them as any others, so one launch in so many is enough.
constexpr uint64_t kBlockOneIn = 100;

}  // namespace

namespace {

// Partial and finish, for rows and columns alike.
void expect_equal_in_parts(const LoopNest& nest, bool fast, const Launch& launch, const Memory& expected, GuardedBuffer::Guard guard, uint64_t seed) {
  Memory got = make_memory(nest, launch, guard, seed);
  const Ranges ranges = ranges_of(nest, launch);
  const int64_t points = ranges.outer * (nest.schedule == Schedule::column ? ranges.inner : 1);
  const int64_t stretches = (ranges.reduced + kReduceStretch - 1) / kReduceStretch;
  std::vector<uint64_t> scratch(static_cast<size_t>(points * stretches) * nest.stages[0].reductions.size() * 2, 77);
  const uint64_t mix = mixed(nest, launch, seed);
  for (const DeviceVariant device : {DeviceVariant{Team::partial, fast}, DeviceVariant{Team::finish, fast}}) {
    const Grid grid = random_grid(nest, device, mix);
    EXPECT_EQ(run_on_twin(nest, device, launch, got, grid, mix, &scratch), "") << describe(nest, device, launch, grid);
  }
  expect_same(nest, expected, got, "in parts " + describe(nest, Variant::finish, launch));
}

}  // namespace

void expect_equal(const LoopNest& nest, Variant variant, const Launch& launch, Pieces, uint64_t seed) {
  verify(nest);
  if (variant == Variant::block && mixed(nest, launch, seed) % kBlockOneIn != 0) return;
  const auto guard = launch.extents.back() % 2 == 0 ? GuardedBuffer::Guard::before : GuardedBuffer::Guard::after;
  const Memory expected = interpreted(nest, launch, guard, seed);
  const uint64_t mix = mixed(nest, launch, seed);
  const std::vector<DeviceVariant> variants = variants_for(nest, launch, is_for_fast(nest, launch, variant));
  for (const DeviceVariant device : variants) {
    const Grid grid = random_grid(nest, device, mix);
    Memory got = make_memory(nest, launch, guard, seed);
    const std::string fault = run_on_twin(nest, device, launch, got, grid, mix), what = describe(nest, device, launch, grid);
    EXPECT_EQ(fault, "") << what;
    if (fault.empty()) expect_same(nest, expected, got, what);
  }
  const bool in_parts = nest.schedule == Schedule::column && has_team(nest, {Team::partial, true});
  if (in_parts) expect_equal_in_parts(nest, variants.front().fast, launch, expected, guard, seed);
}

void expect_equal_sized(const LoopNest& nest, Variant variant, const Launch& launch, Pieces pieces, uint64_t seed) {
  expect_equal(nest, variant, launch, pieces, seed);
}

void expect_equal_split(const LoopNest& nest, const Launch& launch, uint64_t seed) {
  const auto guard = GuardedBuffer::Guard::after;
  expect_equal_in_parts(nest, true, launch, interpreted(nest, launch, guard, seed), guard, seed);
}

}  // namespace escapement::testing
