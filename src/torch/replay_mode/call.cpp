// See call.h. Operators as they come.
#include "torch/replay_mode/call.h"

#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "support/error.h"
#include "support/events.h"
#include "torch/record/recorder_tape.h"
#include "torch/replay_mode/held.h"
#include "torch/replay_mode/host_memory.h"
#include "torch/replay_mode/patterns.h"

namespace escapement {
namespace {

std::span<c10::IValue> arguments_on(torch::jit::Stack& stack, const c10::OperatorHandle& op) {
  const size_t count = op.schema().arguments().size();
  return {stack.data() + (stack.size() - count), count};
}

const c10::IValue* find_argument(const OpPlan& plan, std::span<const c10::IValue> arguments, std::string_view name) {
  const auto& formals = plan.schema->arguments();
  for (size_t i = 0; i < formals.size() && i < arguments.size(); ++i)
    if (formals[i].name() == name) return &arguments[i];
  return nullptr;
}

// Attention without dropout draws nothing.
bool draws(const OpPlan& plan, std::span<const c10::IValue> arguments) {
  if (plan.base != "scaled_dot_product_attention") return plan.random;
  const c10::IValue* const rate = find_argument(plan, arguments, "dropout_p");
  return rate == nullptr || !rate->isDouble() || rate->toDouble() != 0;
}

// Outside training it hands back its argument, which its own body says best.
bool is_idle_dropout(const OpPlan& plan, std::span<const c10::IValue> arguments) {
  if (plan.base != "dropout" && plan.base != "feature_dropout") return false;
  const c10::IValue* const train = find_argument(plan, arguments, "train");
  return plan.writes.empty() && train != nullptr && train->isBool() && !train->toBool();
}

// It hands back its argument where that has the layout already.
bool changes_format(const OpPlan& plan, std::span<const c10::IValue> arguments) {
  if (plan.base != "to" && plan.base != "contiguous") return false;
  const c10::IValue* const given = find_argument(plan, arguments, "memory_format");
  if (given == nullptr || !given->isInt()) return false;
  const auto format = static_cast<c10::MemoryFormat>(given->toInt());
  return format != c10::MemoryFormat::Preserve && (plan.base == "to" || format != c10::MemoryFormat::Contiguous);
}

// Integer division by zero is an error that depends on values.
bool divides_integers(const OpPlan& plan, std::span<const c10::IValue> arguments) {
  static constexpr std::string_view names[] = {"div", "divide", "floor_divide", "remainder", "fmod", "pow", "true_divide"};
  if (std::find(std::begin(names), std::end(names), plan.base) == std::end(names)) return false;
  bool integers = true;
  for (const c10::IValue& v : arguments)
    each_tensor_of(v, [&](const at::Tensor& t) {
      integers = integers && (!t.defined() || c10::isIntegralType(t.scalar_type(), true));
    });
  return integers;
}

}  // namespace

void ReplayCall::Lock::let_go() {
  const std::vector<at::Tensor> tensors = std::exchange(call_.letting_go_, {});
  const std::unique_ptr<SegmentRecorder> recorder = std::move(call_.old_recorder_);
  call_.busy_.store(false, std::memory_order_release);
}

ReplayCall::ReplayCall(StreamTree& tree) : tree_(tree) {}

void ReplayCall::begin() {
  forget_host_memory();
  root_ = cursor_ = nullptr;
  adopt_state();
}

ReplayCall::~ReplayCall() = default;

// --- the state of torch

bool ReplayCall::adopt_state() {
  if (root_ != nullptr && same_state(c10::impl::tls_local_dispatch_key_set())) return false;
  if (!segment_.empty() || recorder_) flush();
  const auto tls = c10::impl::tls_local_dispatch_key_set();
  included_ = tls.included_.raw_repr() & ~kOwn;
  excluded_ = tls.excluded_.raw_repr() | c10::autocast_dispatch_keyset.raw_repr();
  dtype_ = c10::get_default_dtype();
  float_mode_ = float_mode();
  root_ = cursor_ = tree_.root(included_, excluded_, dtype_);
  return true;
}

bool ReplayCall::mode_active() const { return (included_ & ~c10::default_included_set.raw_repr()) != 0; }

// --- one operator

void ReplayCall::on_op(const c10::OperatorHandle& op, Stack& stack) {
  if (may_match()) [[likely]] {
    const Lock lock(*this);
    const size_t count = op.schema().arguments().size();
    if (StreamNode* node = segment_.match(*cursor_, op, stack.data() + (stack.size() - count), false)) {
      return accept(*node, stack, count);
    }
  }
  slow_op(op, stack);
}

bool ReplayCall::is_of_segment(const at::Tensor& tensor) const {
  if (recorder_) return segment_.is_produced(tensor.unsafeGetTensorImpl());
  const Deferred* deferred = Deferred::of(tensor.unsafeGetTensorImpl());
  return deferred && deferred->call() == this;
}

bool ReplayCall::is_deferrable(const c10::OperatorHandle& op, const OpPlan& plan,
                               std::span<const c10::IValue> arguments) const {
  if (!plan.lower || draws(plan, arguments) || plan.host_result || plan.metadata || plan.form == OpPlan::Form::out) return false;
  static constexpr std::string_view never[] = {"lift_fresh", "lift", "_assert_scalar", "_local_scalar_dense", "dropout",
                                               "feature_dropout"};
  if (std::find(std::begin(never), std::end(never), plan.base) != std::end(never)) return false;
  if (tree_.is_refused(op) || !can_describe(plan, arguments) || divides_integers(plan, arguments)) return false;
  if (changes_format(plan, arguments)) return false;
  // Factories of tensors on a device; operators on such tensors run at once anyway.
  if (std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& v) { return v.isDevice() && !v.toDevice().is_cpu(); })) return false;
  bool plain = true;
  for (const c10::IValue& v : arguments)
    each_tensor_of(v, [&](const at::Tensor& t) {
      plain = plain && (!t.defined() || !wants_gradient(*t.unsafeGetTensorImpl()));
    });
  return plain;
}

