// Early checks. A check behind an effect cannot send a call back to its beginning: such a program would not be compiled. Where what is checked
// follows from the arguments alone (a learning rate that must fit the dtype of a parameter), it is computed and checked before the first effect.
#include <algorithm>
#include <vector>

#include "specialize/passes.h"
#include "trace/copier.h"
#include "trace/effects.h"

namespace escapement {
namespace {

bool has_effect(const Instr& instr) { return instr.effect || !instr.writes.empty(); }

class EarlyChecks {
 public:
  explicit EarlyChecks(const Trace& trace) : trace_(trace), early_(trace.instrs.size()) {
    const auto first = std::find_if(trace.instrs.begin(), trace.instrs.end(), has_effect);
    first_ = static_cast<uint32_t>(first - trace.instrs.begin());
    for (const Instr& instr : trace.instrs)
      for (const uint32_t written : instr.writes)
        if (const ValueId operand = instr.operands[written]) written_.push_back(trace.type(operand).storage);
  }

  Trace run() {
    for (const Guard& guard : trace_.guards)
      if (guard.after && guard.after.index >= first_) take(guard);
    Trace result;
    Copier copier(trace_, result);
    for (uint32_t i = 0; i < first_; ++i) copier.copy(InstrId(i));
    for (uint32_t i = first_; i < trace_.instrs.size(); ++i)
      if (early_[InstrId(i)]) copier.copy(InstrId(i));
    for (uint32_t i = first_; i < trace_.instrs.size(); ++i)
      if (!early_[InstrId(i)]) copier.copy(InstrId(i));
    copier.finish();
    return result;
  }

 private:
  // All of its symbols, or none.
  void take(const Guard& guard) {
    std::vector<InstrId> chain;
    for (const Dim side : {guard.left, guard.right})
      for (const Symbol symbol : trace_.dims.symbols(side))
        if (const ValueId source = trace_.dims.info(symbol).source.value; source && !add(source, chain)) return;
    for (const InstrId id : chain) early_[id] = true;
  }

  // What computes a value, where nothing else than arguments and constants goes into it.
  bool add(ValueId value, std::vector<InstrId>& chain) const {
    const Storage storage = trace_.type(value).storage;
    if (std::find(written_.begin(), written_.end(), storage) != written_.end()) return false;
    const InstrId definition = trace_[value].definition;
    if (!definition || definition.index < first_) return true;
    if (std::find(chain.begin(), chain.end(), definition) != chain.end()) return true;
    const Instr& instr = trace_[definition];
    const auto is_open = [](const Number& number) { return number.kind == Number::Kind::dim; };
    const bool computes = info(instr.op).kind == OpKind::pointwise || instr.op == Op::full;
    if (!computes || has_effect(instr) || trace_.type(value).rank() != 0 || is_open(instr.attrs.value) || is_open(instr.attrs.value2)) return false;
    for (const ValueId operand : instr.operands)
      if (operand && !add(operand, chain)) return false;
    chain.push_back(definition);
    return true;
  }

  const Trace& trace_;
  IdMap<InstrId, bool> early_;
  std::vector<Storage> written_;
  uint32_t first_ = 0;
};

}  // namespace

Trace check_early(const Trace& trace) { return EarlyChecks(trace).run(); }

}  // namespace escapement
