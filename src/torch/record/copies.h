// Where eager copies a tensor at some sizes, and at others returns the tensor itself (contiguous) or a view of it (reshape). Which of them it
// does is decided by sizes and strides alone, and said here as one number: at least 1 where eager copies a tensor that has elements, and less
// where it does not. Axes of size 1 have no say. Of a tensor without elements nothing is copied, whatever the number;
// what strides one of ours has is said here, too.
#pragma once

#include <span>

#include "trace/trace.h"

namespace escapement {

// 1 if there are elements, else 0.
Dim some_elements(DimTable& dims, const TensorType& type);
// How far the worst axis is from the stride that the axes inside of it give it. None: no axis is, for any sizes.
Dim misfit(DimTable& dims, const TensorType& type, std::span<const int> innermost_first);

Dim contiguous_copies(DimTable& dims, const TensorType& type);   // none: never, provably
Dim reshape_copies(DimTable& dims, const TensorType& type, std::span<const Dim> sizes);
// At least 1 where eager makes a view, of elements, whose strides are not those of the copy: of a tensor that is not contiguous.
Dim reshape_strays(DimTable& dims, const TensorType& type, Dim copies);

// The strides of memory of ours that has no elements: of a dense tensor, where torch counts an axis of size 0 as one. TensorTable gives it the same.
std::vector<int64_t> strides_of_nothing(DimTable& dims, const TensorType& type, std::span<const int64_t> sizes, std::vector<int64_t> strides);
std::vector<int64_t> strides_of_nothing(DimTable& dims, const TensorType& type);   // at the sizes that were seen

}  // namespace escapement
