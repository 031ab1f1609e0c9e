// Orders of axes. Eager lays a result out in the order of its operands' strides, also by strides that address nothing: of axes of size 1, of
// nothing at all. What was seen of that while recording, and is not known for all sizes, becomes a guard.
#pragma once

#include "torch/record/lower.h"

namespace escapement {

// That an input's strides are those of its class of layout where an axis has one element, too. False: they are not, and nothing is guarded.
bool hold_strides(Tape& tape, ValueId input, const char* because);
// The same, or that its sizes and strides are these. Nothing of a value that is no input.
void hold_strides_of_input(Tape& tape, ValueId root, const char* because);

// Of an operator's first result, when its type has been compared with what ATen returned.
void hold_seen_layout(OpCall& call);

}  // namespace escapement
