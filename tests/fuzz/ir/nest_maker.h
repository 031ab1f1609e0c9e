// Random loop nests: every schedule, every storage and compute type, one to four stages of element and row kind, reductions of all ops,
// values kept and read back, parameters in place, gathers, indices, scalars. Not generated: the sign of a NaN as data (copysign, bitcast),
// since it is not defined.
#pragma once

#include <utility>
#include <vector>

#include "fuzz/ir/random.h"
#include "kernels/loops.h"

namespace escapement::fuzz {

LoopNest random_nest(Random& random);

// How a parameter is used, for laying out its memory.
struct ParamUse {
  bool gathered = false;
  bool row = false;        // in row stages: it has no reduced axes
};
std::vector<ParamUse> param_uses(const LoopNest& nest);

// Operands (first) over which a result may be written that has their strides: all loads come before all stores, stage by stage, and what was in
// the result's memory is not asked for.
std::vector<std::pair<uint32_t, uint32_t>> may_overwrite(const LoopNest& nest);

}  // namespace escapement::fuzz
