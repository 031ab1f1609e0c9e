// See lazy_bits.h.
#include "torch/record/lazy_bits.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>

#include "torch/record/asked_kinds.h"
#include "torch/record/forward.h"
#include "torch/record/recorder_fallback.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

at::Tensor lazily(bool conjugate, const at::Tensor& real) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
  return conjugate ? at::_conj(real) : at::_neg_view(real);
}

at::Tensor written_down(Tape& tape, bool conjugate, const at::Tensor& program) {
  static const auto conj = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_conj_physical", "");
  static const auto neg = c10::Dispatcher::singleton().findSchemaOrThrow("aten::neg", "");
  torch::jit::Stack stack{program};
  record_op(tape, conjugate ? conj : neg, stack);
  return stack[0].toTensor();
}

}  // namespace

bool record_lazy_bit(Tape& tape, const OpPlan& plan, torch::jit::Stack& stack) {
  const at::Tensor program = stack.back().toTensor();
  const Wrapper* const given = Wrapper::of(program);
  if (given == nullptr || tape.host_looks || (tape.forward && tape.forward->active())) return false;
  const bool conjugate = plan.base == "_conj";
  const ValueId source = given->value();
  const at::Tensor lazy = lazily(conjugate, given->inner()), made = written_down(tape, conjugate, program);
  stack.back() = lazy;
  if (!tape.live()) return true;
  if (tape.choices.decides_now()) return tape.refuse(Reason::unsupported_tensor, plan.target), true;
  if (tape.exits) tape.exits->give_up();   // that it is a view shows
  const ValueId value = tape.value_of(made);
  stack.back() = Wrapper::make(lazy, tape.shared_from_this(), value);
  Wrapper& view = *Wrapper::of(stack.back().toTensor());
  if (lazy.is_view()) {
    watch_kind(view);
    view.set_base(given->inner().is_same(lazy._base()) ? program : given->base());
  }
  tape.choices.note(value, {.source = source, .copies = tape.dims().constant(0), .strays = {}});
  return true;
}

}  // namespace escapement
