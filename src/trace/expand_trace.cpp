// Expansion of a whole trace; the formulas are in expand.cpp.
#include <algorithm>

#include "trace/copier.h"
#include "trace/expand.h"

namespace escapement {

Trace expand_composites(const Trace& trace) {
  Trace to;
  Copier copier(trace, to);
  for (uint32_t i = 0; i < trace.instrs.size(); ++i) {
    const Instr& instr = trace.instrs[i];
    if (info(instr.op).kind != OpKind::composite) {
      copier.copy(InstrId(i));
      continue;
    }
    std::vector<ValueId> operands;
    for (ValueId operand : instr.operands) operands.push_back(copier[operand]);
    copier.builder().set_location(instr.location);
    copier.replace(instr.results[0], expand_composite(copier.builder(), instr.op, operands, instr.attrs, trace.type(instr.results[0])));
  }
  const auto own = static_cast<std::ptrdiff_t>(to.guards.size());
  copier.finish();
  std::rotate(to.guards.begin(), to.guards.begin() + own, to.guards.end());  // the program's guards keep their numbers
  return to;
}

}  // namespace escapement