void ReplayCall::slow_op(const c10::OperatorHandle& op, Stack& stack) {
  const OpPlan& plan = plan_of(op);
  if (plan.pass) return run_unseen(op, stack);
  const auto arguments = arguments_on(stack, op);
  bool gradient = false, plain = true;
  for (const c10::IValue& v : arguments) {
    each_tensor_of(v, [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
      Deferred* const deferred = Deferred::of(&impl);
      if (deferred && deferred->call() != this) static_cast<void>(deferred->has_storage());  // of another thread, or lost
      gradient = gradient || wants_gradient(impl);
      plain = plain && (is_plain_tensor(impl) || (deferred && deferred->call() == this) || impl.is_wrapped_number());
    });
  }
  {
    const Lock lock(*this);
    adopt_state();
  }
  if (mode_active() || gradient || !plain || plan.host_result) return run_at_once(op, plan, stack);
  const auto excluded = c10::impl::tls_local_dispatch_key_set().excluded_;
  if (plan.autocast && !autocast_is_off(excluded) && at::autocast::is_autocast_enabled(at::kCPU)) {
    return op.callBoxedForDispatchKey(c10::DispatchKey::AutocastCPU, stack);
  }
  if (plan.decompose || is_idle_dropout(plan, arguments)) return op.callBoxedForDispatchKey(plan.parts, stack);
  if (is_deferrable(op, plan, arguments) && match_or_record(op, plan, stack)) return;
  run_at_once(op, plan, stack);
}

void ReplayCall::run_at_once(const c10::OperatorHandle& op, const OpPlan& plan, Stack& stack) {
  bool ends = !plan.writes.empty() || plan.base.empty() || mode_active();
  for (const c10::IValue& v : arguments_on(stack, op))
    each_tensor_of(v, [&](const at::Tensor& t) { ends = ends || (t.defined() && is_of_segment(t)); });
  if (ends) end_segment();
  if (!plan.host_result) tree_.note(Reason::ran_at_once, plan.name);
  run_unseen(op, stack);
  if (plan.base.starts_with("empty") || plan.base.starts_with("new_empty")) note_host_memory(stack.back().toTensor().storage());
}

