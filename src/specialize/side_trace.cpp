// See side_trace.h.
#include "specialize/side_trace.h"

#include "support/error.h"
#include "trace/copier.h"

namespace escapement {
namespace {

class SideTrace {
 public:
  SideTrace(const Trace& whole, const Snapshot& snapshot) : whole_(whole), snapshot_(snapshot), copier_(whole, side_) {}

  Trace run() {
    side_.name = whole_.name + ".side";
    for (const ValueId live : snapshot_.live) take_live(live);
    for (const Symbol born : snapshot_.born) take_born(born);
    for (uint32_t i = snapshot_.instrs; i < whole_.instrs.size(); ++i) copy(whole_.instrs[i], InstrId(i));
    bring_outputs();
    copier_.finish();
    place_guards();
    return std::move(side_);
  }

 private:
  // It keeps its storage: whether it may share memory with an input is as it was.
  void take_live(ValueId old) {
    TensorType type = whole_.type(old);
    type.root = {};
    copier_.replace(old, copier_.builder().input(std::move(type), "live" + std::to_string(old.index)));
  }

  void take_born(Symbol symbol) {
    Input input;
    input.kind = Input::Kind::integer;
    input.dim = side_.dims.of(symbol);
    input.name = side_.dims.to_string(symbol);
    side_.dims.set_source(symbol, {Source::Kind::input_value, static_cast<uint32_t>(side_.inputs.size()), {}, 0});
    side_.inputs.push_back(std::move(input));
  }

  void copy(const Instr& instr, InstrId id) {
    for (const ValueId operand : instr.operands) bring(operand);
    for (const ValueId result : instr.results) {
      if (const ValueId root = whole_.type(result).root; root && root != result) bring(root);
    }
    copier_.copy(id);
  }

  void bring_outputs() {
    for (const Output& output : whole_.outputs) bring(output.value);
  }

  // Views say how memory is looked at, and numbers are the same everywhere: both are made anew. Anything else has been computed, and whoever
  // wants it must have held it.
  void bring(ValueId value) {
    if (!value || copier_.has(value)) return;
    const InstrId definition = whole_[value].definition;
    const Instr& instr = whole_[definition];
    const bool is_number = instr.op == Op::full && whole_.type(value).rank() == 0;
    if (info(instr.op).kind != OpKind::view && !is_number)
      throw InternalError("a side trace needs %" + std::to_string(value.index) + ", which nobody held where it begins");
    copy(instr, definition);
  }

  // What the trace before has tested, or now can be tested at entry, is a guard of the entry.
  void place_guards() {
    for (size_t i = 0; i < side_.guards.size(); ++i) {
      const InstrId after = whole_.guards[i].after;
      if (after && after.index < snapshot_.instrs) side_.guards[i].after = {};
    }
  }

  const Trace& whole_;
  const Snapshot& snapshot_;
  Trace side_;
  Copier copier_;
};

}  // namespace

std::vector<Output> handed_on(DimTable& dims, const Snapshot& snapshot) {
  std::vector<Output> outputs;
  for (const ValueId live : snapshot.live) outputs.push_back({Output::Kind::value, live, {}});
  for (const Symbol born : snapshot.born) outputs.push_back({Output::Kind::integer, {}, dims.of(born)});
  return outputs;
}

Trace side_trace(const Trace& whole, const Snapshot& snapshot) { return SideTrace(whole, snapshot).run(); }

Snapshot snapshot_of_all(const Trace& whole, uint32_t instrs) {
  Snapshot all{instrs, {}, {}};
  const auto is_there = [&](ValueId v) { return !whole[v].definition || whole[v].definition.index < instrs; };
  for (uint32_t i = 0; i < whole.values.size(); ++i) {
    const Value& value = whole[ValueId(i)];
    if (value.kind == ValueKind::tensor && value.definition && value.type.root == ValueId(i) && is_there(ValueId(i))) all.live.emplace_back(i);
  }
  for (uint32_t s = 0; s < whole.dims.symbol_count(); ++s) {
    const ValueId source = whole.dims.info(Symbol(s)).source.value;
    if (source && is_there(source)) all.born.emplace_back(s);
  }
  return all;
}

Trace trace_before(const Trace& whole, const Snapshot& snapshot) {
  Trace part = whole;
  part.outputs = handed_on(part.dims, snapshot);
  std::erase_if(part.guards, [&](const Guard& guard) { return guard.after && guard.after.index >= snapshot.instrs; });
  Trace before;
  Copier copier(part, before);
  for (uint32_t i = 0; i < snapshot.instrs; ++i) copier.copy(InstrId(i));
  copier.finish();
  return before;
}

}  // namespace escapement
