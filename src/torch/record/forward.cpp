// See forward.h.
#include "torch/record/forward.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "support/error.h"
#include "torch/record/copies.h"
#include "torch/record/host_args.h"
#include "torch/record/wrapper.h"

namespace escapement {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw UserError("escapement: the program was run a second time, behind what it had done already, and did something else: " + what +
                  "; what a function does must follow from its arguments");
}

// What compiled code made has the mode that the whole of it ran in.
at::Tensor made_in(bool inference, const at::Tensor& real) {
  if (real.is_inference() == inference) return real;
  return at::empty({0}, real.options()).set_(real.storage(), real.storage_offset(), real.sizes(), real.strides());
}

// What an operator gave birth to goes by its number, since the two traces count their values apart.
bool is_same(const SymbolInfo& a, const SymbolInfo& b) {
  if (a.kind != b.kind) return false;
  return a.source.value || b.source.value ? a.number == b.number : a.source == b.source;
}

std::string text_of(const std::optional<c10::OperatorName>& step) { return step ? step->name : "a value that it reads"; }

}  // namespace

Forward::Forward(Departure departure) : from_(std::move(departure)) { pass_over(); }

// Numbers that became values of the trace inside of an operator that took them (libm.h): the program does not come to them.
void Forward::pass_over() {
  const auto is_hidden = [](const ScriptStep& step) { return step.name && step.name->name == "escapement::power"; };
  while (active() && is_hidden((*from_.script)[next_])) ++next_;
}

const ScriptStep& Forward::step(const std::optional<c10::OperatorName>& name) {
  const ScriptStep& step = (*from_.script)[next_];
  if (step.name != name) fail("it came to " + text_of(name) + " where it had come to " + text_of(step.name));
  ++next_;
  pass_over();
  return step;
}

// contiguous() of what is contiguous is no operator, but whether it is may be known in one recording and not in the other.
bool Forward::is_left_out(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments) const {
  const c10::OperatorName& name = op.operator_name();
  if (name.name != "aten::contiguous" || (*from_.script)[next_].name == name) return false;
  return concrete(arguments[0]).toTensor().is_contiguous(arguments[1].toMemoryFormat());
}

bool Forward::take(const c10::OperatorHandle& op, torch::jit::Stack& stack, size_t arguments, bool recorded) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
  if (is_left_out(op, std::span(stack).last(arguments))) {
    stack.pop_back();
    stack.back() = concrete(stack.back());
    return false;
  }
  const ScriptStep& now = step(op.operator_name());
  if (is_view(now)) {
    for (size_t i = stack.size() - arguments; i < stack.size(); ++i) stack[i] = concrete(stack[i]);
    op.callBoxed(stack);
  } else {
    hand_over(now, stack, arguments, recorded);
  }
  if (!active()) roots_.clear();   // from here on only the program holds them, as where it runs for the first time
  return now.draws;
}

void Forward::hand_over(const ScriptStep& now, torch::jit::Stack& stack, size_t arguments, bool recorded) {
  const std::vector<c10::IValue> given(stack.end() - static_cast<std::ptrdiff_t>(arguments), stack.end());
  torch::jit::drop(stack, arguments);
  rename(now, given, recorded);
  size_t at = 0;
  for (const ScriptStep::Return& returned : now.returns) {
    if (!returned.is_list) {
      stack.push_back(result(now.results[at++], given));
      continue;
    }
    c10::List<at::Tensor> list;
    for (uint32_t i = 0; i < returned.count; ++i) list.push_back(result(now.results[at++], given).toTensor());
    stack.emplace_back(std::move(list));
  }
}

// It says how memory is looked at, and neither reads nor writes any: made by the operator itself it has eager's strides where they address nothing,
// too, which the trace does not know.
bool Forward::is_view(const ScriptStep& step) const {
  using Kind = ScriptStep::Result::Kind;
  const auto views = [&](const ScriptStep::Result& result) {
    return result.kind == Kind::tensor && from_.before->type(result.value).root != result.value;
  };
  return !step.draws && step.renamed.empty() && !step.results.empty() && std::all_of(step.results.begin(), step.results.end(), views);
}

// A tensor of the program's own, which no wrapper stands for any more, gets the memory itself; where something else looks at what it had, that would be
// left behind.
void Forward::give_memory(ValueId value, const at::Tensor& written, const std::string& by) {
  const at::Tensor memory = tensor(value, written.scalar_type(), written.is_inference());
  if (written.is_alias_of(memory)) return;
  std::erase_if(roots_, [&](const auto& known) { return known.second.is_alias_of(written); });
  if (written.storage().use_count() > 1) fail("it came to " + by + " where nothing is recorded any more");
  written.set_(memory.storage(), memory.storage_offset(), memory.sizes(), memory.strides());
}

