// See copies.h.
#include "torch/record/copies.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "trace/layout.h"

namespace escapement {
namespace {

Dim distance(DimTable& dims, Dim a, Dim b) {
  const Dim off = dims.sub(a, b);
  return dims.max(off, dims.neg(off));
}

Dim beyond_one(DimTable& dims, Dim size) { return dims.sub(size, dims.constant(1)); }

// The larger of what there is; a number that is never positive is nothing.
void take_larger(DimTable& dims, Dim& all, Dim more) {
  if (dims.less_equal(more, dims.constant(0)) != Truth::yes) all = all ? dims.max(all, more) : more;
}

// The products of the last sizes, of none of them first.
std::vector<Dim> products_from_behind(DimTable& dims, std::span<const Dim> sizes) {
  std::vector<Dim> products{dims.constant(1)};
  for (size_t i = sizes.size(); i-- > 0;) products.push_back(dims.mul(products.back(), sizes[i]));
  return products;
}

// ATen makes a view if, wherever an axis does not continue in memory what stands behind it, the new sizes have a border, too.
class Borders {
 public:
  Borders(DimTable& dims, const TensorType& type, std::span<const Dim> sizes)
      : dims_(dims), type_(type), old_(products_from_behind(dims, type.sizes)), fresh_(products_from_behind(dims, sizes)) {}

  // At least 1: of these two axes more than one element each, all between them of size 1, and no view over this border.
  Dim breaks(size_t outer, size_t inner) {
    Dim least = dims_.min(beyond_one(dims_, type_.sizes[outer]), beyond_one(dims_, type_.sizes[inner]));
    for (size_t axis = outer + 1; axis < inner; ++axis) least = dims_.min(least, dims_.sub(dims_.constant(2), type_.sizes[axis]));
    least = dims_.min(least, distance(dims_, type_.strides[outer], dims_.mul(type_.sizes[inner], type_.strides[inner])));
    const Dim behind = old_[type_.sizes.size() - inner];
    for (const Dim product : fresh_) least = dims_.min(least, distance(dims_, product, behind));
    return least;
  }

 private:
  DimTable& dims_;
  const TensorType& type_;
  const std::vector<Dim> old_, fresh_;
};

}  // namespace

Dim some_elements(DimTable& dims, const TensorType& type) { return dims.min(dims.constant(1), dims.product(type.sizes)); }

Dim misfit(DimTable& dims, const TensorType& type, std::span<const int> innermost_first) {
  Dim expected = dims.constant(1), worst;
  for (const int axis : innermost_first) {
    const Dim size = type.sizes[axis], stride = type.strides[axis];
    if (dims.equal(size, dims.constant(1)) != Truth::yes && dims.equal(stride, expected) != Truth::yes)
      take_larger(dims, worst, dims.min(beyond_one(dims, size), distance(dims, stride, expected)));
    expected = dims.mul(expected, size);
  }
  return worst;
}

Dim contiguous_copies(DimTable& dims, const TensorType& type) {
  std::vector<int> innermost_first(type.sizes.size());
  std::iota(innermost_first.rbegin(), innermost_first.rend(), 0);
  return misfit(dims, type, innermost_first);
}

Dim reshape_copies(DimTable& dims, const TensorType& type, std::span<const Dim> sizes) {
  Borders borders(dims, type, sizes);
  Dim worst;
  for (size_t inner = type.sizes.size(); inner-- > 1;)
    for (size_t outer = inner; outer-- > 0;) take_larger(dims, worst, borders.breaks(outer, inner));
  return worst ? worst : dims.constant(0);
}

Dim reshape_strays(DimTable& dims, const TensorType& type, Dim copies) {
  const Dim strided = contiguous_copies(dims, type);
  if (!strided) return {};
  return dims.min(dims.min(strided, some_elements(dims, type)), dims.sub(dims.constant(1), copies));
}

std::vector<int64_t> strides_of_nothing(DimTable& dims, const TensorType& type, std::span<const int64_t> sizes, std::vector<int64_t> strides) {
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (dims.as_constant(type.strides[axis]) != std::optional<int64_t>(0)) strides[axis] = std::max<int64_t>(strides[axis], 1);
  const auto order = dense_order(dims, type.sizes, type.strides);
  int64_t inner = 1;
  for (size_t i = order ? order->size() : 0; i-- > 0;) {
    const auto axis = static_cast<size_t>((*order)[i]);
    strides[axis] = inner;
    inner *= std::max<int64_t>(sizes[axis], 1);
  }
  return strides;
}

std::vector<int64_t> strides_of_nothing(DimTable& dims, const TensorType& type) {
  std::vector<int64_t> sizes, strides;
  for (const Dim size : type.sizes) sizes.push_back(dims.hint(size).value_or(0));
  for (const Dim stride : type.strides) strides.push_back(dims.hint(stride).value_or(0));
  return strides_of_nothing(dims, type, sizes, std::move(strides));
}

}  // namespace escapement
