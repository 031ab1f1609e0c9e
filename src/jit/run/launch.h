// Launch: one kernel step made ready for one set of shapes. Prepared when a shape changes, then only pointers change per call.
//
// What is decided here, and nowhere else: which axes merge, which variant runs, what is copied for it, how the work is cut. All of it is a function of
// the sizes and strides of this call; none of it changes a bit of the results.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "jit/run/device_launch.h"
#include "jit/run/kernel_code.h"
#include "jit/run/parallel.h"
#include "jit/run/shape_program.h"
#include "jit/run/staging.h"
#include "kernels/plan.h"

namespace escapement {

// Where the values of a kernel step stand in the table of the shape program. Immutable, one per KernelStep.
struct LaunchRecipe {
  struct Operand {
    uint32_t buffer = 0;
    int64_t element = 1;           // bytes
    Slot offset = 0;               // elements
    uint32_t gathered = kNoSlot;   // slot of the gathered axis's stride
  };
  struct Scalar {
    uint64_t bits = 0;
    uint32_t slot = kNoSlot;       // else: the bits of this dim
    DType type = DType::i64;
  };
  static constexpr uint32_t kNoSlot = 0xffffffffu;

  KernelCode* code = nullptr;
  std::vector<Slot> extents;       // per axis
  std::vector<Slot> strides;       // [operand * axes + axis], elements
  std::vector<Operand> operands;
  std::vector<Scalar> scalars;
  std::vector<OperandUse> uses;      // per operand
  int64_t cost_per_element = 1;    // bytes moved and arithmetic, in bytes' worth of time
  bool reads_positions = false;    // a gather can fail
  bool may_block = false;          // no buffer is written through one operand and used through another
  int64_t hot_launches = 0;        // launches with the same sizes after which code is made for them; 0: never
  uint32_t level = 0;              // of the shape program: when all slots are known
};

LaunchRecipe make_recipe(const KernelStep& step, KernelCode& code, ShapeProgram& shapes);
void settle_level(LaunchRecipe& recipe, const ShapeProgram& shapes);

// Axes of map nests in the order of the first written parameter's strides; nothing if an index is read.
void order_axes(const LoopNest& nest, Geometry& geometry);
// Of a map that is not fast: the axis along which its elements are reached soonest becomes the last. Likewise.
void choose_vector_axis(const LoopNest& nest, Geometry& geometry);
// Adjacent axes of one kind that step through every parameter like one axis become one, on the inner of the two; the other gets
// extent 1. Axes of extent 1 get the strides that the fast variant expects.
void merge_axes(const LoopNest& nest, Geometry& geometry);
bool is_fast(const LoopNest& nest, const Geometry& geometry);
// Of a row that is not one axis: whether the elements of its innermost axis, so many that vectors of them are worth while, lie as the fast variant wants them, for
// each stage that walks.
bool is_in_long_runs(const LoopNest& nest, const Geometry& geometry);
// Of a column nest: whether there is one column for each point around it, its elements adjacent along the innermost reduced axis, in all that a stage walks.
bool is_alone(const LoopNest& nest, const Geometry& geometry);
// Of a nest that reduces: whether there are rows (columns), their elements one axis, which no parameter that is the same all along a row steps along.
bool is_block(const LoopNest& nest, const Geometry& geometry);
// The axis that the vector runs along in the block variant.
size_t row_axis(const LoopNest& nest);
// The parallel axis along which a block of rows is reached soonest becomes that; nothing if an index is read.
void choose_row_axis(const LoopNest& nest, Geometry& geometry);
// Of a map that is not fast: whether there are parameters that are the same all along the vector axis, and they are.
bool is_strided(const LoopNest& nest, const Geometry& geometry);
// Of a map that is not fast: whether every parameter is as expected along the last axis, or adjacent along the one before
// it.
bool is_tile(const LoopNest& nest, const Geometry& geometry);

struct Launch {
  uint64_t epoch = 0;              // of the context's level when this was prepared
  Variant variant = Variant::general;
  KernelFunction function = nullptr;
  bool empty = false;              // nothing to write
  bool takes_long = false;         // more than waking a thread does
  bool tunable = false;            // code for exactly these sizes would be faster, and there is none yet
  uint32_t uses = 0;               // since it was prepared
  Geometry geometry;               // as the kernel sees it
  Staging staging;                 // what is copied for it
  std::vector<int64_t> offsets;    // bytes, per operand
  std::vector<uint64_t> scalars;
  std::vector<void*> data;         // set per call
  int64_t outer = 1, inner = 1;    // the kernel's two ranges
  int64_t outer_step = 1, inner_step = 1, outer_chunks = 1, inner_chunks = 1;
  int threads = 1;
  int64_t stretches = 0;            // > 0: split; partial results go to scratch
  KernelFunction finish = nullptr;
  std::vector<uint64_t> scratch;
  std::unique_ptr<PreparedLaunch> on_device;   // of a plan for a device: then nothing below `data` is meant
};

Launch new_launch(const LaunchRecipe& recipe);
void prepare(const LaunchRecipe& recipe, std::span<const int64_t> table, int threads, Launch& launch);
void prepare_on_device(const LaunchRecipe& recipe, std::span<const int64_t> table, int ordinal, Launch& launch);
// Each operand's address; null where its buffer has none, which has no elements.
void point(const LaunchRecipe& recipe, std::span<void* const> bases, Launch& launch);

// Runs a prepared launch; `bases` holds the address of each buffer's root element. Returns the failure word (0: none).
int64_t run(const LaunchRecipe& recipe, Launch& launch, std::span<void* const> bases, const ParallelHost& host);

}  // namespace escapement
