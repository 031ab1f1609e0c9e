// See segment_recorder.h.
#include "torch/replay_mode/segment_recorder.h"

#include <algorithm>

#include "support/error.h"
#include "support/limits.h"
#include "torch/program/host.h"
#include "torch/record/recorder_fallback.h"
#include "torch/record/symnode.h"
#include "torch/record/wrapper.h"
#include "torch/replay_mode/held.h"
#include "torch/replay_mode/patterns.h"

namespace escapement {
namespace {

using Kind = Pattern::Kind;

// Their errors depend on values, or (attention: batches, heads, masks) on more than our size rules ask. Eager raises them at once.
bool raises_on_values(const OpPlan& plan) {
  static constexpr std::string_view names[] = {"embedding", "index_select", "gather", "index", "scaled_dot_product_attention"};
  return std::find(std::begin(names), std::end(names), plan.base) != std::end(names);
}

}  // namespace

SegmentRecorder::SegmentRecorder(const std::string& name) : recorder_(name) { recorder_.tape()->host_looks = true; }
SegmentRecorder::~SegmentRecorder() = default;

bool SegmentRecorder::live() const { return recorder_.tape()->live(); }
const std::string& SegmentRecorder::refused_detail() const { return recorder_.tape()->recording.refused_detail; }
Reason SegmentRecorder::refused() const { return recorder_.tape()->recording.refused.value_or(Reason::recorder_refused); }

// --- arguments

c10::IValue SegmentRecorder::fresh(const Pattern& pattern, const at::Tensor& real) {
  std::vector<Dim> sizes;
  for (const int64_t size : real.sizes()) sizes.push_back(recorder_.dims().new_symbol(SymbolKind::size, {}, size));
  places_.push_back({SegmentInput::Kind::tensor, pattern.slot, static_cast<uint32_t>(real.dim()), pattern.form.contiguous});
  const bool parameter = real.requires_grad() && pattern.form.contiguous;
  const std::string name = "x" + std::to_string(pattern.index);
  externals_.push_back(recorder_.tensor(real, std::move(sizes), name, parameter));
  return externals_.back();
}

c10::SymInt SegmentRecorder::integer(const Pattern& pattern, int64_t value) {
  const bool negative = pattern.kind == Kind::negative;
  DimTable& dims = recorder_.dims();
  const Dim dim = recorder_.integer(negative ? -value : value, "n" + std::to_string(pattern.index));
  places_.push_back({SegmentInput::Kind::integer, pattern.index, 0, true});
  // What the matcher has seen to. A number among others may have either sign.
  if (pattern.kind != Kind::any_number) dims.assume_range(dim, {negative ? 2 : 0, Range::kMax});
  return recorder_.as_symint(negative ? dims.neg(dim) : dim);
}

c10::SymNode SegmentRecorder::real_node(const Pattern& pattern, double value) {
  const at::Tensor real = new_tensor({}, {}, caffe2::TypeMeta::Make<double>());
  *static_cast<double*>(real.unsafeGetTensorImpl()->unsafe_storage().mutable_data()) = value;
  places_.push_back({SegmentInput::Kind::real, pattern.index, 0, true});
  const at::Tensor wrapper = recorder_.tensor(real, "number");
  FloatExpr expr;
  expr.kind = FloatExpr::Kind::value;
  expr.hint = value;
  expr.value = Wrapper::of(wrapper)->value();
  return Node::real(recorder_.tape(), std::make_shared<const FloatExpr>(std::move(expr)));
}

c10::IValue SegmentRecorder::number(const Pattern& pattern, const at::Tensor& wrapped) {
  const c10::IValue value = number_in(*wrapped.unsafeGetTensorImpl());
  // A tensor of its own: the program may use one for several operators.
  const at::Tensor twin = wrap_scalar(value.toScalar());
  c10::SymNode node;
  if (pattern.integer) {
    const c10::SymInt symbolic = integer(pattern, value.toInt());
    if (!symbolic.is_heap_allocated()) return twin;
    node = symbolic.toSymNode();
  } else {
    node = real_node(pattern, value.toDouble());
  }
  numbers_.push_back(std::make_unique<SymbolicNumber>(twin, std::move(node)));
  return twin;
}

c10::IValue SegmentRecorder::substitute_list(const Pattern& pattern, const c10::IValue& value) {
  if (value.isIntList()) {
    std::vector<c10::SymInt> out;
    const std::vector<int64_t> list = value.toIntVector();
    for (size_t i = 0; i < list.size(); ++i) out.push_back(substitute(pattern.items[i], list[i]).toSymInt());
    return c10::IValue(c10::SymIntArrayRef(out));
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> out;
    const std::vector<at::Tensor> list = value.toTensorVector();
    for (size_t i = 0; i < list.size(); ++i) out.push_back(substitute(pattern.items[i], list[i]).toTensor());
    return out;
  }
  c10::List<std::optional<at::Tensor>> out;
  const auto list = value.toOptionalTensorVector();
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].has_value()) out.push_back(substitute(pattern.items[i], *list[i]).toTensor());
    else out.push_back(std::nullopt);
  }
  return out;
}

