// See gradient_mirror.h.
#include "torch/gradient_mirror.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "torch/wrapper.h"

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
  if (wrapper.requires_grad() && !real.requires_grad()) real.set_requires_grad(true);
  if (!real.requires_grad()) return;
  tape.refuse(Reason::gradient, "the program asks for gradients");
  wrapper.set_autograd_meta(std::make_unique<Mirror>(real));
}

template <class Visit>
void each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) return visit(value.toTensor());
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor) visit(*tensor);
  }
}

}  // namespace

void mirror_gradients(Tape& tape, std::span<const c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    each_tensor(argument, [&](const at::Tensor& tensor) {
      if (Wrapper* const wrapper = Wrapper::of(tensor)) mirror(tape, *wrapper);
    });
  }
}

void hand_over_requests(Tape& tape, std::span<const c10::IValue> values) {
  for (const c10::IValue& value : values) {
    each_tensor(value, [&](const at::Tensor& tensor) {
      Wrapper* const wrapper = Wrapper::of(tensor);
      if (wrapper && wrapper->requires_grad()) mirror(tape, *wrapper);
    });
  }
}

bool requires_gradient(std::span<const c10::IValue> results) {
  bool found = false;
  for (const c10::IValue& result : results) {
    each_tensor(result, [&](const at::Tensor& tensor) { found = found || (tensor.defined() && tensor.requires_grad()); });
  }
  return found;
}

}  // namespace escapement
