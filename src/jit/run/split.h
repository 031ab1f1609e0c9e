// Split reductions: few rows, each long. The first reducing stage runs over stretches of the rows on all threads (partial), then the
// rows are finished from the stretches' results. Stretches are those of the canonical order of reductions, so the bits are the same.
#pragma once

#include "jit/run/launch.h"

namespace escapement {

// Decides whether a launch that may use several threads is split, and sets `stretches`, `function`, `finish` and `scratch` if so.
void plan_split(const LaunchRecipe& recipe, int64_t row_length, Launch& launch);
void run_split(const LaunchRecipe& recipe, const Launch& launch, const KernelArgs& args, const ParallelHost& host);

}  // namespace escapement
