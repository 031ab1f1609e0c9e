// Whether anybody else holds a tensor. A Python object holds its tensor, and is itself kept by whoever else holds the
// tensor, so one that only we keep alive is not counted. The reference counts of Python are read without its lock: a stale
// one is at most too large, or of an object that another thread is just letting go.
#pragma once

#include <ATen/core/Tensor.h>

namespace escapement {

inline bool has_python_object(const c10::TensorImpl& impl) { return impl.pyobj_slot()->load_pyobj() != nullptr; }

// `tensor`: any of our references; `ours`: how many of them there are.
template <class Reference>
bool is_held(const Reference& tensor, const c10::TensorImpl& impl, size_t ours) {
  const size_t uses = tensor.use_count();
  if (!has_python_object(impl)) return uses > ours;
  return uses > ours + 1 || !impl.pyobj_slot()->has_unique_reference();
}
inline bool is_held(const at::Tensor& tensor, size_t ours) { return is_held(tensor, *tensor.unsafeGetTensorImpl(), ours); }

}  // namespace escapement
