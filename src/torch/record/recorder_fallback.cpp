// What happens at every ATen call of a recording thread, in order: marks pass through; autocast kernels and composites call back
// into us; everything else runs on the real tensors and is then lowered (one_op.h).
#include "torch/record/recorder_fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "torch/record/captures.h"
#include "torch/record/device.h"
#include "torch/record/each_tensor.h"
#include "torch/record/einsum_labels.h"
#include "torch/record/forward.h"
#include "torch/record/gradient_mirror.h"
#include "torch/record/host_value.h"
#include "torch/record/lazy_bits.h"
#include "torch/record/left_over.h"
#include "torch/record/made_of_rows.h"
#include "torch/record/one_op.h"
#include "torch/record/run_real.h"
#include "torch/record/unharmed.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

using Stack = torch::jit::Stack;

thread_local const OpPlan* t_composite = nullptr;  // outermost composite being recorded through its parts
thread_local OpListener* t_listener = nullptr;
thread_local bool t_silenced = false;   // the listener is away for a while, and comes back
std::atomic<MaterialiseHook> materialise_hook{nullptr};

// --- ops with a meaning of their own

// `item` has seen to it that there is one; who calls the operator by its name has not.
void hold_element(Tape& tape, ValueId value) {
  const Dim one = tape.dims().constant(1);
  const std::vector<Dim> sizes = tape.trace().type(value).sizes;
  for (const Dim size : sizes) tape.guard_relation(Guard::Kind::less_equal, one, size, true, "an element that the program reads");
}

// The value goes to the host.
void read_value(Tape& tape, const c10::OperatorHandle& op, Stack& stack) {
  widen(tape, stack.back());
  if (!tape.live()) return run_real(op, stack, 1);
  const at::Tensor program = stack.back().toTensor();
  ValueId value;
  unharmed(tape, [&] {
    if (!is_wrapped_number(program)) value = tape.value_of(program);
  });
  const bool taken = value && tape.forward && tape.forward->active();
  if (taken) stack.back() = tape.forward->take_read();
  else run_real(op, stack, 1);
  if (!tape.live() || !value) return;
  ++tape.recording.ops;
  unharmed(tape, [&] {
    hold_element(tape, value);
    stack.back() = host_value(tape, value, stack.back().toScalar());
  });
}

// A literal of the program (torch.tensor(3.)): every run must start from its value, so the program works on a copy. What only borrows
// its memory (torch.as_tensor of an array) is none.
void lift(Tape& tape, Stack& stack) {
  const at::Tensor program = stack.back().toTensor();
  if (Wrapper::of(program) || is_borrowed_memory(program)) return;
  ValueId literal;
  unharmed(tape, [&] { literal = tape.capture_lifted(program); });
  if (!tape.live()) return;
  static const auto clone = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  stack.back() = Wrapper::make(program, tape.shared_from_this(), literal);
  stack.emplace_back();
  record_one(tape, plan_of(clone), clone, stack);
}

// Asked of a tensor before its memory is read (tolist): one that the program knows from elsewhere is read as a wrapper, which notices.
void watch(Tape& tape, Stack& stack) {
  const at::Tensor program = stack.back().toTensor();
  if (Wrapper::of(program) || is_wrapped_number(program) || !program.is_cpu() || program.layout() != at::kStrided) return;
  if (const ValueId value = tape.capture(program)) stack.back() = Wrapper::make(program, tape.shared_from_this(), value);
}

bool special(Tape& tape, const OpPlan& plan, const c10::OperatorHandle& op, Stack& stack) {
  if (const Parts parts = parts_of(plan)) return parts(tape, stack);
  if (plan.base == "_local_scalar_dense") return read_value(tape, op, stack), true;
  if (plan.base == "lift_fresh" || plan.base == "lift") return lift(tape, stack), true;
  if (plan.base == "_conj" || plan.base == "_neg_view") return record_lazy_bit(tape, plan, stack);
  if (plan.base == "resolve_conj" || plan.base == "resolve_neg") return watch(tape, stack), false;
  return false;
}

