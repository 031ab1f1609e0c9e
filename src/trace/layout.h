// Layouts: strides as functions of sizes, by symbols. Strides are those of a tensor that has elements; those of an
// empty tensor address nothing, nor does that of an axis of size 1: the run time gives them a dense tensor's values.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "trace/trace.h"

namespace escapement {

std::vector<Dim> contiguous_strides(DimTable& dims, std::span<const Dim> sizes);
bool is_contiguous(DimTable& dims, std::span<const Dim> sizes, std::span<const Dim> strides);  // provably

// An image (rank 4), or a volume (rank 5), with its channels (axis 1) innermost.
std::vector<Dim> channels_last_strides(DimTable& dims, std::span<const Dim> sizes);
bool is_channels_last(DimTable& dims, std::span<const Dim> sizes, std::span<const Dim> strides);  // provably

// Dense strides with the axes in the given order, outermost first.
std::vector<Dim> dense_strides(DimTable& dims, std::span<const Dim> sizes, std::span<const int32_t> order);

// The axes from outermost to innermost if the tensor is provably dense in some order; else empty.
std::optional<std::vector<int32_t>> dense_order(DimTable& dims, std::span<const Dim> sizes, std::span<const Dim> strides);

// Eager's layout of a pointwise result, by the rule of TensorIterator: axes are sorted by the operands' strides, an axis that an
// operand broadcasts has no say, ties stay. Empty if the symbols do not decide the order.
std::vector<Dim> pointwise_strides(DimTable& dims, std::span<const TensorType* const> operands, std::span<const Dim> sizes);

// Whether a third axis may decide how two axes of the result lie, neither provably of size 1, also by a stride that addresses nothing: each operand
// broadcasts one of the two, or they change places, which the sort does not come to behind an axis that stays. Of two axes or less, none does.
bool axes_may_wait(DimTable& dims, std::span<const TensorType* const> operands, std::span<const Dim> sizes);

// Eager's empty_like: a dense operand's own strides, else dense in the order of its strides. Empty if that is undecided.
std::vector<Dim> preserved_strides(DimTable& dims, const TensorType& operand);

// Strides with which a tensor's memory can be seen in other sizes of the same product; empty if it cannot, or not provably.
std::optional<std::vector<Dim>> reshaped_strides(DimTable& dims, std::span<const Dim> sizes, std::span<const Dim> strides,
                                                 std::span<const Dim> new_sizes);

// False: element i of both lies at one address, or the two lie in memory that they do not share.
bool may_overlap_partly(const DimTable& dims, const TensorType& a, const TensorType& b);

}  // namespace escapement