c10::IValue SegmentRecorder::substitute(const Pattern& pattern, const c10::IValue& value) {
  switch (pattern.kind) {
    case Kind::produced: return wrappers_[pattern.index];
    case Kind::known: return externals_[pattern.index];
    case Kind::fresh: return fresh(pattern, value.toTensor());
    case Kind::integer:
    case Kind::negative: return integer(pattern, value.toInt());
    case Kind::any_number: return number(pattern, value.toTensor());
    case Kind::any_real: return c10::IValue(c10::Scalar(c10::SymFloat(real_node(pattern, value.toDouble()))));
    case Kind::list: return substitute_list(pattern, value);
    default: return value;
  }
}

// --- running

void SegmentRecorder::run(const StreamNode& node, torch::jit::Stack& stack, const Segment&) {
  const size_t count = node.arguments.size(), first = stack.size() - count;
  originals_.assign(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end());
  arguments_.clear();
  Tape& tape = *recorder_.tape();
  const bool recording = tape.live();
  for (size_t i = 0; i < count; ++i) {
    if (recording) stack[first + i] = substitute(node.arguments[i], originals_[i]);
    arguments_.push_back(stack[first + i]);
  }
  first_instr_ = tape.trace().instrs.size();
  if (recording) record_op(tape, node.op, stack);
  else run_unseen(node.op, stack);
  while (!numbers_.empty()) numbers_.pop_back();
  if (recording) count_writes(plan_of(node.op));
  take_results(node, stack);
  if (!node.number_checks.empty()) drop_what_is_said(node);
  for (const Produced& type : node.produced) note_laid(node, type);   // none yet of a node that is new
}

void SegmentRecorder::take_results(const StreamNode& node, torch::jit::Stack& stack) {
  const OpPlan& plan = plan_of(node.op);
  const size_t results = plan.schema->returns().size(), first = stack.size() - results;
  first_produced_ = produced_.size();
  handed_.clear();
  for (size_t i = 0; i < results; ++i) {
    const int returned = plan.returned.empty() ? -1 : plan.returned[i];
    handed_.push_back(handed(stack[first + i], returned));
    stack[first + i] = take(stack[first + i], returned);
  }
}

Handed SegmentRecorder::handed(const c10::IValue& result, int returned) {
  Handed out;
  if (result.isTensorList()) {
    out.kind = Handed::Kind::list;
    for (const at::Tensor& tensor : result.toTensorVector()) out.items.push_back(handed(tensor, -1));
    return out;
  }
  if (!result.isTensor() || !result.toTensor().defined()) return out;
  for (size_t i = 0; returned < 0 && i < arguments_.size(); ++i)
    if (arguments_[i].isTensor() && arguments_[i].toTensor().is_same(result.toTensor())) returned = static_cast<int>(i);
  out.kind = returned >= 0 ? Handed::Kind::argument : Handed::Kind::produced;
  out.index = returned >= 0 ? static_cast<uint32_t>(returned) : static_cast<uint32_t>(wrappers_.size());
  if (returned >= 0) return out;
  const Wrapper* wrapper = Wrapper::of(result.toTensor());
  if (wrapper == nullptr) recorder_.tape()->refuse(Reason::recorder_refused, "a result that the recorder does not know");
  else if (!is_plain_tensor(*wrapper->inner().unsafeGetTensorImpl()))
    recorder_.tape()->refuse(Reason::recorder_refused, "a result that is no plain strided CPU tensor");
  wrappers_.push_back(result.toTensor());
  produced_.push_back(wrapper ? wrapper->inner() : result.toTensor());
  held_.emplace_back();
  if (wrapper != nullptr) share_counter(*wrapper);
  name_base(produced_.back());
  return out;
}

