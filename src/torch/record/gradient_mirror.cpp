// See gradient_mirror.h.
#include "torch/record/gradient_mirror.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "torch/record/asked_kinds.h"
#include "torch/record/each_tensor.h"
#include "torch/record/wrapper.h"

namespace escapement {
namespace {

namespace autograd = torch::autograd;

// What autograd finds at a wrapper: the place of the real tensor in the graph, and its gradient.
class Mirror final : public autograd::AutogradMeta {
 public:
  explicit Mirror(const at::Tensor& real) : real_(real) {
    requires_grad_ = real.is_leaf();
    grad_fn_ = real.grad_fn();
    output_nr_ = static_cast<uint32_t>(real.output_nr());
    if (!requires_grad_) return;
    accumulator_ = autograd::impl::grad_accumulator(real);
    grad_accumulator_ = accumulator_;
  }
  at::Tensor& mutable_grad() override { return real_.mutable_grad(); }
  const at::Tensor& grad() const override { return real_.grad(); }

 private:
  at::Tensor real_;
  decltype(autograd::impl::grad_accumulator(std::declval<const at::Tensor&>())) accumulator_;   // a graph holds it weakly
};

void mirror(Tape& tape, Wrapper& wrapper) {
  const at::Tensor& real = wrapper.inner();
  const auto requested = requested_gradient(wrapper);
  if (requested) real.set_requires_grad(*requested);
  if (requested || real.requires_grad()) tape.refuse(Reason::gradient, "the program asks for gradients");
  if (!real.requires_grad()) return;
  wrapper.set_autograd_meta(std::make_unique<Mirror>(real));
}

}  // namespace

void mirror_gradients(Tape& tape, std::span<const c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    each_tensor_of(argument, [&](const at::Tensor& tensor) {
      if (Wrapper* const wrapper = Wrapper::of(tensor)) mirror(tape, *wrapper);
    });
  }
}

void hand_over_requests(Tape& tape, std::span<const c10::IValue> values) {
  for (const c10::IValue& value : values) {
    each_tensor_of(value, [&](const at::Tensor& tensor) {
      Wrapper* const wrapper = Wrapper::of(tensor);
      if (wrapper && requested_gradient(*wrapper)) mirror(tape, *wrapper);
    });
  }
}

bool meta_has_tangent(const c10::AutogradMetaInterface& meta) {
  const auto& tangents = static_cast<const autograd::AutogradMeta&>(meta).fw_grad_;
  return tangents && !tangents->empty();
}

bool requires_gradient(std::span<const c10::IValue> results) {
  bool found = false;
  for (const c10::IValue& result : results) {
    each_tensor_of(result, [&](const at::Tensor& tensor) {
      found = found || (tensor.defined() && ((at::GradMode::is_enabled() && tensor.requires_grad()) || has_tangent(tensor)));
    });
  }
  return found;
}

}  // namespace escapement
