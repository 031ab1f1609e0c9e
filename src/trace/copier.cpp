// See copier.h.
#include "trace/copier.h"

#include "support/error.h"

namespace escapement {

Copier::Copier(const Trace& from, Trace& to)
    : from_(from), to_(to), builder_(to), values_(from.values.size()), instrs_(from.instrs.size()) {
  ESCAPEMENT_CHECK(to.values.empty(), "a pass writes an empty trace");
  to.name = from.name;
  to.dims = from.dims;
  to.locations = from.locations;
  to.storage_count = from.storage_count;
  to.inputs = from.inputs;
  for (Input& input : to.inputs) {
    if (input.kind != Input::Kind::tensor) continue;
    const ValueId fresh(static_cast<uint32_t>(to.values.size()));
    values_[input.value.index] = fresh;
    Value value = from[input.value];
    value.type.root = fresh;
    to.values.push_back(std::move(value));
    input.value = fresh;
  }
}

TensorType Copier::mapped(const TensorType& type) const {
  TensorType result = type;
  // A fresh result is its own root, which has no number yet: none means "itself" to Builder::append.
  result.root = type.root ? values_[type.root.index] : ValueId();
  if (result.root) result.storage = to_.type(result.root).storage;  // a view follows its root to the memory of what took its place
  return result;
}

InstrId Copier::copy(InstrId old) {
  const Instr& instr = from_[old];
  Instr fresh = instr;
  fresh.results.clear();
  for (ValueId& operand : fresh.operands) {
    if (operand) operand = values_[operand.index];
  }
  std::vector<TensorType> types;
  for (ValueId result : instr.results) types.push_back(mapped(from_.type(result)));
  const InstrId id = builder_.append(std::move(fresh), std::move(types));
  for (size_t i = 0; i < instr.results.size(); ++i) {
    const ValueId result = to_[id].results[i];
    to_.values[result.index].kind = from_[instr.results[i]].kind;
    values_[instr.results[i].index] = result;
  }
  instrs_[old.index] = id;
  return id;
}

void Copier::finish() {
  for (size_t i = 0; i < from_.dims.symbol_count(); ++i) {
    const Symbol symbol(static_cast<uint32_t>(i));
    Source source = from_.dims.info(symbol).source;
    if (!source.value) continue;
    source.value = values_[source.value.index];
    to_.dims.set_source(symbol, source.value ? source : Source{});  // of what was left out: an id of the old trace must not stay
  }
  for (Guard guard : from_.guards) {
    if (guard.after) guard.after = instrs_[guard.after.index];
    to_.guards.push_back(std::move(guard));
  }
  for (Output output : from_.outputs) {
    if (output.value) output.value = values_[output.value.index];
    to_.outputs.push_back(output);
  }
}

}  // namespace escapement
