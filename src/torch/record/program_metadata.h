// What the entry checks read of a tensor beyond its sizes: dispatch keys, strides, memory. One definition for the quick check and for
// explain.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

namespace escapement {

// Keys that a plain CPU tensor may carry or lack without any effect on what we do: the caller has decided about gradients, and
// autocast is off where it matters. All others (Python, conjugate, functorch, sparse, ...) make the tensor another kind of thing.
inline constexpr c10::DispatchKeySet kIrrelevantKeys = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
inline constexpr c10::DispatchKeySet kPlainKeys = c10::DispatchKeySet(c10::DispatchKey::CPU);

inline bool is_plain(const c10::TensorImpl& impl) {
  return (impl.key_set().raw_repr() & ~kIrrelevantKeys.raw_repr()) == kPlainKeys.raw_repr();
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

// Axes from outermost to innermost by stride; any order holds for no axes.
inline bool order_holds(const c10::TensorImpl& impl, std::span<const int32_t> order) {
  const auto sizes = impl.sizes();
  const auto strides = impl.strides();
  int64_t outer = INT64_MAX;
  for (const int32_t axis : order) {
    if (sizes[axis] == 1) continue;
    if (strides[axis] > outer) return false;
    outer = strides[axis];
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
