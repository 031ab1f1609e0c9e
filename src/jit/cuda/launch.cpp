// See launch.h.
#include "jit/cuda/launch.h"

#include <algorithm>

#include "jit/run/launch.h"
#include "support/error.h"
#include "trace/reduce_order.h"

namespace escapement::cuda {

namespace {

// CU_LAUNCH_PARAM_...
void *const kBuffer = reinterpret_cast<void*>(1), *const kBufferBytes = reinterpret_cast<void*>(2), *const kEnd = nullptr;

constexpr int64_t kThreads = 256;             // of a block, where nothing else asks for another number
constexpr int64_t kRowWarps = 8;              // of a block of warps with a row each
constexpr int64_t kShortRow = 2048;           // elements: a warp takes such a row, if there are many
constexpr int64_t kWorthParts = 64 * kReduceStretch;
constexpr int64_t kBlocksAtWork = 2;           // of columns, on a multiprocessor: with fewer, long columns are done in parts
constexpr int64_t kShortVector = 64;          // elements of the vector axis: fewer leave most of a block without work

struct Points {
  int64_t parallel = 1, reduced = 1, vector = 1;   // vector: maps and columns, not counted in parallel
};

Points count(const LoopNest& nest, const Geometry& geometry) {
  Points points;
  for (size_t a = 0; a < nest.axes.size(); ++a) {
    const bool vector = nest.schedule != Schedule::row && a + 1 == nest.axes.size();
    (vector ? points.vector : nest.axes[a].reduced ? points.reduced : points.parallel) *= geometry.extents[a];
  }
  return points;
}

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// As many blocks as there is work for, at most what the device holds at once: each goes on with the next piece.
uint32_t blocks_for(int64_t work, int64_t threads, const DeviceLimits& limits) {
  const int64_t at_once = int64_t{limits.multiprocessors} * std::max<int64_t>(limits.threads / threads, 1);
  return static_cast<uint32_t>(std::clamp<int64_t>(work, 1, at_once));
}

bool one_reduced_axis(const LoopNest& nest, const Geometry& geometry) {
  bool inner = true;   // from the innermost outwards: only the first may be longer than 1
  for (size_t a = nest.axes.size(); a-- > 0;) {
    if (!nest.axes[a].reduced) continue;
    if (!inner && geometry.extents[a] != 1) return false;
    inner = false;
  }
  return true;
}

GridStep plan_map(const LoopNest& nest, bool fast, const Points& points, const DeviceLimits& limits) {
  if (points.vector < kShortVector && points.parallel > 1)
    return {{Team::thread, false}, blocks_for(quotient_up(points.parallel * points.vector, kThreads), kThreads, limits), kThreads};
  const int64_t together = fast ? device_vector(nest) : 1;
  const int64_t threads = std::clamp<int64_t>(quotient_up(quotient_up(points.vector, together), kWarp) * kWarp, kWarp, kThreads);
  const int64_t pieces = points.parallel * quotient_up(points.vector, threads * together);
  return {{Team::tile, fast}, blocks_for(pieces, threads, limits), static_cast<uint32_t>(threads)};
}

std::vector<GridStep> plan_row(const LoopNest& nest, bool fast, const Points& points, const DeviceLimits& limits) {
  const int64_t stretches = quotient_up(points.reduced, kReduceStretch), warps = std::clamp<int64_t>(stretches, 1, kMostWarps);
  const auto of_block = static_cast<uint32_t>(kWarp * warps);
  const bool few = points.parallel < int64_t{limits.multiprocessors};
  if (few && points.reduced >= kWorthParts && has_team(nest, {Team::partial, fast})) {
    const int64_t parts = quotient_up(points.parallel * stretches, kRowWarps);
    return {{{Team::partial, fast}, blocks_for(parts, kThreads, limits), kThreads},
            {{Team::finish, fast}, blocks_for(points.parallel, of_block, limits), of_block}};
  }
  const bool many = points.parallel >= int64_t{limits.multiprocessors} * kRowWarps;
  if (stretches <= 1 || (many && points.reduced <= kShortRow))
    return {{{Team::warp, fast}, blocks_for(quotient_up(points.parallel, kRowWarps), kThreads, limits), kThreads}};
  return {{{Team::block, fast}, blocks_for(points.parallel, of_block, limits), of_block}};
}

std::vector<GridStep> plan_column(const LoopNest& nest, bool fast, const Points& points, const DeviceLimits& limits) {
  constexpr int64_t kOfColumns = kWarp * kColumnWarps;
  const int64_t groups = points.parallel * quotient_up(points.vector, kWarp), stretches = quotient_up(points.reduced, kReduceStretch);
  const GridStep whole{{Team::block, fast}, blocks_for(groups, kOfColumns, limits), kOfColumns};
  const bool few = groups < int64_t{limits.multiprocessors} * kBlocksAtWork && stretches > 1;
  if (!few || !has_team(nest, {Team::partial, fast})) return {whole};
  return {{{Team::partial, fast}, blocks_for(groups * stretches, kOfColumns, limits), kOfColumns}, {{Team::finish, fast}, whole.blocks, kOfColumns}};
}

std::vector<GridStep> plan(const LoopNest& nest, const Geometry& geometry, const DeviceLimits& limits) {
  const Points points = count(nest, geometry);
  if (points.parallel == 0 || points.vector == 0) return {};
  switch (nest.schedule) {
    case Schedule::map: return {plan_map(nest, is_fast(nest, geometry), points, limits)};
    case Schedule::row: return plan_row(nest, is_fast(nest, geometry), points, limits);
    case Schedule::column: return plan_column(nest, one_reduced_axis(nest, geometry), points, limits);
  }
  return {};
}

// Axes in the parameters' own order where that makes the kernel fast, else as the nest has them.
void arrange(const LoopNest& nest, Geometry& geometry) {
  Geometry ordered = geometry;
  merge_axes(nest, geometry);
  if (is_fast(nest, geometry)) return;
  order_axes(nest, ordered);
  merge_axes(nest, ordered);
  if (is_fast(nest, ordered)) geometry = std::move(ordered);
}

uint64_t scratch_for(const LoopNest& nest, const Points& points) {
  const auto stretches = static_cast<uint64_t>(quotient_up(points.reduced, kReduceStretch));
  return static_cast<uint64_t>(points.parallel * points.vector) * stretches * nest.stages.front().reductions.size() * 2 * sizeof(uint64_t);
}

}  // namespace

bool fits_device(const LoopNest& nest) { return ArgumentBlock(nest).words() * sizeof(uint64_t) <= kMostArgumentBytes; }

DeviceLaunch prepare(const LoopNest& nest, Geometry geometry, std::span<const uint64_t> scalars, const DeviceLimits& limits) {
  ESCAPEMENT_CHECK(fits_device(nest), "a nest whose arguments a device takes");
  DeviceLaunch launch;
  arrange(nest, geometry);
  launch.steps = plan(nest, geometry, limits);
  if (launch.steps.size() > 1) launch.scratch_bytes = scratch_for(nest, count(nest, geometry));
  const ArgumentBlock block(nest);
  launch.words.resize(block.words());
  std::copy(geometry.extents.begin(), geometry.extents.end(), launch.words.begin() + block.extents());
  std::copy(geometry.strides.begin(), geometry.strides.end(), launch.words.begin() + block.strides());
  std::copy(scalars.begin(), scalars.end(), launch.words.begin() + block.scalars());
  launch.geometry = std::move(geometry);
  return launch;
}

void set_addresses(const LoopNest& nest, std::span<const Address> data, Address failure, Address scratch, DeviceLaunch& launch) {
  const ArgumentBlock block(nest);
  std::copy(data.begin(), data.end(), launch.words.begin() + block.data());
  launch.words[block.failure()] = failure;
  launch.words[block.scratch()] = scratch;
}

void launch(Device& device, std::span<const Function> functions, DeviceLaunch& launch, Stream stream) {
  ESCAPEMENT_CHECK(functions.size() == launch.steps.size(), "a function for each step");
  if (launch.steps.empty()) return;
  size_t bytes = launch.words.size() * sizeof(uint64_t);
  void* arguments[] = {kBuffer, launch.words.data(), kBufferBytes, &bytes, kEnd};   // with its size, so that the driver checks it
  device.within([&] {
    for (size_t i = 0; i < launch.steps.size(); ++i) {
      const GridStep& step = launch.steps[i];
      device.driver().call<&DriverTable::cuLaunchKernel>(functions[i], step.blocks, 1u, 1u, step.threads, 1u, 1u, 0u, stream,
                                                         static_cast<void**>(nullptr), static_cast<void**>(arguments));
    }
  });
}

}  // namespace escapement::cuda