// Does the program hold another tensor for what the operator was given (see `hold`), which counts its writes by itself? What has memory from
// outside counts with that.
bool SegmentRecorder::is_other_name(const at::Tensor& argument, const at::Tensor& original) const {
  const Wrapper* const wrapper = argument.defined() ? Wrapper::of(argument) : nullptr;
  if (wrapper == nullptr || !wrapper->value() || wrapper->inner().is_same(original) || original.is_inference()) return false;
  return !offset_slot(recorder_.tape()->trace().type(wrapper->value()).root);
}

void SegmentRecorder::count_write(const at::Tensor& argument, const at::Tensor& original) const {
  if (is_other_name(argument, original)) original.unsafeGetTensorImpl()->bump_version();
}

void SegmentRecorder::count_writes(const OpPlan& plan) const {
  for (const uint32_t written : plan.writes) {
    const c10::IValue &argument = arguments_[written], &original = originals_[written];
    if (argument.isTensor()) count_write(argument.toTensor(), original.toTensor());
    if (!argument.isTensorList()) continue;
    const auto arguments = argument.toTensorVector(), originals = original.toTensorVector();
    for (size_t i = 0; i < arguments.size(); ++i) count_write(arguments[i], originals[i]);
  }
}

// A view of what the program holds under another name counts with that.
void SegmentRecorder::share_counter(const Wrapper& result) const {
  const Trace& trace = recorder_.tape()->trace();
  if (!result.value() || result.inner().is_inference()) return;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (!arguments_[i].isTensor() || !is_other_name(arguments_[i].toTensor(), originals_[i].toTensor())) continue;
    const ValueId operand = Wrapper::of(arguments_[i].toTensor())->value();
    if (trace.type(operand).storage == trace.type(result.value()).storage) return count_with(result.inner(), originals_[i].toTensor());
  }
}

// What the program calls the base of a new view, where that is another tensor than the one it was computed from.
void SegmentRecorder::name_base(const at::Tensor& real) const {
  if (view_kind(real, false) == ViewKind::none) return;
  const at::Tensor base(real._base());
  for (size_t i = 0; i < produced_.size(); ++i)
    if (held_[i].defined() && produced_[i].is_same(base)) return rebase_view(real, base, held_[i]);
}

c10::IValue SegmentRecorder::take(const c10::IValue& result, int returned) {
  if (returned >= 0) return originals_[static_cast<size_t>(returned)];
  const auto real = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    for (size_t i = 0; i < arguments_.size(); ++i)
      if (arguments_[i].isTensor() && arguments_[i].toTensor().is_same(tensor)) return originals_[i].toTensor();
    const Wrapper* wrapper = Wrapper::of(tensor);
    return wrapper ? wrapper->inner() : tensor;
  };
  if (result.isTensor()) return real(result.toTensor());
  if (!result.isTensorList()) return result;
  c10::List<at::Tensor> out;
  for (const at::Tensor& tensor : result.toTensorVector()) out.push_back(real(tensor));
  return out;
}

// --- what a new node says

std::optional<uint32_t> SegmentRecorder::slot_of(Symbol symbol) const {
  const Source& source = recorder_.tape()->recording.trace.dims.info(symbol).source;
  const bool input = source.kind != Source::Kind::none && source.kind <= Source::Kind::input_value;
  if (!input || source.input >= places_.size()) return {};
  const Place& place = places_[source.input];
  if (place.kind == SegmentInput::Kind::integer) return place.slot;
  if (place.kind != SegmentInput::Kind::tensor) return {};
  switch (source.kind) {
    case Source::Kind::input_size: return place.slot + source.dim;
    case Source::Kind::input_stride:
      return place.contiguous ? std::nullopt : std::optional(place.slot + place.rank + source.dim);
    case Source::Kind::input_offset: return place.slot + place.rank * (place.contiguous ? 1 : 2);
    default: return {};
  }
}

// Where the table holds the storage offset of an input.
std::optional<uint32_t> SegmentRecorder::offset_slot(ValueId root) const {
  const std::vector<Input>& inputs = recorder_.tape()->recording.trace.inputs;
  for (size_t i = 0; i < inputs.size() && i < places_.size(); ++i)
    if (inputs[i].kind == Input::Kind::tensor && inputs[i].value == root)
      return places_[i].slot + places_[i].rank * (places_[i].contiguous ? 1 : 2);
  return {};
}

