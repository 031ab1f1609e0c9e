// What happens at every ATen call of a recording thread, in order: marks pass through; autocast kernels and composites call back
// into us; everything else runs on the real tensors and is then lowered. What a lowering claims is compared with what ATen
// returned; a claim that disagrees is taken back and the op recorded as a library call.
#include "torch/record/recorder_fallback.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <span>

#include "kernels/axes.h"
#include "support/error.h"
#include "support/limits.h"
#include "torch/record/asked_kinds.h"
#include "torch/record/copies.h"
#include "torch/record/device.h"
#include "torch/record/each_tensor.h"
#include "torch/record/einsum_labels.h"
#include "torch/record/forward.h"
#include "torch/record/gradient_mirror.h"
#include "torch/record/host_value.h"
#include "torch/record/lazy_bits.h"
#include "torch/record/left_over.h"
#include "torch/record/lower.h"
#include "torch/record/made_of_rows.h"
#include "torch/record/order_by_ones.h"
#include "torch/record/overlap.h"
#include "torch/record/seen_layout.h"
#include "torch/record/symnode.h"
#include "torch/record/unharmed.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

using Stack = torch::jit::Stack;

thread_local const OpPlan* t_composite = nullptr;  // outermost composite being recorded through its parts
thread_local OpListener* t_listener = nullptr;
std::atomic<MaterialiseHook> materialise_hook{nullptr};

// --- running

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

void go_on(Tape& tape, const OpPlan& plan, const c10::OperatorHandle& op, Stack& stack, size_t arguments);

// The arguments become real tensors and numbers; the op runs unseen.
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

void run_autocast(const c10::OperatorHandle& op, Stack& stack) {
  const KeepsNoCasts scope;
  op.callBoxedForDispatchKey(c10::DispatchKey::AutocastCPU, stack);
}

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

// Every tensor among real results, in order; `visit` may replace it.
template <class Visit>
void each_tensor(c10::IValue& v, Visit visit) {
  if (v.isTensor()) {
    v = visit(v.toTensor());
  } else if (v.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : v.toTensorVector()) out.push_back(visit(t));
    v = out;
  }
}

// --- checking

struct Mark {
  size_t instrs, values;
};

Mark mark(const Tape& tape) { return {tape.recording.trace.instrs.size(), tape.recording.trace.values.size()}; }

// Takes back the instructions since the mark. Guards stay (they can only be too strict), but for those that were to be tested
// after an instruction that is gone.
void take_back(Tape& tape, const Mark& m) {
  Trace& trace = tape.trace();
  trace.instrs.resize(m.instrs);
  trace.values.resize(m.values);
  std::erase_if(trace.guards, [&](const Guard& g) { return g.after && g.after.index >= m.instrs; });
  tape.forget(static_cast<uint32_t>(m.values));
}

bool sizes_agree(const OpCall& call, ValueId v, const at::Tensor& real) {
  const TensorType& type = call.type(v);
  if (type.rank() != real.dim() || type.dtype != dtype_of(real.scalar_type())) return false;
  for (int d = 0; d < type.rank(); ++d)
    if (call.table().hint(type.sizes[d]) != std::optional<int64_t>(real.size(d))) return false;
  return true;
}

// The stride of an axis of size 1 (or of an empty tensor) has no meaning; ATen itself computes it in several ways.
bool strides_agree(const OpCall& call, ValueId v, const at::Tensor& real) {
  const TensorType& type = call.type(v);
  if (real.numel() == 0) return true;
  for (int d = 0; d < type.rank(); ++d)
    if (real.size(d) != 1 && call.table().hint(type.strides[d]) != std::optional<int64_t>(real.stride(d))) return false;
  return true;
}

bool offset_agrees(const OpCall& call, ValueId v, const at::Tensor& real) {
  const TensorType& type = call.type(v);
  const auto offset = call.table().hint(type.offset);
  return real.numel() == 0 || (offset && call.tape.root_offset(type.root) + *offset == real.storage_offset());
}

