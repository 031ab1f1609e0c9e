// What autograd notes of a view: what it is a view of, and how it came to be (`_base`, `_is_view()`, what `detach_()` and later writes refuse). Eager
// notes it when the operator is called; a view that was matched has no memory then, and is told what eager would have noted when it gets some, or at
// once if what it is a view of requires gradients: then it does, too. What has been noted of it as of any tensor stays (a node, a request for
// gradients, hooks).
#pragma once

#include <ATen/core/Tensor.h>

namespace escapement {

enum class ViewKind : uint8_t {
  none,       // no view, or one that autograd does not know as such (`detach`, inference mode)
  one,        // what its operator made
  several,    // one of the views that its operator made: written in place, gradients are refused
  inference,  // made in inference mode of a tensor that was not
};

ViewKind view_kind(const at::Tensor& real, bool one_of_several);   // as eager noted it

// Notes it; `base` may be a view itself. `without_grad`: the operator was called where no gradients are kept.
void note_view(c10::TensorImpl& view, const at::Tensor& base, ViewKind kind, bool without_grad);
// Writes through the view count for `other`, too, whose memory it has.
void count_with(const at::Tensor& view, const at::Tensor& other);
// A view of `from` becomes one of `to`, which is another name of the same.
void rebase_view(const at::Tensor& view, const at::Tensor& from, const at::Tensor& to);

}  // namespace escapement
