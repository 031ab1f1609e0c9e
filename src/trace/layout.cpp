// See layout.h. All comparisons are proofs: a stride lies inside another if it is provably smaller or divides it.
#include "trace/layout.h"

#include <algorithm>
#include <numeric>

namespace escapement {
namespace {

bool is_one(const DimTable& dims, Dim a) { return dims.as_constant(a) == 1; }

enum class Order { inner, outer, tie, unknown };

Order compare_strides(const DimTable& dims, Dim a, Dim b) {
  if (dims.same(a, b)) return Order::tie;
  if (dims.less_equal(a, b) == Truth::yes) return Order::inner;
  if (dims.less_equal(b, a) == Truth::yes) return Order::outer;
  if (dims.divisible(b, a) == Truth::yes) return Order::inner;
  if (dims.divisible(a, b) == Truth::yes) return Order::outer;
  return Order::unknown;
}

// The operand's stride on an axis of the result; empty where the operand is broadcast.
std::optional<Dim> stride_on(const DimTable& dims, const TensorType& operand, std::span<const Dim> sizes, size_t axis) {
  const size_t missing = sizes.size() - operand.sizes.size();
  if (axis < missing) return std::nullopt;
  const Dim size = operand.sizes[axis - missing], stride = operand.strides[axis - missing];
  if (dims.as_constant(stride) == 0) return std::nullopt;
  if (is_one(dims, size) && !is_one(dims, sizes[axis])) return std::nullopt;
  return stride;
}

// TensorIterator's should_swap: the first operand that tells the two axes apart decides.
Order compare_axes(const DimTable& dims, std::span<const TensorType* const> operands, std::span<const Dim> sizes, size_t a, size_t b) {
  for (const TensorType* operand : operands) {
    const auto x = stride_on(dims, *operand, sizes, a), y = stride_on(dims, *operand, sizes, b);
    if (!x || !y) continue;
    const Order order = compare_strides(dims, *x, *y);
    if (order != Order::tie) return order;
    // Axes of one stride, of a view whose elements overlap, lie by their sizes.
    if (dims.less(sizes[b], sizes[a]) == Truth::yes) return Order::outer;
    if (!is_one(dims, sizes[a]) && !is_one(dims, sizes[b]) && dims.less_equal(sizes[a], sizes[b]) != Truth::yes) return Order::unknown;
  }
  return Order::tie;
}

}  // namespace

std::vector<Dim> contiguous_strides(DimTable& dims, std::span<const Dim> sizes) {
  std::vector<int32_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  return dense_strides(dims, sizes, order);
}

std::vector<Dim> dense_strides(DimTable& dims, std::span<const Dim> sizes, std::span<const int32_t> order) {
  std::vector<Dim> strides(sizes.size());
  Dim next = dims.constant(1);
  for (size_t i = order.size(); i-- > 0;) {
    const int32_t axis = order[i];
    strides[axis] = next;
    if (i > 0) next = dims.mul(next, sizes[axis]);
  }
  return strides;
}

bool is_contiguous(DimTable& dims, std::span<const Dim> sizes, std::span<const Dim> strides) {
  Dim expected = dims.constant(1);
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (is_one(dims, sizes[axis])) continue;
    if (!dims.same(strides[axis], expected)) return false;
    expected = dims.mul(expected, sizes[axis]);
  }
  return true;
}

std::vector<Dim> channels_last_strides(DimTable& dims, std::span<const Dim> sizes) {
  std::vector<int32_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return dense_strides(dims, sizes, order);
}

bool is_channels_last(DimTable& dims, std::span<const Dim> sizes, std::span<const Dim> strides) {
  if (sizes.size() != 4 && sizes.size() != 5) return false;
  const std::vector<Dim> wanted = channels_last_strides(dims, sizes);
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (!is_one(dims, sizes[axis]) && !dims.same(strides[axis], wanted[axis])) return false;
  return true;
}

std::optional<std::vector<int32_t>> dense_order(DimTable& dims, std::span<const Dim> sizes, std::span<const Dim> strides) {
  std::vector<int32_t> left(sizes.size()), order;
  std::iota(left.begin(), left.end(), 0);
  Dim expected = dims.constant(1);
  while (!left.empty()) {
    const auto fits = [&](int32_t axis) { return is_one(dims, sizes[axis]) || dims.same(strides[axis], expected); };
    const auto found = std::find_if(left.rbegin(), left.rend(), fits);  // from the last axis: contiguous stays as it is
    if (found == left.rend()) return std::nullopt;
    const int32_t axis = *found;
    if (!is_one(dims, sizes[axis])) expected = dims.mul(expected, sizes[axis]);
    order.insert(order.begin(), axis);
    left.erase(std::next(found).base());
  }
  return order;
}

namespace {

bool same_dims(const DimTable& dims, std::span<const Dim> a, std::span<const Dim> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](Dim x, Dim y) { return dims.same(x, y); });
}

// TensorIterator's shortcut for operands that need no broadcasting: all contiguous, or all dense with the same strides. Empty if
// it does not apply.
std::vector<Dim> common_strides(DimTable& dims, std::span<const TensorType* const> operands, std::span<const Dim> sizes) {
  bool contiguous = true, alike = true;
  for (const TensorType* operand : operands) {
    if (!same_dims(dims, operand->sizes, sizes)) return {};
    contiguous = contiguous && is_contiguous(dims, operand->sizes, operand->strides);
    alike = alike && same_dims(dims, operand->strides, operands[0]->strides);
  }
  if (operands.empty() || contiguous) return contiguous_strides(dims, sizes);
  if (alike && dense_order(dims, operands[0]->sizes, operands[0]->strides)) return operands[0]->strides;
  return {};
}

}  // namespace