// Does the value claim the same memory as the arguments that ATen's result really shares?
bool sharing_agrees(OpCall& call, ValueId v, const at::Tensor& real) {
  const Storage storage = call.type(v).storage;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const at::Tensor arg = call.real_at(static_cast<int>(i));
    const ValueId value = call.value_at(static_cast<int>(i));
    if (!value || !arg.defined() || !arg.has_storage()) continue;
    const bool really = arg.storage().is_alias_of(real.storage());
    const bool claimed = call.type(value).storage == storage;
    if (really == claimed) continue;
    if (!(really && call.may_share)) return false;
  }
  return true;
}

bool functional_agrees(OpCall& call) {
  if (call.results.size() != call.reals.size()) return false;
  for (size_t i = 0; i < call.results.size(); ++i) {
    const ValueId v = call.results[i];
    const at::Tensor& real = call.reals[i];
    if (!v || !real.defined()) {
      if (v || real.defined()) return false;
      continue;
    }
    if (!sizes_agree(call, v, real) || !strides_agree(call, v, real) || !sharing_agrees(call, v, real)) return false;
    if (call.type(v).storage != call.type(call.type(v).root).storage) return false;
    if (!call.may_share && !offset_agrees(call, v, real)) return false;
  }
  return true;
}

// --- storing the value of an in-place or out= form

bool owned_alone(const OpCall& call, const Wrapper& w) {
  const ValueId root = call.type(w.value()).root;
  return static_cast<bool>(call.tape.trace()[root].definition) && w.inner().storage().use_count() == 1;
}

bool same_layout(const OpCall& call, ValueId a, ValueId b) {
  const TensorType &x = call.type(a), &y = call.type(b);
  const DimTable& dims = call.table();
  if (x.rank() != y.rank() || x.dtype != y.dtype) return false;
  for (int d = 0; d < x.rank(); ++d)
    if (!dims.same(x.sizes[d], y.sizes[d]) || !dims.same(x.strides[d], y.strides[d])) return false;
  return true;
}

// 0-d constants are shared by the tape: nothing may be renamed to one, since it might be written later.
bool is_fresh(const OpCall& call, ValueId v, const Mark& m) {
  if (v.index < m.values || call.type(v).root != v) return false;
  const Instr& definition = call.tape.trace()[call.tape.trace()[v].definition];
  return !(definition.op == Op::full && call.rank(v) == 0);
}

// What is written in place may be broadcast; an out= argument has the result's sizes, or ATen gives it those.
bool is_as_large(OpCall& call, ValueId target, ValueId result) {
  if (call.plan.form != OpPlan::Form::out) return true;
  const std::vector<Dim> wanted = call.type(result).sizes, sizes = call.type(target).sizes;
  const auto agrees = [&](Dim a, Dim b) { return call.table().hint(a) == call.table().hint(b); };
  if (!std::equal(wanted.begin(), wanted.end(), sizes.begin(), sizes.end(), agrees)) return false;
  hold_same_sizes(call, wanted, sizes);
  return true;
}

// The wrapper's tensor now holds `v`: by renaming where nobody else can see its memory, else by a write.
bool store(OpCall& call, uint32_t argument, ValueId v, const at::Tensor& real, const Mark& m, bool resized) {
  Wrapper* w = Wrapper::of(call.args[argument].toTensor());
  const ValueId old = call.value_at(static_cast<int>(argument));
  call.tape.note_write(old);
  if (w && owned_alone(call, *w) && is_fresh(call, v, m) && sizes_agree(call, v, real) &&
      (resized ? strides_agree(call, v, real) : same_layout(call, old, v))) {
    if (resized) hold_resized(call, v, old);
    w->stand_for(v);
    return true;
  }
  if (resized || !is_as_large(call, old, v)) return false;
  call.build.write(old, v);
  return true;
}

bool values_agree(OpCall& call, const Mark& m, c10::IntArrayRef) {
  for (size_t i = 0; i < call.results.size(); ++i) {
    const ValueId v = call.results[i];
    if (!v || v.index < m.values) continue;
    // Broadcast into the target: only the target's own sizes are known for sure.
    if (call.rank(v) > call.reals[i].dim()) return false;
  }
  return call.results.size() == call.plan.writes.size();
}

