// Which axes have one element may decide how the axes of a pointwise result lie: of equal strides ATen's sort looks at sizes, and what it does not
// compare stays. The symbols say one order for all sizes.
#pragma once

#include "torch/record/lower.h"

namespace escapement {

// Of a pointwise operator on operands that are broadcast and in other orders: where the symbols' order is not ATen's for all sizes, which of
// them are 1 becomes a guard, before the operator's result is made.
void hold_ones_that_decide(OpCall& call);

}  // namespace escapement
