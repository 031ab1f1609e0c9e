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

// The program may have asked gradients of the view before it was known to be one.
void set_meta(c10::TensorImpl& view, const at::Tensor& base, CreationMeta creation) {
  const bool wants_gradients = view.autograd_meta() != nullptr && view.requires_grad();
  autograd::ViewInfo info(base, /*view_fn=*/nullptr, /*rev_view_fn=*/nullptr);
  view.set_autograd_meta(std::make_unique<autograd::DifferentiableViewMeta>(&view, std::move(info), std::nullopt, /*shared_view_info=*/true, creation));
  if (wants_gradients) view.set_requires_grad(true);
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

void rebase_view(const at::Tensor& view, const at::Tensor& from, const at::Tensor& to) {
  const auto* const meta = meta_of(view);
  if (meta == nullptr || !meta->get_backward_view().base_.is_same(from)) return;
  set_meta(*view.unsafeGetTensorImpl(), to, meta->get_creation_meta());
}

}  // namespace escapement