// Of all that the tape has asked so far and no node of this recording says: a node that was there before says what another
// recording asked, and what this one's later sizes rest on may be more.
void SegmentRecorder::collect_checks(StreamNode& node) {
  std::vector<Guard>& guards = recorder_.tape()->trace().guards;
  const auto said = std::remove_if(guards.begin() + static_cast<std::ptrdiff_t>(std::min(collected_, guards.size())), guards.end(),
                                   [&](const Guard& guard) { return collect(guard, node); });
  guards.erase(said, guards.end());
  collected_ = guards.size();
}

namespace {

// The recorder lists those by their reasons. Of integers a reason stands in the list behind what was read.
bool is_exact_read(const Recording& recording, const Guard& guard) {
  const auto is_of_guard = [&](const std::string& read) { return read.ends_with(guard.because); };
  return !guard.because.empty() && std::any_of(recording.specialised.begin(), recording.specialised.end(), is_of_guard);
}

bool is_integer_number(const Pattern& pattern) {
  if (pattern.kind == Kind::any_number) return pattern.integer;
  return pattern.scalar && (pattern.kind == Kind::integer || pattern.kind == Kind::negative);
}

}  // namespace

// An integer among the operator's numbers that was read exactly.
bool SegmentRecorder::pins_number(const Guard& guard, const StreamNode& node) const {
  const Recording& recording = recorder_.tape()->recording;
  const std::vector<Symbol> symbols = recording.trace.dims.symbols(guard.left);
  if (guard.kind != Guard::Kind::equal || symbols.size() != 1 || !is_exact_read(recording, guard)) return false;
  const auto slot = slot_of(symbols[0]);
  return slot && std::any_of(node.arguments.begin(), node.arguments.end(), [&](const Pattern& p) { return is_integer_number(p) && p.index == *slot; });
}

// A node of an earlier recording asks the same of its numbers in each call.
void SegmentRecorder::drop_what_is_said(const StreamNode& node) {
  Trace& trace = recorder_.tape()->trace();
  const auto is_said = [&](const Guard& guard) {
    const auto check = NumberCheck::of(trace, guard, [this](ValueId input) { return real_of(input); });
    return check && std::find(node.number_checks.begin(), node.number_checks.end(), *check) != node.number_checks.end();
  };
  const auto first = trace.guards.begin() + static_cast<std::ptrdiff_t>(std::min(collected_, trace.guards.size()));
  trace.guards.erase(std::remove_if(first, trace.guards.end(), is_said), trace.guards.end());
}

// True where the node says it all and the program need not ask again: of numbers, which it would have to compute with first.
bool SegmentRecorder::collect(const Guard& guard, StreamNode& node) const {
  const Recording& recording = recorder_.tape()->recording;
  const Trace& trace = recording.trace;
  const auto slot = [this](Symbol symbol) { return slot_of(symbol); };
  auto left = Formula::of(trace.dims, guard.left, slot), right = Formula::of(trace.dims, guard.right, slot);
  if (!guard.after && left && right) {
    node.pins_number = node.pins_number || pins_number(guard, node);
    node.checks.push_back({guard.kind, std::move(*left), std::move(*right)});
    return false;
  }
  if (!is_exact_read(recording, guard)) {   // which asks it to be the same again, so it does not vary
    if (auto check = NumberCheck::of(trace, guard, [this](ValueId input) { return real_of(input); }))
      return node.number_checks.push_back(std::move(*check)), true;
  }
  node.ends = node.asks_values = true;
  node.why_ends = "a relation that depends on values";
  return false;
}

// Which of the segment's numbers an input of the recording is.
std::optional<uint32_t> SegmentRecorder::real_of(ValueId input) const {
  const std::vector<Input>& inputs = recorder_.tape()->recording.trace.inputs;
  for (size_t i = 0; i < inputs.size() && i < places_.size(); ++i)
    if (inputs[i].kind == Input::Kind::tensor && inputs[i].value == input && places_[i].kind == SegmentInput::Kind::real) return places_[i].slot;
  return {};
}

