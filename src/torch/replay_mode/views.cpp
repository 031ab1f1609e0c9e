// See views.h.
#include "torch/replay_mode/views.h"

#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace escapement {
namespace {

namespace autograd = torch::autograd;
using autograd::CreationMeta;

CreationMeta creation_of(ViewKind kind, bool without_grad) {
  if (kind == ViewKind::inference) return CreationMeta::INFERENCE_MODE;
  if (without_grad) return CreationMeta::NO_GRAD_MODE;
  return kind == ViewKind::several ? CreationMeta::MULTI_OUTPUT_NODE : CreationMeta::DEFAULT;
}

const autograd::DifferentiableViewMeta* meta_of(const at::TensorBase& tensor) {
  const auto* const meta = autograd::impl::get_view_autograd_meta(tensor);
  return meta != nullptr && meta->has_bw_view() ? meta : nullptr;
}

// All that is not the view's alone. The tangents know of one tensor only, so `from` is not to have them any more.
void carry_over(autograd::AutogradMeta& from, autograd::AutogradMeta& to) {
  to.name_ = std::move(from.name_);
  to.grad_ = std::move(from.grad_);
  to.grad_fn_ = std::move(from.grad_fn_);
  to.output_nr_ = from.output_nr_;
  to.grad_accumulator_ = std::move(from.grad_accumulator_);
  to.fw_grad_ = std::move(from.fw_grad_);
  to.hooks_ = std::move(from.hooks_);
  to.cpp_hooks_list_ = std::move(from.cpp_hooks_list_);
  to.post_acc_grad_hooks_ = std::move(from.post_acc_grad_hooks_);
  to.requires_grad_ = from.requires_grad_;
  to.retains_grad_ = from.retains_grad_;
  to.grad_dtype_ = from.grad_dtype_;
  to.allow_grad_dtype_mismatch_ = from.allow_grad_dtype_mismatch_;
}

// Something may have been noted of the view before it was known to be one: `torch::autograd::Function` gives what its forward returns a node, and
// asks only then whether that is a view; the program may ask gradients of it, or hang a hook on it.
void set_meta(c10::TensorImpl& view, const at::Tensor& base, CreationMeta creation) {
  autograd::ViewInfo info(base, /*view_fn=*/nullptr, /*rev_view_fn=*/nullptr);
  auto made = std::make_unique<autograd::DifferentiableViewMeta>(&view, std::move(info), std::nullopt, /*shared_view_info=*/true, creation);
  if (auto* const noted = static_cast<autograd::AutogradMeta*>(view.autograd_meta())) carry_over(*noted, *made);
  view.set_autograd_meta(std::move(made));
}

}  // namespace

ViewKind view_kind(const at::Tensor& real, bool one_of_several) {
  const auto* const meta = meta_of(real);
  if (meta == nullptr) return ViewKind::none;
  if (meta->get_creation_meta() == CreationMeta::INFERENCE_MODE) return ViewKind::inference;
  return one_of_several ? ViewKind::several : ViewKind::one;
}

void note_view(c10::TensorImpl& view, const at::Tensor& base, ViewKind kind, bool without_grad) {
  const CreationMeta creation = creation_of(kind, without_grad);
  const auto* const of = meta_of(base);
  if (of == nullptr) return set_meta(view, base, creation);
  set_meta(view, of->get_backward_view().base_, autograd::propagate_creation_meta(of->get_creation_meta(), creation));
}

void count_with(const at::Tensor& view, const at::Tensor& other) {
  autograd::impl::set_version_counter(view, autograd::impl::version_counter(other));
  if (auto* const meta = const_cast<autograd::DifferentiableViewMeta*>(meta_of(view))) meta->set_attr_version(view._version());
}

void rebase_view(const at::Tensor& view, const at::Tensor& from, const at::Tensor& to) {
  const auto* const meta = meta_of(view);
  if (meta == nullptr || !meta->get_backward_view().base_.is_same(from)) return;
  set_meta(*view.unsafeGetTensorImpl(), to, meta->get_creation_meta());
}

}  // namespace escapement