bool store_all(OpCall& call, const Mark& m, const std::vector<std::vector<int64_t>>& before) {
  for (size_t i = 0; i < call.plan.writes.size(); ++i) {
    const uint32_t argument = call.plan.writes[i];
    const at::Tensor real = call.real_at(static_cast<int>(argument));
    const bool resized = real.sizes() != c10::IntArrayRef(before[argument]);
    if (!store(call, argument, call.results[i], real, m, resized)) return false;
  }
  return true;
}

// --- one op

class OneOp {
 public:
  OneOp(Tape& tape, const OpPlan& plan, const c10::OperatorHandle& op, Stack& stack)
      : tape_(tape), plan_(plan), op_(op), stack_(stack), count_(plan.schema->arguments().size()),
        args_(stack.end() - static_cast<std::ptrdiff_t>(count_), stack.end()), call_(tape, plan, args_) {}

  void run() {
    const ExitNotes::InsideOp inside(tape_.exits.get());
    unharmed(tape_, [&] { note_sizes(); });
    note_world();
    call_.draws = compute();
    first_result_ = stack_.size() - plan_.schema->returns().size();
    note_gradients();
    if (!tape_.live()) return;
    unharmed(tape_, [&] { append(); });
    if (tape_.trace().instrs.size() > limits::instructions_of_a_recording) tape_.refuse(Reason::recorder_refused, "the program runs more operators than one recording holds; compile one step of its loop");
    // Whether eager made a view shows, and the trace has copied.
    if (tape_.exits && call_.choice && !plan_.random && !call_.draws) tape_.exits->give_up();
    if (tape_.exits && tape_.live())
      tape_.exits->note(op_, plan_, args_, std::span(stack_).subspan(first_result_), call_.draws, tape_.trace());
  }

 private:
  // Whether it drew random numbers.
  bool compute() {
    if (tape_.forward && tape_.forward->active()) return tape_.forward->take(op_, stack_, count_);
    run_real(op_, stack_, count_);
    return tape_.world && tape_.world->after();
  }

  void append() {
    for (size_t i = first_result_; i < stack_.size(); ++i)
      each_tensor(stack_[i], [&](const at::Tensor& t) { call_.reals.push_back(t); return t; });
    if (!results_are_plain() || !numbers_fit()) return;
    ++tape_.recording.ops;
    tape_.builder.set_location(tape_.here());
    if (!returns_argument()) record();
    if (tape_.live()) hand_back();
  }

  bool results_are_plain() {
    for (const at::Tensor& real : call_.reals) {
      const bool plain = is_plain(real) || (is_lazy(real) && std::any_of(args_.begin(), args_.end(), is_recorded_lazy));   // a view of one
      if (!real.defined() || (plain && tape_.is_home(real))) continue;
      if (plain) tape_.refuse(Reason::device_mixed, plan_.target + " makes a tensor on " + real.device().str());
      else tape_.refuse(Reason::unsupported_tensor, plan_.target);
      return false;
    }
    return true;
  }

  static bool is_recorded_lazy(const c10::IValue& argument) {
    const Wrapper* const given = argument.isTensor() ? Wrapper::of(argument.toTensor()) : nullptr;
    return given != nullptr && is_lazy(given->inner());
  }

  // A trace's integers have 64 bits and a sign; Python's 2**63 is a number of torch's that has not.
  bool numbers_fit() {
    const auto too_large = [](const c10::IValue& value) {
      if (value.isScalar() || value.isUnsigned()) return value.toScalar().type() == c10::ScalarType::UInt64;
      return value.isTensor() && value.toTensor().defined() && value.toTensor().unsafeGetTensorImpl()->is_wrapped_number() &&
             value.toTensor().scalar_type() == c10::ScalarType::UInt64;
    };
    if (std::none_of(args_.begin(), args_.end(), too_large)) return true;
    tape_.refuse(Reason::recorder_refused, plan_.target + " of a number that needs more than 63 bits");
    return false;
  }

