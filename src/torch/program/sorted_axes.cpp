// See sorted_axes.h.
#include "torch/program/sorted_axes.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace escapement {
namespace {

// Above 0: `a` is the outer one; 0: nothing tells them apart.
int compare(std::span<const Strides> operands, c10::IntArrayRef shape, size_t a, size_t b) {
  for (const Strides& strides : operands) {
    if (strides[a] == 0 || strides[b] == 0) continue;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

}  // namespace

// TensorIterator::reorder_dimensions: an insertion sort, innermost axis first.
Strides sorted_strides(std::span<const Strides> operands, c10::IntArrayRef shape) {
  std::vector<size_t> inner_first(shape.size());
  std::iota(inner_first.rbegin(), inner_first.rend(), size_t{0});
  for (size_t i = 1; i < inner_first.size(); ++i) {
    size_t moving = i;
    for (size_t j = i; j-- > 0;) {
      const int way = compare(operands, shape, inner_first[j], inner_first[moving]);
      if (way < 0) break;
      if (way > 0) std::swap(inner_first[j], inner_first[moving]), moving = j;
    }
  }
  // In its own order ATen makes a new tensor, to whose strides an axis of size 0 counts as one.
  const bool in_order = std::is_sorted(inner_first.begin(), inner_first.end(), std::greater());
  Strides out(shape.size());
  int64_t next = 1;
  for (const size_t axis : inner_first) out[axis] = next, next *= in_order ? std::max<int64_t>(shape[axis], 1) : shape[axis];
  return out;
}

}  // namespace escapement