// False: the operator must run at once after all.
bool ReplayCall::match_or_record(const c10::OperatorHandle& op, const OpPlan& plan, Stack& stack) {
  const Lock lock(*this);
  const size_t count = plan.schema->arguments().size();
  const auto match = [&] { return segment_.match(*cursor_, op, stack.data() + (stack.size() - count), false); };
  if (!recorder_) {
    if (StreamNode* node = match()) return accept(*node, stack, count), true;
  }
  if (!tree_.may_grow(*cursor_) && cursor_ != root_) {
    tree_.note(Reason::too_many_branches);
    flush();
    if (StreamNode* node = match()) return accept(*node, stack, count), true;
  }
  if (!tree_.may_grow(*cursor_)) return tree_.note(Reason::too_many_branches), false;
  if (tree_.has_fixed_numbers(number_use(plan, arguments_on(stack, op))) && too_many_numbers(op, plan, stack)) return tree_.note(Reason::too_many_branches), false;
  record(op, plan, stack);
  return true;
}

// --- matched

void ReplayCall::accept(StreamNode& node, Stack& stack, size_t count) {
  segment_.accept(node);
  cursor_ = &node;
  const c10::IValue* const arguments = stack.data() + (stack.size() - count);
  for (const uint32_t written : node.bumped)
    if (arguments[written].isTensor()) note_write(arguments[written].toTensor().unsafeGetTensorImpl());
  if (node.results.size() == 1) [[likely]] {
    c10::IValue result = hand(node.results[0], arguments, node);
    torch::jit::drop(stack, count);
    stack.push_back(std::move(result));
  } else {
    std::vector<c10::IValue> results;
    for (const Handed& handed : node.results) results.push_back(hand(handed, arguments, node));
    torch::jit::drop(stack, count);
    for (c10::IValue& result : results) stack.push_back(std::move(result));
  }
  if (node.ends) flush();
}

c10::IValue ReplayCall::hand(const Handed& handed, const c10::IValue* arguments, const StreamNode& node) {
  switch (handed.kind) {
    case Handed::Kind::produced: {
      const Produced& type = node.produced[handed.index - (node.extent.produced - node.produced.size())];
      return defer(type, type.view_of < 0 ? nullptr : arguments[type.view_of].toTensor().unsafeGetTensorImpl());
    }
    case Handed::Kind::argument: return arguments[handed.index];
    case Handed::Kind::none: return at::Tensor();
    case Handed::Kind::list: break;
  }
  c10::List<at::Tensor> list;
  for (const Handed& item : handed.items) list.push_back(hand(item, arguments, node).toTensor());
  return list;
}

at::Tensor ReplayCall::hand_one(const StreamNode& node, const c10::TensorImpl* const* operands) {
  for (const uint32_t written : node.bumped)
    if (operands[written]) note_write(operands[written]);
  const Handed& handed = node.results[0];
  if (handed.kind == Handed::Kind::argument) {
    auto* const argument = const_cast<c10::TensorImpl*>(operands[handed.index]);
    return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(argument));
  }
  const Produced& type = node.produced[0];
  return defer(type, type.view_of < 0 ? nullptr : operands[type.view_of]);
}

bool ReplayCall::shape_of(const Produced& type, KnownLayout& layout, bool& exact) {
  const Lock lock(*this);
  if (!type.evaluate(segment_.table(), layout.sizes)) return false;
  exact = type.holds_for(layout.sizes);
  if (!exact) {
    EagerLayouts layouts(segment_, pending_);
    if (const KnownLayout* known = layouts.of(type.number)) return layout = *known, exact = true;
  }
  return type.evaluate_layout(segment_.table(), layout.sizes, layout.strides, layout.offset);
}

void ReplayCall::end_segment() {
  const Lock lock(*this);
  flush();
}

void ReplayCall::end_segment_exactly() {
  const Lock lock(*this);
  exactly_ = true;
  try {
    flush();
  } catch (...) {
    exactly_ = false;
    throw;
  }
  exactly_ = false;
}

}  // namespace escapement
