// Operators of ATen that are recorded as other ones, which have rows: in the place of a call that fuses with nothing, or of a value that only
// ATen's code sees.
#pragma once

#include "torch/record/lower.h"

namespace escapement {

// Takes the arguments from the stack and leaves the result there; false, and nothing taken, where it must be ATen's.
using Parts = bool (*)(Tape& tape, torch::jit::Stack& stack);

Parts parts_of(const OpPlan& plan);   // null for those that are recorded as they are

}  // namespace escapement