bool SegmentRecorder::writes_outside(const Instr& instr) const {
  const Trace& trace = recorder_.tape()->recording.trace;
  return std::any_of(instr.writes.begin(), instr.writes.end(), [&](uint32_t operand) {
    const Storage storage = trace.type(instr.operands[operand]).storage;
    return std::any_of(trace.inputs.begin(), trace.inputs.end(), [&](const Input& input) {
      return input.kind == Input::Kind::tensor && input.value && trace.type(input.value).storage == storage;
    });
  });
}

void SegmentRecorder::note_end(StreamNode& node, const OpPlan& plan) const {
  const Trace& trace = recorder_.tape()->recording.trace;
  const auto end = [&](const char* why) {
    node.ends = true;
    if (node.why_ends.empty()) node.why_ends = why;
  };
  for (size_t i = first_instr_; i < trace.instrs.size(); ++i) {
    const Instr& instr = trace.instrs[i];
    if (info(instr.op).kind == OpKind::call) end("a library call whose errors cannot be foreseen");
    else if (writes_outside(instr)) end("it writes to a tensor from outside");
  }
  if (raises_on_values(plan)) end("its errors cannot be foreseen");
  for (const Pattern& pattern : node.arguments) {
    if (pattern.kind == Kind::fresh && pattern.form.shared) end("it reads memory that others than torch may write");
    for (const Pattern& item : pattern.items)
      if (item.kind == Kind::fresh && item.form.shared) end("it reads memory that others than torch may write");
  }
  const bool wide = node.extent.table > limits::table_of_a_segment / 2;
  if (wide || node.extent.operators >= limits::operators_of_a_segment) end("the segment is long");
}

void SegmentRecorder::describe_produced(StreamNode& node, const OpPlan& plan, const at::Tensor& program) {
  const Wrapper* wrapper = Wrapper::of(program);
  Produced out;
  out.keys = wrapper->inner().key_set();
  out.dtype = wrapper->inner().dtype();
  const Trace& trace = recorder_.tape()->recording.trace;
  const TensorType& type = trace.type(wrapper->value());
  const auto slot = [this](Symbol symbol) { return slot_of(symbol); };
  const auto all = [&](const std::vector<Dim>& dims, std::vector<Formula>& into) {
    for (const Dim dim : dims) {
      auto formula = Formula::of(trace.dims, dim, slot);
      if (!formula) return false;
      into.push_back(std::move(*formula));
    }
    return true;
  };
  if (!all(type.sizes, out.sizes)) {
    node.ends = true;
    if (node.why_ends.empty()) node.why_ends = "its sizes depend on values";
  }
  out.strides_known = all(type.strides, out.strides);
  out.offset = Formula::of(trace.dims, type.offset, slot);
  out.base_slot = offset_slot(type.root);
  for (size_t i = 0; i < arguments_.size() && out.view_of < 0; ++i) {
    const Wrapper* operand = arguments_[i].isTensor() ? Wrapper::of(arguments_[i].toTensor()) : nullptr;
    if (!operand || !operand->value()) continue;
    if (trace.type(operand->value()).storage == type.storage) out.view_of = static_cast<int>(i);
  }
  if (out.view_of >= 0) out.view = view_kind(wrapper->inner(), handed_[0].kind == Handed::Kind::list);
  describe_layout(node, plan, *wrapper, out);
  node.produced.push_back(std::move(out));
}

std::span<const Instr> SegmentRecorder::made() const {
  const std::vector<Instr>& all = recorder_.tape()->recording.trace.instrs;
  return std::span(all).subspan(std::min(first_instr_, all.size()));
}

namespace {

// A pattern and what it stands for, and those of its items.
template <class Visit>
void each_operand(const Pattern& pattern, const c10::IValue& value, const Visit& visit) {
  if (pattern.kind != Kind::list) return visit(pattern, value.isTensor() ? value.toTensor() : at::Tensor());
  size_t i = 0;
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) visit(pattern.items[i++], tensor);
  else if (value.isOptionalTensorList())
    for (const auto& tensor : value.toOptionalTensorVector()) visit(pattern.items[i++], tensor.value_or(at::Tensor()));
}

// A number that is no factor beside the operands is one of them, without axes.
bool is_operand_number(const Pattern& pattern, const std::string& formal) {
  if (formal == "alpha" || formal == "value" || formal == "weight") return false;
  return pattern.scalar || pattern.kind == Kind::any_real || pattern.kind == Kind::integer || pattern.kind == Kind::negative;
}

}  // namespace