// What stood for another value in memory of its own stands for the new one.
void Forward::rename(const ScriptStep& step, std::span<const c10::IValue> arguments, bool recorded) {
  for (const auto& [argument, value] : step.renamed) {
    Wrapper* const wrapper = Wrapper::of(arguments[argument].toTensor());
    if (!wrapper || !wrapper->value()) {
      if (!recorded) give_memory(value, concrete(arguments[argument]).toTensor(), text_of(step.name));
      continue;
    }
    const Tape& tape = wrapper->tape();
    const bool same = tape.recording.trace.type(wrapper->value()).root == from_.before->type(value).root;
    if (!same) wrapper->replace_inner(tensor(value, wrapper->inner().scalar_type(), wrapper->inner().is_inference()));
  }
}

c10::IValue Forward::result(const ScriptStep::Result& from, std::span<const c10::IValue> arguments) {
  using Kind = ScriptStep::Result::Kind;
  if (from.kind == Kind::argument) return concrete(arguments[from.argument]);
  if (from.kind == Kind::tensor) return tensor(from.value, from.dtype, from.inference);
  return at::Tensor();
}

c10::Scalar Forward::take_read() {
  using Kind = ScriptStep::Result::Kind;
  const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
  const ScriptStep::Result& read = step(std::nullopt).results[0];
  if (!active()) roots_.clear();
  if (read.kind == Kind::truth) return from_.before->dims.evaluate(read.dim, from_.symbols) != 0;
  if (read.kind == Kind::integer) return from_.before->dims.evaluate(read.dim, from_.symbols);
  const auto found = std::find(from_.at.live.begin(), from_.at.live.end(), read.value);
  if (found == from_.at.live.end()) return read.seen;   // nobody looks at it any more
  return from_.live[static_cast<size_t>(found - from_.at.live.begin())].item();
}

at::Tensor Forward::tensor(ValueId value, c10::ScalarType dtype, bool inference) {
  const TensorType& type = from_.before->type(value);
  const at::Tensor memory = root(type.root, dtype, inference);
  if (type.root == value && (*from_.before)[value].definition) return memory;
  const int64_t offset = from_.before->dims.evaluate(type.offset, from_.symbols);
  return at::as_strided(memory, values(type.sizes), values(type.strides), memory.storage_offset() + offset);
}

at::Tensor Forward::root(ValueId value, c10::ScalarType dtype, bool inference) {
  const auto input = std::find_if(from_.before->inputs.begin(), from_.before->inputs.end(), [&](const Input& i) { return i.value == value; });
  if (input != from_.before->inputs.end()) return from_.inputs[static_cast<size_t>(input - from_.before->inputs.begin())];
  at::Tensor& known = roots_[value.index];
  if (known.defined()) return known;
  const c10::InferenceMode mode(inference);
  const auto live = std::find(from_.at.live.begin(), from_.at.live.end(), value);
  const TensorType& type = from_.before->type(value);
  if (live == from_.at.live.end()) known = at::empty_strided(values(type.sizes), strides(type), at::TensorOptions(from_.device).dtype(dtype));
  else known = made_in(inference, from_.live[static_cast<size_t>(live - from_.at.live.begin())]);
  return known;
}

// Of memory of its own, as eager makes it.
std::vector<int64_t> Forward::strides(const TensorType& type) const {
  const std::vector<int64_t> sizes = values(type.sizes);
  if (std::ranges::find(sizes, 0) == sizes.end()) return values(type.strides);
  DimTable dims = from_.before->dims;   // a copy to compute in
  return strides_of_nothing(dims, type, sizes, values(type.strides));
}

std::vector<int64_t> Forward::values(const std::vector<Dim>& dims) const {
  std::vector<int64_t> found;
  for (const Dim dim : dims) found.push_back(from_.before->dims.evaluate(dim, from_.symbols));
  return found;
}

std::vector<int64_t> Forward::hints(const DimTable& now) const {
  const DimTable& then = from_.before->dims;
  std::vector<int64_t> found;
  for (uint32_t i = 0; i < now.symbol_count(); ++i) {
    const SymbolInfo& symbol = now.info(Symbol{i});
    found.push_back(symbol.hint.value_or(0));
    for (uint32_t k = 0; k < then.symbol_count(); ++k) {
      const SymbolInfo& other = then.info(Symbol{k});
      if (is_same(symbol, other)) found.back() = other.hint.value_or(found.back());
    }
  }
  return found;
}

void Forward::expect_arrived() const {
  if (active()) fail("it ended early");
}

}  // namespace escapement
