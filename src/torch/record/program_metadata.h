// What the entry checks read of a tensor beyond its sizes: dispatch keys, strides, memory. One definition for the quick check and for
// explain.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <vector>

#include "trace/trace.h"

namespace escapement {

// Keys that a plain CPU tensor may carry or lack without any effect on what we do: the caller has decided about gradients, and
// autocast is off where it matters. All others (Python, conjugate, functorch, sparse, ...) make the tensor another kind of thing.
inline constexpr c10::DispatchKeySet kIrrelevantKeys = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
inline constexpr c10::DispatchKeySet kPlainKeys = c10::DispatchKeySet(c10::DispatchKey::CPU);

inline bool is_plain(const c10::TensorImpl& impl, c10::DispatchKeySet keys = kPlainKeys) {
  return (impl.key_set().raw_repr() & ~kIrrelevantKeys.raw_repr()) == keys.raw_repr();
}

inline uint16_t bits_of(caffe2::TypeMeta type) { return std::bit_cast<uint16_t>(type); }

// Those that ATen gives a new contiguous tensor of these sizes, also on axes of size 1 and where there are no elements.
inline bool has_natural_strides(const c10::TensorImpl& impl) {
  const auto sizes = impl.sizes();
  const auto strides = impl.strides();
  int64_t expected = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (strides[axis] != expected) return false;
    if (sizes[axis] > 1) expected *= sizes[axis];
  }
  return true;
}

// The stride of an axis of size 1, or of an empty tensor, addresses nothing.
inline bool stride_holds(const c10::TensorImpl& impl, size_t axis, int64_t expected) {
  return impl.numel() == 0 || impl.sizes()[axis] == 1 || impl.strides()[axis] == expected;
}

// Elements overlap where two axes have one stride; ATen then tells these axes apart by their sizes.
struct OuterAxis {
  int64_t stride = INT64_MAX, size = 1;
  bool ties_with(int64_t inner_stride, int64_t inner_size) const { return stride == inner_stride && stride != 0 && size > 1 && inner_size > 1; }
};

// Axes from outermost to innermost by stride; ~axis for one that has the stride of an axis before it.
inline std::vector<int32_t> order_of(const c10::TensorImpl& impl) {
  std::vector<int32_t> order(impl.sizes().size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return impl.strides()[a] > impl.strides()[b]; });
  OuterAxis outer;
  for (int32_t& axis : order) {
    const int64_t size = impl.sizes()[axis], stride = impl.strides()[axis];
    if (size <= 1) continue;
    if (outer.ties_with(stride, size)) axis = ~axis;
    outer = {stride, size};
  }
  return order;
}

inline int32_t axis_of(int32_t in_order) { return in_order < 0 ? ~in_order : in_order; }

// The order of a recorded input, whose axes of one stride share a symbol. Strides that are given, 0, are checked by themselves.
inline std::vector<int32_t> order_of(const Trace& trace, const Input& input) {
  const std::vector<Dim>& strides = trace.type(input.value).strides;
  std::vector<int32_t> order = input.stride_order;
  std::erase_if(order, [&](int32_t axis) { return trace.dims.as_constant(strides[axis]) == 0; });
  for (size_t i = order.size(); i-- > 0;) {
    const auto ties = [&](int32_t before) { return strides[before] == strides[order[i]]; };
    if (std::any_of(order.begin(), order.begin() + static_cast<ptrdiff_t>(i), ties)) order[i] = ~order[i];
  }
  return order;
}

// As order_of says it; any order holds for no axes. A stride of 0 is no place in an order: ATen leaves such an axis out.
inline bool order_holds(const c10::TensorImpl& impl, std::span<const int32_t> order) {
  OuterAxis outer;
  for (const int32_t place : order) {
    const int32_t axis = axis_of(place);
    const int64_t size = impl.sizes()[axis], stride = impl.strides()[axis];
    if (size == 1) continue;
    if (stride > outer.stride || (place >= 0 && outer.ties_with(stride, size)) || (stride == 0 && size > 1)) return false;
    outer = {stride, size};
  }
  return true;
}

// Memory of a tensor as an address range.
struct Bytes {
  const char *begin, *end;
};

inline Bytes bytes_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {nullptr, nullptr};
  const char* first = static_cast<const char*>(tensor.const_data_ptr());
  int64_t low = 0, high = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    const int64_t reach = (tensor.size(d) - 1) * tensor.stride(d);
    (reach < 0 ? low : high) += reach;
  }
  const auto element = static_cast<int64_t>(tensor.element_size());
  return {first + low * element, first + (high + 1) * element};
}

inline bool overlap(const Bytes& a, const Bytes& b) { return a.begin < b.end && b.begin < a.end; }

inline bool none_overlaps(std::vector<Bytes>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; });
  const char* reached = nullptr;
  for (const Bytes& range : ranges) {
    if (range.begin == range.end) continue;
    if (range.begin < reached) return false;
    reached = range.end;
  }
  return true;
}

inline int64_t item_of(const at::Tensor& tensor) {
  const c10::Scalar value = tensor.item();
  return value.isBoolean() ? value.toBool() : value.toLong();
}

}  // namespace escapement