  void note_world() {
    if (!tape_.world) return;
    const std::string changed = tape_.world->before(args_);
    if (changed.empty()) return;
    tape_.refuse(Reason::state_changed, changed);
    tape_.recording.unknown_generators = tape_.world->unknown();
  }

  // Sizes of written arguments, to see whether the op changed them.
  void note_sizes() {
    if (plan_.writes.empty() || !tape_.live()) return;
    before_.resize(count_);
    for (const uint32_t w : plan_.writes)
      if (const at::Tensor t = call_.real_at(static_cast<int>(w)); is_plain(t)) before_[w] = t.sizes().vec();
  }

  // A tape of gradients has begun here, under the recording's: from now on the program gets real tensors.
  void note_gradients() {
    if (!requires_gradient(std::span(stack_).subspan(first_result_))) return;
    tape_.refuse(Reason::gradient, plan_.target + " was applied to what requires gradients");
    mirror_gradients(tape_, args_);
  }

  // A functional op of ATen's that returned an argument itself did nothing; unless it might copy at other sizes.
  bool returns_argument() {
    if (plan_.base.empty() || plan_.lower || !plan_.writes.empty() || call_.reals.size() != 1 || plan_.random || call_.draws) return false;
    return argument_index(call_.reals[0]).has_value();
  }

  std::optional<size_t> argument_index(const at::Tensor& real) const {
    for (size_t i = 0; i < count_; ++i)
      if (args_[i].isTensor() && call_.real_at(static_cast<int>(i)).is_same(real)) return i;
    return {};
  }

  void record() {
    if (plan_.host_result) {
      tape_.refuse(Reason::recorder_refused, plan_.target + " returns a value to the host");
      return;
    }
    if (plan_.metadata && plan_.base == "detach") return leave_graph();
    if (keeps_its_sizes()) return;
    if (changes_too_much() || writes_unknown_sizes()) return;
    hold_written_sizes();
    if (plan_.pointwise && plan_.writes.empty()) hold_ones_that_decide(call_);
    const Mark m = mark(tape_);
    if (lowered(m)) return note_choice();
    take_back(tape_, m);
    if (looks_beyond()) return;
    if (!plan_.lower && !plan_.metadata) hold_overlaps(call_);
    call_.may_share = false;
    if (call_.choice && call_.choice->copies) call_.choice->atens = true;
    record_call(call_);
    if (plan_.base.empty()) keep_arguments();
    if (plan_.pointwise && plan_.writes.empty() && tape_.live()) hold_seen_layout(call_);
    note_choice();
    refresh_written();
  }

  // What an operator of somebody else's hands back stays the tensor that it was.
  void keep_arguments() {
    for (size_t i = 0; i < call_.results.size(); ++i)
      if (const auto argument = argument_index(call_.reals[i])) call_.results[i] = call_.value_at(static_cast<int>(*argument));
  }

  void note_choice() {
    if (!call_.choice || !tape_.live()) return;
    tape_.choices.note(call_.results[0], *call_.choice);
    if (std::any_of(args_.begin(), args_.end(), is_recorded_lazy)) tape_.choices.asked_kind(call_.results[0]);   // a view has the bit, a copy has not
  }

  // There is no tape to leave, and it stays the same tensor; eager refuses that of views.
  void leave_graph() {
    if (const Wrapper* const wrapper = Wrapper::of(args_[0].toTensor())) ask_view(*wrapper);
  }

  bool lowered(const Mark& m) {
    if (!plan_.lower || call_.draws) return false;  // no row of ours draws random numbers
    if (has_many_dims()) return call_.decline(Reason::call_rank);
    if (plan_.form != OpPlan::Form::functional && !plan_.metadata && may_overlap(call_)) return call_.decline(Reason::call_overlap);
    call_.why = Reason::call_attribute;
    try {
      if (!plan_.lower(call_)) return false;
      if (writes_foreign()) return call_.decline(Reason::call_dtype);
      call_.why = Reason::call_rule_disagreed;
      if (plan_.writes.empty()) return functional_agrees(call_) && (hold_seen_layout(call_), true);
      if (plan_.metadata) return rename_metadata();
      return values_agree(call_, m, {}) && store_all(call_, m, before_);
    } catch (const UserError&) {
      call_.why = Reason::call_rule_disagreed;  // ATen accepted it: our rule is wrong
    } catch (const InternalError&) {
      call_.why = Reason::call_rule_disagreed;
    }
    return false;
  }