void SegmentRecorder::note_laid(const StreamNode& node, const Produced& type) {
  Laid laid{type.holds, type.view_of >= 0, kNoView};
  if (type.view != ViewKind::none) {
    const Pattern& operand = node.arguments[static_cast<size_t>(type.view_of)];
    laid.base = operand.kind == Kind::produced ? static_cast<int>(operand.index) : kViewOfOutside;
    // A view of a view is one of that view's base.
    if (operand.kind == Kind::produced && laid_[operand.index].base != kNoView) laid.base = laid_[operand.index].base;
  }
  laid_.push_back(laid);
}

// Of all arguments, or of one of them.
OperandLayouts SegmentRecorder::operands_of(const StreamNode& node, const TensorType& result, int only) {
  OperandLayouts out;
  const auto visit = [&](const Pattern& pattern, const at::Tensor& tensor) {
    const Wrapper* const wrapper = tensor.defined() ? Wrapper::of(tensor) : nullptr;
    if (!wrapper || !wrapper->value()) return static_cast<void>(out.alike = out.alike && !tensor.defined());
    const TensorType type = recorder_.tape()->trace().type(wrapper->value());
    const auto same = [&](Dim a, Dim b) { return recorder_.dims().same(a, b); };
    if (pattern.kind == Kind::produced) out.least = std::min(out.least, laid_[pattern.index].holds);
    out.natural = out.natural && is_natural(recorder_.dims(), type);
    if (out.first_rank < 0) out.first_rank = type.rank();
    out.one_dtype = out.one_dtype && (type.dtype == result.dtype || type.rank() == 0);
    out.alike = out.alike && std::equal(type.sizes.begin(), type.sizes.end(), result.sizes.begin(), result.sizes.end(), same);
  };
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    if (only >= 0 && static_cast<size_t>(only) != i) continue;
    out.alike = out.alike && !is_operand_number(node.arguments[i], node.op.schema().arguments()[i].name());
    each_operand(node.arguments[i], arguments_[i], visit);
  }
  return out;
}

void SegmentRecorder::describe_layout(const StreamNode& node, const OpPlan& plan, const Wrapper& wrapper, Produced& out) {
  const TensorType type = recorder_.tape()->trace().type(wrapper.value());
  const OperandLayouts operands = operands_of(node, type, out.view_of);
  out.by_eager = is_call(made());
  out.natural = is_natural(recorder_.dims(), type);
  out.holds = out.view_of < 0 ? layout_of_new(plan, made(), operands, out.natural, type.rank())
                              : layout_of_view(plan, made(), operands, out.natural);
  out.number = static_cast<uint32_t>(laid_.size());
  note_laid(node, out);
  if (out.holds == LayoutHolds::addressed && out.view_of < 0 && !out.by_eager) keep_what_told_nothing(type);
  if (out.holds == LayoutHolds::always || out.by_eager || handed_.size() != 1 || handed_[0].kind == Handed::Kind::list) return;
  const auto formula_of = [this](Dim dim) { return Formula::of(recorder_.dims(), dim, [this](Symbol symbol) { return slot_of(symbol); }); };
  out.rule = out.view_of < 0 ? rule_of_new(plan, made(), operands, out.natural) : rule_of_view(plan, made(), formula_of);
  if (out.rule.kind != LayoutRule::Kind::none) note_operands(node, out);
}

// Of a layout that was compared with eager's, and is not known to follow: an axis that addressed nothing was compared with nothing. Where it
// has more elements another branch looks at it.
void SegmentRecorder::keep_what_told_nothing(const TensorType& type) {
  DimTable& dims = recorder_.dims();
  for (const Dim size : type.sizes)
    if (const auto seen = dims.hint(size); seen && *seen < 2)
      recorder_.tape()->guard_relation(Guard::Kind::equal, size, dims.constant(*seen), true, "a layout that told nothing");
}

