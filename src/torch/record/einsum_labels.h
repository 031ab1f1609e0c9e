// einsum takes labels of one element out of its matrix product, so that its result lies otherwise where a size is 1. It is recorded through its parts, as
// they come for sizes that are not; whether that shows is tried on small tensors.
#pragma once

#include <ATen/core/stack.h>

#include "torch/record/recorder_tape.h"

namespace escapement {

// Behind an einsum that was recorded: if its result would lie otherwise where other sizes of its arguments are 1, which of them are becomes a guard.
void hold_labels_that_decide(Tape& tape, std::span<const c10::IValue> arguments, const c10::IValue& result);

}  // namespace escapement