  // What is asked for by out= may have a dtype that no kernel of ours writes, whatever the operands have.
  bool writes_foreign() const {
    const auto is_foreign = [](const at::Tensor& real) { return real.defined() && dtype_of(real.scalar_type()) == DType::other; };
    return plan_.form == OpPlan::Form::out && std::any_of(call_.reals.begin(), call_.reals.end(), is_foreign);
  }

  bool has_many_dims() const {
    const auto many = [](const at::Tensor& real) { return real.defined() && real.dim() > AxisList::kMax; };
    const auto many_of = [&](ValueId value) { return value && call_.rank(value) > AxisList::kMax; };
    return std::any_of(call_.reals.begin(), call_.reals.end(), many) || std::any_of(call_.values.begin(), call_.values.end(), many_of);
  }

  // Nothing in a trace says that a tensor of the caller's has another shape afterwards, nor that any tensor has other memory; and none says that
  // a number is written (`torch.add(x, y, out=0)`).
  bool changes_too_much() {
    for (const uint32_t argument : plan_.writes) {
      const at::Tensor real = call_.real_at(static_cast<int>(argument));
      if (!real.defined()) continue;
      if (args_[argument].isTensor() && is_wrapped_number(args_[argument].toTensor())) {
        tape_.refuse(Reason::recorder_refused, plan_.target + " into a number");
        return true;
      }
      const bool replaced = plan_.metadata && plan_.lower == nullptr;
      const bool reshaped = plan_.metadata || real.sizes() != c10::IntArrayRef(before_[argument]);
      if (!replaced && !(reshaped && tape_.is_given(real))) continue;
      tape_.refuse(Reason::argument_reshaped, plan_.target);
      return true;
    }
    return false;
  }

  // `resize_` to the sizes that there are does nothing.
  bool keeps_its_sizes() {
    const ValueId self = plan_.base == "resize" && plan_.form == OpPlan::Form::in_place ? call_.value_at(0) : ValueId();
    if (!self || call_.given("memory_format") || call_.real_at(0).sizes() != c10::IntArrayRef(before_[0])) return false;
    const std::vector<Dim> had = call_.type(self).sizes, wanted = call_.lengths("size");
    for (size_t i = 0; i < had.size(); ++i) tape_.guard_relation(Guard::Kind::equal, had[i], wanted[i], true, "resize_ to the sizes that there are");
    return call_.done(self);
  }

  // How much it writes is known only when it has run, and by then a result of other sizes has been written over what was there.
  bool writes_unknown_sizes() {
    if (plan_.form != OpPlan::Form::out || plan_.sizes != nullptr || plan_.pointwise || plan_.lower != nullptr) return false;
    tape_.refuse(Reason::argument_reshaped, plan_.target + " into a tensor of the program");
    return true;
  }

  // How large a storage is that the program did not get from its caller is ATen's business, and what lies behind a tensor's elements is
  // not ours to give.
  bool looks_beyond() {
    if (!plan_.base.starts_with("as_strided")) return false;
    const ValueId self = call_.value("self");
    if (!self || !tape_.trace()[call_.type(self).root].definition) return false;
    tape_.refuse(Reason::storage_access, plan_.target + " beyond what a tensor of the program's own holds");
    return true;
  }

