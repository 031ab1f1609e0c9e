// See run_real.h.
#include "torch/record/run_real.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <span>

#include "torch/record/captures.h"
#include "torch/record/forward.h"
#include "torch/record/host_value.h"
#include "torch/record/made_of_rows.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

using Stack = torch::jit::Stack;

// What is made anew on the way to an exit may only look: at no memory but a number's, since memory of before the exit may hold nothing.
bool runs_in_front_of_an_exit(const OpPlan& plan, const Stack& stack) {
  return plan.pass || (plan.base == "_local_scalar_dense" && is_wrapped_number(stack.back().toTensor()));
}

// A number given as `out` is what torch returns, so it is written itself.
void make_concrete(const OpPlan& plan, std::span<c10::IValue> args) {
  for (uint32_t i = 0; i < args.size(); ++i) {
    const bool written = std::find(plan.writes.begin(), plan.writes.end(), i) != plan.writes.end();
    if (!written || !args[i].isTensor() || !is_wrapped_number(args[i].toTensor())) args[i] = concrete(args[i]);
  }
}

// Autocast keeps the casts of weights that require gradients for as long as it is on: for a tape, so it switches gradients on to make them. Where
// the program has none, that is neither to be recorded as its own doing, nor may a cast that eager kept come in as a constant, nor one of ours
// stay behind. The cast is then an operator like others.
class KeepsNoCasts {
 public:
  KeepsNoCasts() {
    if (!at::GradMode::is_enabled()) at::autocast::set_autocast_cache_enabled(false);
  }
  ~KeepsNoCasts() { at::autocast::set_autocast_cache_enabled(before_); }
  KeepsNoCasts(const KeepsNoCasts&) = delete;
  KeepsNoCasts& operator=(const KeepsNoCasts&) = delete;

 private:
  const bool before_ = at::autocast::is_autocast_cache_enabled();
};

// A literal was copied (lift); what only borrows its memory was not.
void lift_again(Forward& forward, Stack& stack) {
  const at::Tensor program = stack.back().toTensor();
  if (Wrapper::of(program) || is_borrowed_memory(program)) return;
  static const auto clone = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  stack.emplace_back();
  forward.take(clone, stack, 2, /*recorded=*/false);
}

// Where this recording is refused: what has been done is not done again. What the recording that went before took apart is taken apart here as well.
void go_on(Tape& tape, const OpPlan& plan, const c10::OperatorHandle& op, Stack& stack, size_t arguments) {
  Forward& forward = *tape.forward;
  if (plan.base == "item" || plan.base == "_local_scalar_dense") {
    stack.back() = forward.take_read();
    return;
  }
  if (forward.comes_to(op.operator_name())) return static_cast<void>(forward.take(op, stack, arguments, /*recorded=*/false));
  if (autocast_applies(plan)) return run_autocast(op, stack);
  if (plan.base == "lift_fresh" || plan.base == "lift") return lift_again(forward, stack);
  if (const Parts parts = parts_of(plan); parts && parts(tape, stack)) return;
  if (plan.decompose) return op.callBoxedForDispatchKey(plan.parts, stack);
  forward.take(op, stack, arguments, /*recorded=*/false);   // which says what differs
}

}  // namespace

void run_real(const c10::OperatorHandle& op, Stack& stack, size_t arguments) {
  const OpPlan& plan = plan_of(op);
  Tape* const tape = current_tape();
  const bool forward = tape && tape->forward && tape->forward->active();
  if (forward && !runs_in_front_of_an_exit(plan, stack)) return go_on(*tape, plan, op, stack, arguments);
  make_concrete(plan, std::span(stack).last(arguments));
  const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
  if (tape == nullptr) return op.callBoxed(stack);
  const WrittenMemory::Given given = tape->written.before(plan, std::span(stack).last(arguments));
  op.callBoxed(stack);
  tape->written.after(plan, given, std::span(stack).last(plan.schema->returns().size()));
}

bool autocast_applies(const OpPlan& plan) {
  return plan.autocast && at::autocast::is_autocast_enabled(at::kCPU) &&
         !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU);
}

void run_autocast(const c10::OperatorHandle& op, Stack& stack) {
  const KeepsNoCasts scope;
  op.callBoxedForDispatchKey(c10::DispatchKey::AutocastCPU, stack);
}

}  // namespace escapement
