// Which operands of an operation are tensors for ATen, and which are numbers: a number has no sizes that its iterator would look at.
#pragma once

#include "trace/trace.h"

namespace escapement {

// Whether all operands that are tensors for ATen have the result's sizes.
bool has_only_whole(const Trace& trace, const Instr& made, const TensorType& type);

}  // namespace escapement
