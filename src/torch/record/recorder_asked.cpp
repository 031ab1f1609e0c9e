// Tape, where the host asks for what no expression of sizes says: strides of an input, numbers under conditions. See recorder_tape.h.
#include <algorithm>
#include <utility>

#include "support/error.h"
#include "torch/record/recorder_tape.h"

namespace escapement {

std::optional<uint32_t> Tape::input_of(ValueId value) const {
  const auto& inputs = recording.trace.inputs;
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const Input& input) { return input.value == value; });
  if (found == inputs.end()) return {};
  return static_cast<uint32_t>(found - inputs.begin());
}

int64_t Tape::stride_seen(ValueId input, int axis) const {
  const auto found = std::find(input_values_.begin(), input_values_.end(), input);
  ESCAPEMENT_CHECK(found != input_values_.end(), "the stride of what is no input");
  return inputs_[static_cast<size_t>(found - input_values_.begin())].stride(axis);
}

Dim Tape::input_stride(uint32_t input, int axis, int64_t hint) {
  Source source;
  source.kind = Source::Kind::input_stride;
  source.input = input;
  source.dim = static_cast<uint32_t>(axis);
  const auto [known, fresh] = input_strides_.try_emplace({input, axis});
  if (fresh) known->second = dims().new_symbol(SymbolKind::stride, source, hint);
  return known->second;
}

void Tape::pin_everything(const std::string& because) {
  for (uint32_t number = 0; number < dims().symbol_count(); ++number) {
    const SymbolInfo& info = dims().info(Symbol(number));
    if (info.source.kind != Source::Kind::none && info.hint) pin(dims().of(Symbol(number)), *info.hint, because);
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto input = input_of(input_values_[i]);
    for (int axis = 0; input && axis < inputs_[i].dim(); ++axis)
      pin(input_stride(*input, axis, inputs_[i].stride(axis)), inputs_[i].stride(axis), because);
  }
}

c10::SymInt Tape::unsure(int64_t hint, std::function<Dim()> settle) {
  if (!live()) return hint;
  const Dim number = dims().new_symbol(SymbolKind::stride, {}, hint);
  unsure_.emplace(dims().as_symbol(number)->index, Unsure{{}, std::move(settle)});
  return symint(number, hint);
}

Dim Tape::settled_symbol(Symbol symbol) {
  const auto found = unsure_.find(symbol.index);
  if (found == unsure_.end()) return dims().of(symbol);
  if (const auto settle = std::exchange(found->second.settle, nullptr)) found->second.is = settle();
  return found->second.is;
}

Dim Tape::settled(Dim dim) {
  if (unsure_.empty() || closed) return dim;
  const auto symbols = dims().symbols(dim);
  if (std::none_of(symbols.begin(), symbols.end(), [&](Symbol s) { return unsure_.contains(s.index); })) return dim;
  std::vector<Dim> stack;
  for (const DimTable::Step& step : dims().steps(dim)) {
    if (step.op == SizeOp::constant) {
      stack.push_back(dims().constant(step.constant));
    } else if (step.op == SizeOp::symbol) {
      stack.push_back(settled_symbol(step.symbol));
    } else {
      const Dim b = stack.back();
      stack.pop_back();
      stack.back() = dims().apply(step.op, stack.back(), b);
    }
  }
  return stack.back();
}

void Tape::begin_question(ValueId asked) {
  end_question();
  asked_ = asked;
}

void Tape::hold(std::function<void()> guard) { held_ = std::move(guard); }

void Tape::end_question(ValueId made_contiguous) {
  const auto guard = std::exchange(held_, nullptr);
  if (guard && !(made_contiguous && made_contiguous == asked_)) guard();
}

}  // namespace escapement