// Otherwise the same insertion sort as TensorIterator::reorder_dimensions, innermost axis first.
std::vector<Dim> pointwise_strides(DimTable& dims, std::span<const TensorType* const> operands, std::span<const Dim> sizes) {
  if (std::vector<Dim> strides = common_strides(dims, operands, sizes); !strides.empty()) return strides;
  std::vector<int32_t> inner_first(sizes.size());
  std::iota(inner_first.rbegin(), inner_first.rend(), 0);
  for (size_t i = 1; i < inner_first.size(); ++i) {
    size_t moving = i;
    for (size_t j = i; j-- > 0;) {
      const Order order = compare_axes(dims, operands, sizes, inner_first[j], inner_first[moving]);
      if (order == Order::unknown) return {};
      if (order == Order::inner) break;
      if (order == Order::outer) std::swap(inner_first[j], inner_first[moving]), moving = j;
    }
  }
  std::reverse(inner_first.begin(), inner_first.end());
  return dense_strides(dims, sizes, inner_first);
}

bool axes_may_wait(DimTable& dims, std::span<const TensorType* const> operands, std::span<const Dim> sizes) {
  if (sizes.size() < 3 || !common_strides(dims, operands, sizes).empty()) return false;
  const auto has_both = [&](const TensorType* operand, size_t a, size_t b) {
    return stride_on(dims, *operand, sizes, a) && stride_on(dims, *operand, sizes, b);
  };
  const auto turns = [&](const TensorType* operand, size_t a, size_t b) {
    if (!has_both(operand, a, b)) return false;
    const Order order = compare_strides(dims, *stride_on(dims, *operand, sizes, a), *stride_on(dims, *operand, sizes, b));
    return order == Order::inner || order == Order::unknown;
  };
  for (size_t a = 0; a < sizes.size(); ++a)
    for (size_t b = a + 1; b < sizes.size(); ++b) {
      if (is_one(dims, sizes[a]) || is_one(dims, sizes[b])) continue;
      if (std::none_of(operands.begin(), operands.end(), [&](const TensorType* operand) { return has_both(operand, a, b); })) return true;
      if (std::any_of(operands.begin(), operands.end(), [&](const TensorType* operand) { return turns(operand, a, b); })) return true;
    }
  return false;
}

std::vector<Dim> preserved_strides(DimTable& dims, const TensorType& operand) {
  if (dense_order(dims, operand.sizes, operand.strides)) return operand.strides;
  const TensorType* const operands[] = {&operand};
  return pointwise_strides(dims, operands, operand.sizes);
}

namespace {

// ATen's computeStride, by symbols. `chunk` is a run of old axes that memory sees as one; the new axes are taken from the last
// until their product is the chunk's.
class Reshaper {
 public:
  Reshaper(DimTable& dims, std::span<const Dim> new_sizes)
      : dims_(dims), sizes_(new_sizes), strides_(new_sizes.size()), next_(new_sizes.size()) {}

  bool take(Dim chunk, Dim base_stride, bool last_chunk) {
    Dim taken = dims_.constant(1);
    while (next_ > 0 && (last_chunk || !dims_.same(taken, chunk) || is_one(dims_, sizes_[next_ - 1]))) {
      --next_;
      strides_[next_] = dims_.mul(taken, base_stride);
      taken = dims_.mul(taken, sizes_[next_]);
    }
    return dims_.same(taken, chunk);
  }

  std::vector<Dim> strides() { return std::move(strides_); }

 private:
  DimTable& dims_;
  std::span<const Dim> sizes_;
  std::vector<Dim> strides_;
  size_t next_;  // new axes below it are still to be placed
};

}  // namespace

std::optional<std::vector<Dim>> reshaped_strides(DimTable& dims, std::span<const Dim> sizes, std::span<const Dim> strides,
                                                 std::span<const Dim> new_sizes) {
  if (sizes.empty()) return contiguous_strides(dims, new_sizes);
  Reshaper reshaper(dims, new_sizes);
  Dim chunk = dims.constant(1), base = strides.back();
  for (size_t axis = sizes.size(); axis-- > 0;) {
    chunk = dims.mul(chunk, sizes[axis]);
    const bool first = axis == 0;
    if (!first && (is_one(dims, sizes[axis - 1]) || dims.same(strides[axis - 1], dims.mul(chunk, base)))) continue;
    if (!reshaper.take(chunk, base, first)) return std::nullopt;
    if (!first) chunk = dims.constant(1), base = strides[axis - 1];
  }
  return reshaper.strides();
}

bool may_overlap_partly(const DimTable& dims, const TensorType& a, const TensorType& b) {
  const auto same = [&](Dim x, Dim y) { return dims.same(x, y); };
  if (a.storage != b.storage) return false;
  return a.root != b.root || !same(a.offset, b.offset) || !std::equal(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), b.sizes.end(), same) ||
         !std::equal(a.strides.begin(), a.strides.end(), b.strides.begin(), b.strides.end(), same);
}

}  // namespace escapement
