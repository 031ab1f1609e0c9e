// The order in which ATen's TensorIterator lays out new memory, by numbers. (By symbols: pointwise_strides in trace/layout.h.)
#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <span>

namespace escapement {

using Strides = c10::SmallVector<int64_t, 8>;

// Of dense memory of that shape, whose axes are in the order of the operands' strides, those of axes of size 1 too. Each operand has a stride for
// each axis of the shape: 0 where it is broadcast.
Strides sorted_strides(std::span<const Strides> operands, c10::IntArrayRef shape);

}  // namespace escapement
