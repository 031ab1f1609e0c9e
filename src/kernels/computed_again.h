// What a nest computes in one stage and again, from the same memory, in a later one: softmax does so with exp(x - max) where no output can
// hold it in between (lower.h). Code generation may keep such a value instead of computing it twice: it has the same bits.
#pragma once

#include <optional>

#include "kernels/loops.h"

namespace escapement {

struct ComputedAgain {
  size_t first = 0, later = 0;       // stages, both each_element, the later one without reductions; nothing is written from the one up to the other
  Reg first_reg = 0, later_reg = 0;  // the value, in their bodies
};

// The one that takes the most to compute; none if no such value is worth a place in memory.
std::optional<ComputedAgain> computed_again(const LoopNest& nest);

}  // namespace escapement
