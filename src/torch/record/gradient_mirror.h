// Gradients inside a recording. A wrapper stands above autograd: operators run on the real tensors behind it. Where the program lets a
// wrapper require gradients, or switches gradients on over tensors that do, the real tensors build the tape, and the recording is not kept
// (Reason::gradient). The run goes on as eager's: what the program asks of a wrapper afterwards (grad, grad_fn, to be differentiated by) is
// answered by the real tensor's own.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <span>

namespace escapement {

struct Tape;

// To be called with the arguments of each operator, before it runs and after, while gradients are enabled.
void mirror_gradients(Tape& tape, std::span<const c10::IValue> arguments);
// At the end: what the program itself lets require gradients, among its results and arguments.
void hand_over_requests(Tape& tape, std::span<const c10::IValue> values);
bool meta_has_tangent(const c10::AutogradMetaInterface& meta);
// Whether derivatives are taken forward through it (torch.autograd.forward_ad).
inline bool has_tangent(const at::Tensor& tensor) {
  const c10::AutogradMetaInterface* const meta = tensor.unsafeGetTensorImpl()->autograd_meta();
  return meta != nullptr && meta_has_tangent(*meta);
}
bool requires_gradient(std::span<const c10::IValue> results);   // a tape is kept, or derivatives are taken forward

}  // namespace escapement