void SegmentRecorder::note_operands(const StreamNode& node, Produced& out) const {
  using Operand = LayoutRule::Operand;
  const auto visit = [&](const Pattern& pattern, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    Operand operand{Operand::Kind::number, pattern.index};
    if (pattern.kind == Kind::produced) operand.kind = Operand::Kind::produced;
    if (pattern.kind == Kind::known || pattern.kind == Kind::fresh) operand.kind = Operand::Kind::external;
    out.rule.operands.push_back(operand);
  };
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    if (out.view_of >= 0 && static_cast<size_t>(out.view_of) != i) continue;
    if (is_operand_number(node.arguments[i], node.op.schema().arguments()[i].name())) out.rule.operands.push_back({});
    else each_operand(node.arguments[i], arguments_[i], visit);
  }
}

namespace {

// Eager compares all strides of operands in one memory, also those that address nothing: which axes do is kept.
void keep_overlap(Tape& tape, const TensorType& a, const TensorType& b) {
  if (a.storage != b.storage) return;
  for (const TensorType* type : {&a, &b})
    for (const Dim size : type->sizes) {
      const int64_t seen = tape.dims().hint(size).value_or(2);
      const Dim bound = tape.dims().constant(std::min<int64_t>(seen, 1));
      tape.guard_relation(seen < 2 ? Guard::Kind::equal : Guard::Kind::less, seen < 2 ? size : bound, seen < 2 ? bound : size, true, "an overlap");
    }
}

}  // namespace

// A write refuses some ways for its operands to overlap, and a library call may look at anything.
void SegmentRecorder::note_layout_matters(StreamNode& node, const OpPlan& plan) const {
  std::vector<ValueId> values;
  for (const c10::IValue& argument : arguments_)
    if (const Wrapper* w = argument.isTensor() ? Wrapper::of(argument.toTensor()) : nullptr; w && w->value()) values.push_back(w->value());
  Tape& tape = *recorder_.tape();
  for (size_t i = 1; i < values.size() && !plan.writes.empty(); ++i)
    if (values[i] != values[0]) keep_overlap(tape, TensorType(tape.trace().type(values[0])), TensorType(tape.trace().type(values[i])));
  const bool call = is_call(made()) && !ignores_layouts(plan);
  if (!call && plan.writes.empty()) return;
  for (size_t i = 0; i < node.arguments.size(); ++i)
    each_operand(node.arguments[i], arguments_[i], [&](const Pattern& pattern, const at::Tensor&) {
      if (pattern.kind != Kind::produced || laid_[pattern.index].holds == LayoutHolds::always) return;
      if (call || laid_[pattern.index].is_view) node.layout_matters.push_back(pattern.index);
    });
  node.extent.layout_matters = node.extent.layout_matters || !node.layout_matters.empty();
}

void SegmentRecorder::complete(StreamNode& node, const OpPlan& plan) {
  node.results = handed_;
  node.hands_one = handed_.size() == 1 && (handed_[0].kind == Handed::Kind::produced || handed_[0].kind == Handed::Kind::argument);
  for (size_t i = first_produced_; i < wrappers_.size(); ++i) describe_produced(node, plan, wrappers_[i]);
  note_layout_matters(node, plan);
  node.extent.produced = static_cast<uint32_t>(wrappers_.size());
  node.bumped = plan.writes;
  collect_checks(node);
  note_end(node, plan);
}

// --- the end

Slots SegmentRecorder::release_dead() {
  originals_.clear();
  arguments_.clear();
  Slots live;
  // Whose views are held. A matched call asks for them too, and eager's own base may be another: that of `linear` with a bias is a matrix
  // of which its result is a view already.
  std::vector<bool> is_base(produced_.size());
  // Backwards: a view holds its base.
  for (size_t i = produced_.size(); i-- > 0;) {
    const at::Tensor& seen = held_[i].defined() ? held_[i] : produced_[i];
    const size_t ours = held_[i].defined() ? 1 : 2;   // its wrapper, too, holds what was computed
    if (is_base[i] || is_held(seen, ours)) {
      if (laid_[i].base >= 0) is_base[static_cast<size_t>(laid_[i].base)] = true;
      live.push_back(static_cast<uint32_t>(i));
      continue;
    }
    wrappers_[i].reset();
    produced_[i].reset();
    held_[i].reset();
  }
  std::reverse(live.begin(), live.end());
  return live;
}

Recording SegmentRecorder::finish(const Slots& results) {
  std::vector<c10::IValue> outputs;
  for (const uint32_t number : results) outputs.emplace_back(wrappers_[number]);
  return recorder_.finish(outputs);
}

}  // namespace escapement
