// Writes that eager refuses: into memory of which one element is several of the tensor's (an expanded tensor), or that the operator
// reads at other places. ATen decides that by the sizes and strides of each call, and so does the recording: a write of ours is one that
// ATen would never refuse, for any sizes; any other stays with ATen. So does one into a view whose elements lie in one place without a
// stride of 0 (as_strided, unfold): what comes of it depends on the order in which ATen goes.
#pragma once

#include "torch/record/lower.h"

namespace escapement {

// May an argument that the call writes overlap with itself, or with another argument of which it is not exactly the same part? A stride
// of an input that was not zero becomes a guard, and so does which axes have size 1 where one part is reached in two ways.
bool may_overlap(OpCall& call);

// For a call that ATen makes at each call of the program: that it is refused, or not, as it was now.
void hold_overlaps(OpCall& call);

}  // namespace escapement
