// See launch.h. Geometry (merging, variants) stands in geometry.cpp.
#include "jit/run/launch.h"

#include <algorithm>

#include "jit/run/row_block.h"
#include "jit/run/split.h"
#include "support/error.h"

namespace escapement {
namespace {

// Below this much work (bytes moved or arithmetic worth as much) waking another thread costs more than it brings: a fork and join of
// torch's pool takes 1.6 us, in which one core moves about 150 KiB.
constexpr int64_t kSerialCost = 384 << 10;
constexpr int64_t kChunkCost = 96 << 10;   // a chunk is not smaller than this
constexpr int64_t kChunksPerThread = 4;    // so that a thread that is slow or late holds up little
constexpr int64_t kInnerGrain = 1024;      // elements: chunks of the vector axis stay whole vectors and cache lines

constexpr int64_t kBlockWorthRows = 256;         // fewer are done before the variant is compiled
constexpr int64_t kBlockWorthLine = 12;          // rows in a line: blocks of fewer are mostly empty
constexpr int64_t kBlockLightLength = 32;        // elements: longer rows fill the vector, if little is done with each ...
constexpr int64_t kBlockLightCost = 40;          // ... element
constexpr int64_t kTileWorthElements = 16384;    // fewer are done before the variant is compiled
constexpr int64_t kTileWorthLength = 8;          // of both axes: shorter ones leave most of a tile empty
static_assert(kBlockLightLength <= kBlockLength);
constexpr int64_t kAloneWorthLength = 256;       // elements of a column: fewer are done before the variant is compiled
constexpr int64_t kTunedLength = 64;             // longer rows gain nothing from code for their length
constexpr uint32_t kUsesPerNote = 64;            // launches between two looks at whether there is such code

int64_t cost_of(const LoopNest& nest) {
  int64_t cost = 0;
  for (const LoopParam& param : nest.params) {
    if (param.inner == InnerStride::unit) cost += size_of(param.dtype);
  }
  // One vector instruction for 64 bytes takes about the time in which a core moves two bytes per element.
  for (const Stage& stage : nest.stages) {
    if (stage.kind == Stage::Kind::each_element) cost += static_cast<int64_t>(stage.body.nodes().size());
  }
  return std::max<int64_t>(cost, 1);
}

LaunchRecipe::Scalar scalar_of(const Number& number, DType type, ShapeProgram& shapes) {
  LaunchRecipe::Scalar scalar;
  scalar.type = type;
  switch (number.kind) {
    case Number::Kind::dim: scalar.slot = shapes.add(number.dim); break;
    case Number::Kind::real: scalar.bits = to_bits(number.real, type); break;
    case Number::Kind::integer:
    case Number::Kind::boolean: scalar.bits = to_bits(number.integer, type); break;
    case Number::Kind::none: break;
  }
  return scalar;
}

bool has_gather(const LoopNest& nest) {
  for (const Stage& stage : nest.stages) {
    for (const LoopInput& input : stage.inputs) {
      if (input.kind == LoopInput::Kind::gather) return true;
    }
  }
  return false;
}

// Whether every buffer that is written has one operand: blocks are copies, which do not see what is written elsewhere.
bool writes_alone(const std::vector<LaunchRecipe::Operand>& operands, const std::vector<LoopParam>& params) {
  for (size_t w = 0; w < operands.size(); ++w) {
    for (size_t p = 0; p < operands.size(); ++p) {
      if (params[w].written && p != w && operands[p].buffer == operands[w].buffer) return false;
    }
  }
  return true;
}

struct Extent {
  int64_t parallel = 1, reduced = 1, vector = 1;  // vector: map and column only, not counted in parallel
};

Extent count_points(const LoopNest& nest, const Geometry& geometry) {
  Extent extent;
  for (size_t axis = 0; axis < nest.axes.size(); ++axis) {
    const bool vector = nest.schedule != Schedule::row && axis + 1 == nest.axes.size();
    int64_t& target = vector ? extent.vector : nest.axes[axis].reduced ? extent.reduced : extent.parallel;
    target *= geometry.extents[axis];
  }
  return extent;
}

// Chunks of [0, count) of about `wanted` pieces, each a multiple of `grain`.
int64_t step_for(int64_t count, int64_t wanted, int64_t grain) {
  const int64_t step = (count + wanted - 1) / std::max<int64_t>(wanted, 1);
  return std::max<int64_t>((step + grain - 1) / grain * grain, 1);
}

int64_t chunks_of(int64_t count, int64_t step) { return (count + step - 1) / step; }

// Many short rows: the vector runs across them. Rows that are not fast would have to be copied otherwise. Copies lie in the order of the axes.
void plan_block(const LaunchRecipe& recipe, Launch& launch) {
  const LoopNest& nest = recipe.code->nest();
  const Extent points = count_points(nest, launch.geometry);
  const int64_t longest = recipe.cost_per_element < kBlockLightCost && launch.variant == Variant::fast ? kBlockLightLength : kBlockLength;
  if (nest.schedule == Schedule::column && launch.variant == Variant::fast) return;
  if (points.parallel * points.vector < kBlockWorthRows || points.reduced < 1 || points.reduced > longest) return;
  if (!recipe.may_block || !recipe.code->has(Variant::block) || !is_block(nest, launch.geometry)) return;
  Geometry chosen = launch.geometry;
  if (!launch.staging) choose_row_axis(nest, chosen);
  if (chosen.extents[row_axis(nest)] < kBlockWorthLine) return;
  launch.geometry = std::move(chosen);
  launch.variant = Variant::block;
}

// One column: the vector runs along it. What walks it once and keeps its sums in registers does well without.
void plan_alone(const LaunchRecipe& recipe, Launch& launch) {
  const LoopNest& nest = recipe.code->nest();
  if (nest.schedule != Schedule::column || launch.variant != Variant::fast || !recipe.code->has(Variant::alone)) return;
  if (count_points(nest, launch.geometry).reduced >= kAloneWorthLength && is_alone(nest, launch.geometry)) launch.variant = Variant::alone;
}

bool is_worth_tiles(const LoopNest& nest, const Geometry& geometry) {
  const auto& extents = geometry.extents;
  return is_tile(nest, geometry) && extents.back() >= kTileWorthLength && extents.end()[-2] >= kTileWorthLength;
}

// Transposed operands of a map: in tiles, not element by element.
void plan_tile(const LaunchRecipe& recipe, Launch& launch) {
  if (recipe.code->nest().schedule != Schedule::map || launch.variant == Variant::fast || launch.outer * launch.inner < kTileWorthElements) return;
  if (!recipe.may_block || !recipe.code->has(Variant::tile)) return;
  if (is_worth_tiles(recipe.code->nest(), launch.geometry)) launch.variant = Variant::tile;
}

int64_t outer_grain(Variant variant) {
  return variant == Variant::block ? kBlockRows : variant == Variant::tile ? kTileLines : 1;
}

void cut(const LoopNest& nest, int64_t cost, int threads, Launch& launch) {
  launch.outer_step = std::max<int64_t>(launch.outer, 1);
  launch.inner_step = std::max<int64_t>(launch.inner, 1);
  launch.threads = cost < kSerialCost ? 1 : threads;
  if (launch.threads > 1) {
    const int64_t wanted = std::clamp<int64_t>(cost / kChunkCost, 1, kChunksPerThread * threads);
    launch.outer_step = step_for(launch.outer, wanted, outer_grain(launch.variant));
    const int64_t outer_chunks = chunks_of(launch.outer, launch.outer_step);
    if (nest.schedule != Schedule::row && outer_chunks * 2 <= wanted) {
      launch.inner_step = step_for(launch.inner, wanted / outer_chunks, kInnerGrain);
    }
  }
  launch.outer_chunks = chunks_of(launch.outer, launch.outer_step);
  launch.inner_chunks = nest.schedule == Schedule::row ? 1 : chunks_of(launch.inner, launch.inner_step);
}

void load_geometry(const LaunchRecipe& recipe, std::span<const int64_t> table, Geometry& geometry) {
  const size_t axes = recipe.extents.size(), columns = axes + 1;
  for (size_t axis = 0; axis < axes; ++axis) geometry.extents[axis] = table[recipe.extents[axis]];
  for (size_t p = 0; p < recipe.operands.size(); ++p) {
    const LaunchRecipe::Operand& operand = recipe.operands[p];
    for (size_t axis = 0; axis < axes; ++axis) {
      geometry.strides[p * columns + axis] = table[recipe.strides[p * axes + axis]] * operand.element;
    }
    geometry.strides[p * columns + axes] =
        operand.gathered == LaunchRecipe::kNoSlot ? 0 : table[operand.gathered] * operand.element;
  }
}

// Axes in the parameters' own order where that makes the kernel fast, else as the nest has them.
void arrange(const LoopNest& nest, Geometry& geometry, Variant& variant) {
  Geometry ordered = geometry;
  merge_axes(nest, geometry);
  variant = Variant::fast;
  if (is_fast(nest, geometry)) return;
  order_axes(nest, ordered);
  merge_axes(nest, ordered);
  if (is_fast(nest, ordered)) {
    geometry = std::move(ordered);
  } else {
    variant = Variant::general;
    if (!is_worth_tiles(nest, geometry)) choose_vector_axis(nest, geometry);
    if (is_strided(nest, geometry)) variant = Variant::strided;
  }
}

// Rows of which the general variant takes whole vectors, and of which there are enough for all threads: copies would bring nothing.
bool needs_no_copies(const LoopNest& nest, const Geometry& geometry, int threads) {
  const Extent points = count_points(nest, geometry);
  return is_in_long_runs(nest, geometry) && (threads == 1 || points.parallel >= threads);
}

// Copies of the operands where those make the kernel fast.
void stage(const LaunchRecipe& recipe, std::span<const int64_t> table, Launch& launch) {
  Geometry merged = launch.geometry;
  load_geometry(recipe, table, launch.geometry);
  plan_staging(recipe, launch);
  if (!launch.staging) launch.geometry = std::move(merged);
}

KernelArgs arguments(Launch& launch, int64_t* failure) {
  return {launch.data.data(),    launch.geometry.extents.data(), launch.geometry.strides.data(),
          launch.scalars.data(), failure,                        launch.scratch.data()};
}

void call(const LaunchRecipe& recipe, Variant variant, KernelFunction function, const KernelArgs& args, int64_t ob, int64_t oe,
          int64_t ib, int64_t ie) {
  if (function != nullptr) {
    function(&args, ob, oe, ib, ie);
  } else {
    recipe.code->run(variant, args, ob, oe, ib, ie);
  }
}

void call(const LaunchRecipe& recipe, const Launch& launch, const KernelArgs& args, int64_t ob, int64_t oe, int64_t ib, int64_t ie) {
  if (launch.staging) run_staged(recipe, launch, launch.variant, args, ob, oe, ib, ie);
  else call(recipe, launch.variant, launch.function, args, ob, oe, ib, ie);
}

// Chunk number to ranges: neighbours along the vector axis first, since they share rows.
void run_grid(const LaunchRecipe& recipe, const Launch& launch, const KernelArgs& args, const ParallelHost& host) {
  const auto chunk = [&](int64_t number) {
    const int64_t ob = number / launch.inner_chunks * launch.outer_step, ib = number % launch.inner_chunks * launch.inner_step;
    call(recipe, launch, args, ob, std::min(ob + launch.outer_step, launch.outer), ib, std::min(ib + launch.inner_step, launch.inner));
  };
  run_chunks(host, launch.threads, launch.outer_chunks * launch.inner_chunks, chunk);
}

// Which sizes code for given sizes knows: the length of a row and all strides. The number of rows changes from batch to batch, and costs
// nothing to be unknown.
Geometry tuned_sizes(const LoopNest& nest, const Geometry& geometry) {
  Geometry sizes = geometry;
  for (size_t axis = 0; axis < nest.axes.size(); ++axis) {
    if (!nest.axes[axis].reduced && sizes.extents[axis] != 1) sizes.extents[axis] = kAnySize;
  }
  return sizes;
}

bool worth_tuning(const LaunchRecipe& recipe, const Launch& launch, int64_t row_length) {
  if (recipe.hot_launches == 0 || launch.stretches != 0) return false;
  // The block variant runs across the rows: their length matters little to it.
  const bool along_rows = recipe.code->nest().schedule == Schedule::row && launch.variant != Variant::block;
  return along_rows && row_length >= 1 && row_length <= kTunedLength;
}

void use_tuned(const LaunchRecipe& recipe, int64_t launches, Launch& launch) {
  const Geometry sizes = tuned_sizes(recipe.code->nest(), launch.geometry);
  const KernelFunction tuned = recipe.code->tuned(launch.variant, sizes, launches, recipe.hot_launches);
  if (tuned == nullptr) return;
  launch.function = tuned;
  launch.tunable = false;
}

}  // namespace

LaunchRecipe make_recipe(const KernelStep& step, KernelCode& code, ShapeProgram& shapes) {
  const LoopNest& nest = code.nest();
  ESCAPEMENT_CHECK(step.extents.size() == nest.axes.size() && step.operands.size() == nest.params.size() &&
                       step.scalars.size() == nest.scalars.size(), "a kernel step does not fit its nest");
  LaunchRecipe recipe;
  recipe.code = &code;
  for (const Dim extent : step.extents) recipe.extents.push_back(shapes.add(extent));
  for (const KernelOperand& operand : step.operands) {
    ESCAPEMENT_CHECK(operand.strides.size() == nest.axes.size(), "an operand has one stride per axis");
    LaunchRecipe::Operand compiled{operand.buffer, size_of(operand.dtype), shapes.add(operand.offset)};
    if (operand.gathered) compiled.gathered = shapes.add(operand.gathered);
    for (const Dim stride : operand.strides) recipe.strides.push_back(shapes.add(stride));
    recipe.operands.push_back(compiled);
  }
  for (size_t i = 0; i < step.scalars.size(); ++i) {
    recipe.scalars.push_back(scalar_of(step.scalars[i], nest.scalars[i], shapes));
  }
  recipe.cost_per_element = cost_of(nest);
  recipe.reads_positions = has_gather(nest);
  recipe.may_block = writes_alone(recipe.operands, nest.params);
  recipe.uses = uses_of(nest);
  return recipe;
}

void settle_level(LaunchRecipe& recipe, const ShapeProgram& shapes) {
  const auto take = [&](uint32_t slot) {
    if (slot != LaunchRecipe::kNoSlot) recipe.level = std::max(recipe.level, shapes.level(slot));
  };
  for (const Slot slot : recipe.extents) take(slot);
  for (const Slot slot : recipe.strides) take(slot);
  for (const auto& operand : recipe.operands) take(operand.offset), take(operand.gathered);
  for (const auto& scalar : recipe.scalars) take(scalar.slot);
}

Launch new_launch(const LaunchRecipe& recipe) {
  Launch launch;
  const size_t axes = recipe.extents.size(), params = recipe.operands.size();
  launch.geometry.extents.resize(axes);
  launch.geometry.strides.resize(params * (axes + 1));
  launch.offsets.resize(params);
  launch.data.resize(params);
  launch.scalars.resize(recipe.scalars.size());
  return launch;
}

namespace {

// What the table says, as it says it.
void load(const LaunchRecipe& recipe, std::span<const int64_t> table, Launch& launch) {
  load_geometry(recipe, table, launch.geometry);
  for (size_t p = 0; p < recipe.operands.size(); ++p) {
    launch.offsets[p] = table[recipe.operands[p].offset] * recipe.operands[p].element;
  }
  for (size_t i = 0; i < recipe.scalars.size(); ++i) {
    const LaunchRecipe::Scalar& scalar = recipe.scalars[i];
    launch.scalars[i] = scalar.slot == LaunchRecipe::kNoSlot ? scalar.bits : to_bits(table[scalar.slot], scalar.type);
  }
}

}  // namespace

void prepare_on_device(const LaunchRecipe& recipe, std::span<const int64_t> table, int ordinal, Launch& launch) {
  load(recipe, table, launch);
  launch.on_device = static_cast<DeviceKernelCode&>(*recipe.code).prepare(launch.geometry, launch.scalars, ordinal);
}

void point(const LaunchRecipe& recipe, std::span<void* const> bases, Launch& launch) {
  for (size_t p = 0; p < recipe.operands.size(); ++p) {
    auto* const base = static_cast<std::byte*>(bases[recipe.operands[p].buffer]);
    launch.data[p] = base ? base + launch.offsets[p] : nullptr;
  }
}

void prepare(const LaunchRecipe& recipe, std::span<const int64_t> table, int threads, Launch& launch) {
  const LoopNest& nest = recipe.code->nest();
  load(recipe, table, launch);
  arrange(nest, launch.geometry, launch.variant);
  launch.staging = Staging();
  plan_block(recipe, launch);
  plan_alone(recipe, launch);
  if (launch.variant == Variant::general && !needs_no_copies(nest, launch.geometry, threads)) stage(recipe, table, launch);
  const Extent points = count_points(nest, launch.geometry);
  launch.outer = points.parallel;
  launch.inner = nest.schedule == Schedule::row ? 1 : points.vector;
  launch.empty = points.parallel == 0 || points.vector == 0;
  launch.stretches = 0;
  launch.takes_long = false;
  if (launch.empty) return;
  const int64_t elements = points.parallel * points.reduced * points.vector;  // checked where the sizes were multiplied
  int64_t cost = 0;
  if (__builtin_mul_overflow(elements, recipe.cost_per_element, &cost)) cost = INT64_MAX;
  if (launch.staging && launch.staging.pieces != Staging::Pieces::stretches) plan_block(recipe, launch);
  plan_tile(recipe, launch);
  launch.takes_long = cost >= kSerialCost;
  cut(nest, cost, threads, launch);
  if (launch.threads > 1 || launch.staging.pieces == Staging::Pieces::stretches) plan_split(recipe, points.reduced, launch);
  if (launch.stretches == 0) launch.function = recipe.code->function(launch.variant);
  launch.uses = 0;
  launch.tunable = worth_tuning(recipe, launch, points.reduced);
  if (launch.tunable) use_tuned(recipe, 1, launch);
}

namespace {

// A tensor without elements may have no address. A reduction of it runs nevertheless, for its result; and where a guard that is checked only
// behind the kernel says that a size is 1, the element is read before the loop that would not have read it.
alignas(64) std::byte nothing[4096];

}  // namespace

int64_t run(const LaunchRecipe& recipe, Launch& launch, std::span<void* const> bases, const ParallelHost& host) {
  if (launch.empty) return 0;
  if (launch.tunable && ++launch.uses % kUsesPerNote == 0) use_tuned(recipe, kUsesPerNote, launch);
  for (size_t p = 0; p < recipe.operands.size(); ++p) {
    auto* const base = static_cast<std::byte*>(bases[recipe.operands[p].buffer]);
    launch.data[p] = base ? base + launch.offsets[p] : nothing;
  }
  int64_t failure = 0;
  const KernelArgs args = arguments(launch, &failure);
  if (launch.stretches > 0) {
    run_split(recipe, launch, args, host);
  } else if (launch.outer_chunks * launch.inner_chunks == 1) {
    call(recipe, launch, args, 0, launch.outer, 0, launch.inner);
  } else {
    run_grid(recipe, launch, args, host);
  }
  return failure;
}

}  // namespace escapement
