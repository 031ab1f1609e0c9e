// See copies.h. Axes of size 1 have no say in either decision. Of a tensor without elements nothing is copied, and nothing shared that anybody
// could see: there the conditions hold whatever the sizes.
#include "torch/copies.h"

#include <algorithm>
#include <optional>

namespace escapement {
namespace {

bool differ_now(const DimTable& dims, Dim a, Dim b) {
  const auto x = dims.hint(a), y = dims.hint(b);
  return x && y && *x != *y;
}

class Conditions {
 public:
  Conditions(DimTable& dims, const TensorType& type) : dims_(dims), type_(type), some_(dims.min(dims.constant(1), dims.product(type.sizes))) {}

  bool is_one_now(size_t axis) const { return dims_.hint(type_.sizes[axis]) == std::optional<int64_t>(1); }
  void not_one(size_t axis) { all_.push_back({Guard::Kind::equal, type_.sizes[axis], dims_.constant(1), false}); }
  void one(size_t axis) { all_.push_back({Guard::Kind::equal, type_.sizes[axis], dims_.constant(1), true}); }
  void differ(Dim a, Dim b) {
    const Dim none = dims_.sub(dims_.constant(1), some_);
    all_.push_back({Guard::Kind::equal, dims_.mul(some_, a), dims_.add(dims_.mul(some_, b), none), false});
  }
  std::vector<CopyCondition> take() { return std::move(all_); }

 private:
  DimTable& dims_;
  const TensorType& type_;
  const Dim some_;   // 0 or 1
  std::vector<CopyCondition> all_;
};

// The products of the last sizes, of none of them first.
std::vector<Dim> products_from_behind(DimTable& dims, std::span<const Dim> sizes) {
  std::vector<Dim> products{dims.constant(1)};
  for (size_t i = sizes.size(); i-- > 0;) products.push_back(dims.mul(products.back(), sizes[i]));
  return products;
}

}  // namespace

std::vector<CopyCondition> why_contiguous_copies(DimTable& dims, const TensorType& type, std::span<const Dim> copied) {
  Conditions conditions(dims, type);
  for (size_t axis = 0; axis < copied.size(); ++axis) {
    if (conditions.is_one_now(axis) || !differ_now(dims, type.strides[axis], copied[axis])) continue;
    conditions.not_one(axis);
    conditions.differ(type.strides[axis], copied[axis]);
    break;
  }
  return conditions.take();
}

// ATen makes a view if, wherever an axis does not continue in memory what stands behind it, the new sizes have a border, too.
std::vector<CopyCondition> why_reshape_copies(DimTable& dims, const TensorType& type, std::span<const Dim> sizes) {
  Conditions conditions(dims, type);
  const std::vector<Dim> old = products_from_behind(dims, type.sizes), fresh = products_from_behind(dims, sizes);
  for (size_t inner = type.sizes.size(); inner-- > 1;) {
    if (conditions.is_one_now(inner)) continue;
    size_t outer = inner - 1;
    while (outer > 0 && conditions.is_one_now(outer)) --outer;
    if (conditions.is_one_now(outer)) break;
    const Dim next = dims.mul(type.sizes[inner], type.strides[inner]), behind = old[type.sizes.size() - inner];
    const bool border = std::any_of(fresh.begin(), fresh.end(), [&](Dim product) { return !differ_now(dims, product, behind); });
    if (border || !differ_now(dims, type.strides[outer], next)) continue;
    for (const size_t axis : {outer, inner}) conditions.not_one(axis);
    for (size_t axis = outer + 1; axis < inner; ++axis) conditions.one(axis);
    conditions.differ(type.strides[outer], next);
    for (const Dim product : fresh) conditions.differ(product, behind);
    break;
  }
  return conditions.take();
}

}  // namespace escapement