// --- composites

class CompositeScope {
 public:
  explicit CompositeScope(const OpPlan& plan) : outer_(t_composite) {
    if (!outer_) t_composite = &plan;
  }
  ~CompositeScope() { t_composite = outer_; }

 private:
  const OpPlan* outer_;
};

// A composite that reaches into memory cannot be recorded through its parts. This recording is lost; the next keeps it whole.
void decompose(Tape& tape, OpPlan& plan, const c10::OperatorHandle& op, Stack& stack) {
  const CompositeScope scope(plan);
  const bool live = tape.live();
  const bool decides = plan.base == "einsum";
  const std::vector<c10::IValue> given(stack.end() - (decides ? static_cast<std::ptrdiff_t>(op.schema().arguments().size()) : 0), stack.end());
  op.callBoxedForDispatchKey(plan.parts, stack);
  if (live && tape.recording.refused == Reason::storage_access && !plan.base.empty()) {
    learn_keep_whole(plan.base);
    tape.recording.learned = true;
    plan.decompose = false;
  }
  if (decides && tape.live()) unharmed(tape, [&] { hold_labels_that_decide(tape, given, stack.back()); });
}

// --- the fallback

Tape* tape_for(const Stack& stack, size_t arguments) {
  if (Tape* tape = current_tape()) return tape;
  // Not recording on this thread, but a wrapper may have come here: from another thread, or after the end.
  for (size_t i = stack.size() - arguments; i < stack.size(); ++i) {
    if (!stack[i].isTensor()) continue;
    if (const Wrapper* w = Wrapper::of(stack[i].toTensor()); w && w->tape().live() && w->tape().thread != std::this_thread::get_id())
      w->tape().refuse(Reason::recorder_refused, "a tensor of the program was used on another thread");
  }
  return nullptr;
}

// A tensor of a replayed function (replay_mode/deferred.h) that came to another thread, or to a recording.
void materialise(const Stack& stack, size_t arguments) {
  const MaterialiseHook hook = materialise_hook.load(std::memory_order_acquire);
  if (hook == nullptr) return;
  for (size_t i = stack.size() - arguments; i < stack.size(); ++i) {
    if (stack[i].isTensor()) hook(*stack[i].toTensor().unsafeGetTensorImpl());
    if (!stack[i].isTensorList()) continue;
    for (const at::Tensor& tensor : stack[i].toTensorVector()) hook(*tensor.unsafeGetTensorImpl());
  }
}

// The tensor of the program that `contiguous` is called on, if it is that operator.
ValueId made_contiguous(const OpPlan& plan, const Stack& stack, size_t arguments) {
  if (plan.base != "contiguous") return {};
  const Wrapper* const w = Wrapper::of(stack[stack.size() - arguments].toTensor());
  return w ? w->value() : ValueId();
}

// Where nothing is recorded any more. What hands back its argument hands back what the program has of it.
void run_unrecorded(const c10::OperatorHandle& op, Stack& stack, size_t arguments) {
  const std::vector<c10::IValue> given(stack.end() - static_cast<std::ptrdiff_t>(arguments), stack.end());
  run_real(op, stack, arguments);
  const auto as_given = [&](const at::Tensor& real) {
    for (const c10::IValue& value : given)
      if (const Wrapper* w = value.isTensor() ? Wrapper::of(value.toTensor()) : nullptr; w && w->inner().is_same(real)) return value.toTensor();
    return real;
  };
  for (c10::IValue& result : std::span(stack).last(op.schema().returns().size())) replace_each_tensor(result, as_given);
}

