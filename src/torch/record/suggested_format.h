// The memory format that strides suggest. ATen's kernels for images and volumes choose by it how their result lies, and it depends on strides of axes
// of size 1, which address nothing: those of our memory at run time are not always those that eager's operators gave.
#pragma once

#include "torch/record/lower.h"

namespace escapement {

// Before a call is left to ATen: its operands suggest what they suggested while recording. Where ours would suggest another format the operand is
// a view of it with other strides along axes of size 1; which axes have that size is a guard then.
void keep_suggested_formats(OpCall& call);

// Of an operand of `cat` or a pad, whose result lies in the format that its operands suggest: where strides of axes of size 1 decide that, they are
// guarded, or which axes have it.
void hold_format(OpCall& call, ValueId value, const at::Tensor& real);

// The same at all sizes, so that what an operator makes of the value lies in one order at all of them.
bool suggests_one_format(OpCall& call, ValueId value);

// Some strides of the value are read off a library call's result, which at another call may lie in another order.
bool strides_are_read(const OpCall& call, ValueId value);

}  // namespace escapement
