// See device_runner.h.
#include "simt/device_runner.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "jit/run/launch.h"

namespace escapement::testing {

namespace {

// For golden/test_device.py, which has it assembled.
void write_ptx(const LoopNest& nest, DeviceVariant variant, size_t number) {
  const char* folder = std::getenv("ESCAPEMENT_PTX_FOLDER");
  const char* compute = std::getenv("ESCAPEMENT_PTX_COMPUTE");
  if (!folder) return;
  const std::string name = "kernel" + std::to_string(number);
  std::ofstream(std::string(folder) + "/" + name + ".ptx") << device_ptx({{&nest, variant, name}}, {compute ? std::atoi(compute) : 80});
}

// Compiled twins of nests seen before: tests run one nest on many sizes.
DeviceTwin& twin_of(const LoopNest& nest, DeviceVariant variant) {
  struct Entry {
    LoopNest nest;
    DeviceVariant variant;
    std::unique_ptr<DeviceTwin> twin;
  };
  static std::vector<Entry>* entries = new std::vector<Entry>;
  for (const Entry& e : *entries)
    if (e.variant == variant && structurally_equal(e.nest, nest)) return *e.twin;
  entries->push_back({nest, variant, device_twin({&nest, variant, "test_kernel"})});
  write_ptx(nest, variant, entries->size());
  return *entries->back().twin;
}

bool one_reduced_axis(const LoopNest& nest, const Launch& launch) {
  size_t last = 0;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (nest.axes[a].reduced) last = a;
  for (size_t a = 0; a < last; ++a)
    if (nest.axes[a].reduced && launch.extents[a] != 1) return false;
  return true;
}

}  // namespace

std::vector<DeviceVariant> variants_for(const LoopNest& nest, const Launch& launch, bool fast) {
  if (nest.schedule == Schedule::column) fast = fast && one_reduced_axis(nest, launch);
  std::vector<DeviceVariant> result;
  for (const Team team : {Team::thread, Team::tile, Team::warp, Team::block})
    if (has_team(nest, {team, fast})) result.push_back({team, fast});
  return result;
}

// Blocks of rows take any strides.
bool is_for_fast(const LoopNest& nest, const Launch& launch, Variant variant) {
  if (variant != Variant::block) return variant == Variant::fast;
  Geometry geometry{launch.extents, {}};
  for (size_t p = 0; p < nest.params.size(); ++p) {
    for (const int64_t stride : launch.operands[p].strides) geometry.strides.push_back(stride * size_of(nest.params[p].dtype));
    geometry.strides.push_back(0);
  }
  return is_fast(nest, geometry);
}

Grid random_grid(const LoopNest& nest, DeviceVariant variant, uint64_t seed) {
  std::mt19937_64 random(seed * 2654435761u + static_cast<uint64_t>(variant.team));
  Grid grid;
  grid.blocks = static_cast<uint32_t>(1 + random() % 5);
  const uint32_t warps[] = {1, 2, 3, 4, 8, most_threads(nest, variant) / kWarp};
  grid.threads = kWarp * (nest.schedule == Schedule::column ? kColumnWarps : warps[random() % 6]);
  return grid;
}

std::vector<uint64_t> words_of(const LoopNest& nest, const Launch& launch, Memory& memory, void* scratch) {
  const ArgumentBlock block(nest);
  std::vector<uint64_t> words(block.words());
  for (size_t p = 0; p < nest.params.size(); ++p) words[block.data() + p] = reinterpret_cast<uint64_t>(memory.data[p]);
  for (size_t a = 0; a < launch.extents.size(); ++a) words[block.extents() + a] = static_cast<uint64_t>(launch.extents[a]);
  for (size_t i = 0; i < memory.strides.size(); ++i) words[block.strides() + i] = static_cast<uint64_t>(memory.strides[i]);
  std::copy(launch.scalars.begin(), launch.scalars.end(), words.begin() + block.scalars());
  words[block.failure()] = reinterpret_cast<uint64_t>(&memory.failure);
  words[block.scratch()] = reinterpret_cast<uint64_t>(scratch);
  return words;
}

std::string run_on_twin(const LoopNest& nest, DeviceVariant variant, const Launch& launch, Memory& memory, Grid grid, uint64_t seed,
                        std::vector<uint64_t>* scratch) {
  SimtMachine machine(seed);
  for (size_t p = 0; p < nest.params.size(); ++p)
    machine.allow(memory.buffers[p].data(), memory.buffers[p].size(), static_cast<size_t>(size_of(nest.params[p].dtype)));
  machine.allow(&memory.failure, sizeof memory.failure, sizeof memory.failure, true);
  if (scratch) machine.allow(scratch->data(), scratch->size() * 8, 8);
  const std::vector<uint64_t> words = words_of(nest, launch, memory, scratch ? scratch->data() : nullptr);
  DeviceTwin& twin = twin_of(nest, variant);
  return machine.run(twin.thread(), twin.shared_bytes(), grid, words.data());
}

}  // namespace escapement::testing