void answer(Tape* tape, const c10::OperatorHandle& op, Stack& stack, size_t arguments) {
  if (tape && at::GradMode::is_enabled()) mirror_gradients(*tape, std::span(stack).last(arguments));
  if (!tape || !tape->live()) return run_unrecorded(op, stack, arguments);
  if (tape->lent.any()) tape->lent.take_in(*tape);
  OpPlan& plan = plan_of(op);
  tape->end_question(made_contiguous(plan, stack, arguments));
  if (!tape->live()) return run_unrecorded(op, stack, arguments);
  if (plan.pass) return run_real(op, stack, arguments);
  if (tape->on_device() && is_under_autocast(tape->recording.device)) {
    tape->refuse(Reason::device_autocast, plan.target);
    return run_unrecorded(op, stack, arguments);
  }
  if (autocast_applies(plan)) return run_autocast(op, stack);
  if (special(*tape, plan, op, stack)) return;
  if (plan.decompose) return decompose(*tape, plan, op, stack);
  record_one(*tape, plan, op, stack);
}

// Where nothing is recorded any more the program gets real tensors, and their addresses when it likes.
void hand_out(Tape& tape, std::span<const c10::IValue> results) {
  for (const c10::IValue& result : results) {
    each_tensor_of(result, [&](const at::Tensor& real) {
      if (real.defined() && !Wrapper::of(real)) tape.written.lend(real);
    });
  }
}

// What TorchScript's interpreter indexes with is a list of another type object, of the same meaning: nothing here would find the tensors in it.
void name_lists_as_usual(std::span<c10::IValue> arguments) {
  for (c10::IValue& argument : arguments) {
    if (!argument.isList() || argument.isTensorList() || argument.isOptionalTensorList()) continue;
    const auto type = argument.toList().elementType();
    const auto optional = type->cast<c10::OptionalType>();
    if (!optional || optional->getElementType()->kind() != c10::TypeKind::TensorType) continue;
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& item : argument.toListRef()) list.push_back(item.toOptional<at::Tensor>());
    argument = std::move(list);
  }
}

void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  if (t_listener != nullptr) return t_listener->on_op(op, *stack);
  const size_t arguments = op.schema().arguments().size();
  name_lists_as_usual(std::span(*stack).last(arguments));
  materialise(*stack, arguments);
  Tape* const tape = tape_for(*stack, arguments);
  // An inference mode that is let go behind its recording (an interrupt came into its `__exit__`) puts back the keys of its beginning.
  if (!tape && !t_silenced) c10::impl::tls_set_dispatch_key_included(kRecorderKey, false);
  const LeftOver left_over(tape, std::span(*stack).last(arguments));
  try {
    answer(tape, op, *stack, arguments);
    left_over.put_back(std::span(*stack).last(op.schema().returns().size()));
  } catch (...) {   // what made it raise, a size, a layout, a value, is not known: the program may catch it and go on
    if (tape && tape->live()) tape->refuse(Reason::caught_exception, op.schema().name() + " raised");
    throw;
  }
  if (tape && !tape->live()) hand_out(*tape, std::span(*stack).last(op.schema().returns().size()));
}

}  // namespace

void record_op(Tape& tape, const c10::OperatorHandle& op, Stack& stack) { record_one(tape, plan_of(op), op, stack); }

void run_unseen(const c10::OperatorHandle& op, Stack& stack) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
  op.callBoxed(stack);
}

OpListener* op_listener() { return t_listener; }
void set_op_listener(OpListener* listener) {
  t_silenced = listener == nullptr && t_listener != nullptr && c10::impl::tls_is_dispatch_key_included(kRecorderKey);
  t_listener = listener;
}
void set_materialise_hook(MaterialiseHook hook) { materialise_hook.store(hook, std::memory_order_release); }

const char* composite_in_progress() { return t_composite ? t_composite->name.c_str() : nullptr; }

c10::BoxedKernel fallback_kernel() { return c10::BoxedKernel::makeFromFunction<&on_op>(); }

void install_fallback() {
  static const auto library = [] {
    auto lib = std::make_unique<torch::Library>(torch::Library::IMPL, "_", kRecorderKey, __FILE__, static_cast<uint32_t>(__LINE__));
    lib->fallback(torch::CppFunction::makeFromBoxedFunction<&on_op>());
    return lib;
  }();
}

}  // namespace escapement
