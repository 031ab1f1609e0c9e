// See split.h.
#include "jit/run/split.h"

#include <algorithm>

#include "trace/reduce_order.h"

namespace escapement {
namespace {

constexpr int64_t kWorthSplitting = 8192;  // elements of a row

int64_t first_reductions(const LoopNest& nest) {
  for (const Stage& stage : nest.stages) {
    if (!stage.reductions.empty()) return static_cast<int64_t>(stage.reductions.size());
  }
  return 0;
}

void call(KernelCode& code, Variant variant, KernelFunction function, const KernelArgs& args, int64_t ob, int64_t oe, int64_t ib,
          int64_t ie) {
  if (function != nullptr) {
    function(&args, ob, oe, ib, ie);
  } else {
    code.run(variant, args, ob, oe, ib, ie);
  }
}

}  // namespace

void plan_split(const LaunchRecipe& recipe, int64_t row_length, Launch& launch) {
  const LoopNest& nest = recipe.code->nest();
  if (nest.schedule != Schedule::row || launch.variant != Variant::fast) return;
  if (launch.staging.pieces != Staging::Pieces::stretches) {
    if (launch.staging || launch.outer >= launch.threads || row_length < kWorthSplitting) return;  // rows are enough for all threads
    if (!recipe.code->has(Variant::partial) || !recipe.code->has(Variant::finish)) return;
  }
  launch.stretches = (row_length + kReduceStretch - 1) / kReduceStretch;
  launch.function = recipe.code->function(Variant::partial);
  launch.finish = recipe.code->function(Variant::finish);
  launch.scratch.resize(static_cast<size_t>(launch.outer * launch.stretches * first_reductions(nest) * 2));
}

void run_split(const LaunchRecipe& recipe, const Launch& launch, const KernelArgs& args, const ParallelHost& host) {
  const int64_t rows = launch.threads == 1 ? launch.outer : 1;   // of a chunk
  const int64_t pieces = launch.threads == 1 ? 1 : std::min<int64_t>(launch.stretches, 4 * launch.threads);
  const int64_t step = (launch.stretches + pieces - 1) / pieces;
  const auto partial = [&](int64_t number) {
    const int64_t row = number / pieces * rows, begin = number % pieces * step;
    const int64_t end = std::min(begin + step, launch.stretches);
    if (begin >= end) return;
    if (launch.staging) run_staged(recipe, launch, Variant::partial, args, row, row + rows, begin, end);
    else call(*recipe.code, Variant::partial, launch.function, args, row, row + rows, begin, end);
  };
  run_chunks(host, launch.threads, launch.outer / rows * pieces, partial);
  call(*recipe.code, Variant::finish, launch.finish, args, 0, launch.outer, 0, launch.stretches);
}

}  // namespace escapement