  // The one operator that makes what it writes in place fit.
  void hold_written_sizes() {
    if (plan_.base != "addbmm" || plan_.form != OpPlan::Form::in_place || plan_.writes.empty()) return;
    const ValueId written = call_.value_at(0), rows = call_.value("batch1"), columns = call_.value("batch2");
    if (!written || !rows || !columns || call_.rank(written) != 2) return;
    const auto same = [&](Dim a, Dim b) { tape_.guard_relation(Guard::Kind::equal, a, b, true, "addbmm_ into a tensor of the product's sizes"); };
    same(call_.type(written).sizes[0], call_.type(rows).sizes[1]);
    same(call_.type(written).sizes[1], call_.type(columns).sizes[2]);
  }

  // unsqueeze_ and the like: the wrapper stands for another view of the same memory.
  bool rename_metadata() {
    Wrapper* w = Wrapper::of(args_[plan_.writes[0]].toTensor());
    if (!w || call_.results.size() != 1) return false;
    const at::Tensor& real = w->inner();
    if (!sizes_agree(call_, call_.results[0], real) || !strides_agree(call_, call_.results[0], real)) return false;
    tape_.choices.renamed(w->value());
    w->stand_for(call_.results[0]);
    return true;
  }

  // A library call that changed the metadata of what it wrote: when the program runs, that is memory of ours, which does not grow.
  void refresh_written() {
    for (size_t r = 0; r < plan_.returned.size() && r < call_.results.size(); ++r) {
      if (plan_.returned[r] < 0) continue;
      const uint32_t argument = static_cast<uint32_t>(plan_.returned[r]);
      const at::Tensor real = call_.real_at(static_cast<int>(argument));
      if (!plan_.metadata && real.sizes() == c10::IntArrayRef(before_[argument])) continue;
      return tape_.refuse(Reason::argument_reshaped, plan_.target);
    }
  }

  // The program gets wrappers: its own argument where the op returns it, else new ones.
  void hand_back() {
    size_t result = 0;
    size_t schema_result = 0;
    for (size_t i = first_result_; i < stack_.size(); ++i, ++schema_result) {
      const int returned = plan_.returned.empty() ? -1 : plan_.returned[schema_result];
      each_tensor(stack_[i], [&](const at::Tensor& real) { return wrap(real, result++, returned); });
    }
  }

  at::Tensor wrap(const at::Tensor& real, size_t result, int returned) {
    if (!real.defined()) return real;
    if (returned >= 0 && args_[returned].isTensor()) return args_[returned].toTensor();
    if (const auto arg = argument_index(real); arg && (call_.results.empty() || call_.results[result] == call_.value_at(static_cast<int>(*arg))))
      return args_[*arg].toTensor();
    if (result >= call_.results.size()) return real;
    const at::Tensor made = Wrapper::make(real, tape_.shared_from_this(), call_.results[result]);
    if (real.is_view()) note_view(*Wrapper::of(made), real._base());
    return made;
  }

  // The tensor of the program that the view is of: an argument of the operator, or what that is a view of.
  void note_view(Wrapper& view, const at::TensorBase& real) {
    watch_kind(view);
    for (const c10::IValue& argument : args_) {
      const Wrapper* const given = argument.isTensor() ? Wrapper::of(argument.toTensor()) : nullptr;
      if (!given) continue;
      const Wrapper* const base = given->inner().is_same(real) ? given : Wrapper::of(given->base());
      if (base && base->inner().is_same(real)) return view.set_base(base == given ? argument.toTensor() : given->base());
    }
  }

  Tape& tape_;
  const OpPlan& plan_;
  const c10::OperatorHandle& op_;
  Stack& stack_;
  size_t count_;
  std::vector<c10::IValue> args_;
  OpCall call_;
  size_t first_result_ = 0;
  std::vector<std::vector<int64_t>> before_;
};

void record_one(Tape& tape, const OpPlan& plan, const c10::OperatorHandle& op, Stack& stack) {
  std::optional<OneOp> one;
  unharmed(tape, [&] { one.emplace(tape, plan, op, stack); });
  if (one) one->run();
  else run_real(op, stack, plan.schema->arguments().size());
}

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
  for (c10::IValue& result : std::span(stack).last(op.schema().returns().size())) each_tensor(result, as_given);
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
void set_op_listener(OpListener* listener) { t_listener = listener; }
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
