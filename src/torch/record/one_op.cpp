// See one_op.h.
#include "torch/record/one_op.h"

#include <algorithm>
#include <optional>
#include <span>

#include "kernels/axes.h"
#include "support/error.h"
#include "support/limits.h"
#include "torch/record/agreement.h"
#include "torch/record/asked_kinds.h"
#include "torch/record/each_tensor.h"
#include "torch/record/forward.h"
#include "torch/record/gradient_mirror.h"
#include "torch/record/host_value.h"
#include "torch/record/order_by_ones.h"
#include "torch/record/overlap.h"
#include "torch/record/run_real.h"
#include "torch/record/seen_layout.h"
#include "torch/record/unharmed.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

using Stack = torch::jit::Stack;

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
    if (tape_.trace().instrs.size() > limits::instructions_of_a_recording)
      tape_.refuse(Reason::recorder_refused, "the program runs more operators than one recording holds; compile one step of its loop");
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
      replace_each_tensor(stack_[i], [&](const at::Tensor& t) { call_.reals.push_back(t); return t; });
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
      return values_agree(call_, m) && store_all(call_, m, before_);
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
      replace_each_tensor(stack_[i], [&](const at::Tensor& real) { return wrap(real, result++, returned); });
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

}  // namespace

void record_one(Tape& tape, const OpPlan& plan, const c10::OperatorHandle& op, Stack& stack) {
  std::optional<OneOp> one;
  unharmed(tape, [&] { one.emplace(tape, plan, op, stack); });
  if (one) one->run();
  else run_real(op, stack, plan.schema->arguments().size());
}

}  // namespace escapement
