// See copier.h.
#include "trace/copier.h"

#include "support/error.h"

namespace escapement {

Copier::Copier(const Trace& from, Trace& to)
    : from_(from), to_(to), builder_(to), values_(from.values.size()), instrs_(from.instrs.size()), done_(from.instrs.size()),
      born_(from.values.size()), storages_(from.storage_count) {
  ESCAPEMENT_CHECK(to.values.empty(), "a pass writes an empty trace");
  to.name = from.name;
  to.dims = from.dims;
  to.locations = from.locations;
  to.storage_count = from.storage_count;
  to.inputs = from.inputs;
  for (uint32_t i = 0; i < from.storage_count; ++i) storages_[Storage(i)] = Storage(i);
  for (uint32_t i = 0; i < from.dims.symbol_count(); ++i) {
    const ValueId source = from.dims.info(Symbol(i)).source.value;
    if (!source) continue;
    born_[source].push_back(Symbol(i));
    to.dims.set_source(Symbol(i), {});
  }
  for (Input& input : to.inputs) {
    if (input.kind != Input::Kind::tensor) continue;
    const ValueId fresh(static_cast<uint32_t>(to.values.size()));
    Value value = from[input.value];
    value.type.root = fresh;
    to.values.push_back(std::move(value));
    set(input.value, fresh);
    input.value = fresh;
  }
}

ValueId Copier::operator[](ValueId old) const {
  const ValueId fresh = values_[old];
  ESCAPEMENT_CHECK(static_cast<bool>(fresh), "a pass uses a value that it has left out");
  return fresh;
}

void Copier::set(ValueId old, ValueId fresh) {
  values_[old] = fresh;
  for (const Symbol symbol : born_[old]) {
    Source source = from_.dims.info(symbol).source;
    source.value = fresh;
    to_.dims.set_source(symbol, source);
  }
}

void Copier::replace(ValueId old, ValueId with) {
  set(old, with);
  if (from_.type(old).root == old) storages_[from_.type(old).storage] = to_.type(with).storage;
  if (const InstrId definition = from_[old].definition) {
    instrs_[definition] = to_[with].definition;
    done_[definition] = true;
  }
}

TensorType Copier::mapped(ValueId old) const {
  TensorType result = from_.type(old);
  // A fresh result is its own root, which has no number yet: none means "itself" to Builder::append.
  result.root = result.root && result.root != old ? (*this)[result.root] : ValueId();
  if (result.storage) result.storage = storages_[result.storage];
  return result;
}

InstrId Copier::copy(InstrId old) {
  const Instr& instr = from_[old];
  Instr fresh = instr;
  fresh.results.clear();
  for (ValueId& operand : fresh.operands) {
    if (operand) operand = (*this)[operand];
  }
  std::vector<TensorType> types;
  for (ValueId result : instr.results) types.push_back(mapped(result));
  const InstrId id = builder_.append(std::move(fresh), std::move(types));
  for (size_t i = 0; i < instr.results.size(); ++i) {
    const ValueId result = to_[id].results[i];
    to_.values[result.index].kind = from_[instr.results[i]].kind;
    set(instr.results[i], result);
  }
  instrs_[old] = id;
  done_[old] = true;
  return id;
}

// Where a guard goes: after what became of its instruction, or else of the next one that is there; later is never wrong.
InstrId Copier::placed_after(InstrId old) const {
  for (InstrId i = old; done_.contains(i); ++i.index) {
    if (done_[i]) return instrs_[i];
  }
  return to_.instrs.empty() ? InstrId() : InstrId(static_cast<uint32_t>(to_.instrs.size() - 1));
}

void Copier::finish() {
  for (Guard guard : from_.guards) {
    if (guard.after) guard.after = placed_after(guard.after);
    to_.guards.push_back(std::move(guard));
  }
  for (Output output : from_.outputs) {
    if (output.value) output.value = (*this)[output.value];
    to_.outputs.push_back(output);
  }
}

}  // namespace escapement
