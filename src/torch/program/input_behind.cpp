// See input_behind.h.
#include "torch/program/input_behind.h"

#include <algorithm>

namespace escapement {

ValueId viewed_by(const Trace& trace, ValueId value) {
  const InstrId made_by = trace[value].definition;
  if (!made_by) return {};
  const Instr& instr = trace[made_by];
  if (info(instr.op).kind == OpKind::view) return instr.operands[0];
  const Storage storage = trace.type(value).storage;
  const auto found = std::ranges::find_if(instr.operands, [&](ValueId v) { return v && storage && trace.type(v).storage == storage; });
  return found != instr.operands.end() ? *found : ValueId();
}

uint32_t buffer_behind(const LaunchPlan& plan, ValueId value) {
  while (const ValueId viewed = viewed_by(plan.trace, value)) value = viewed;   // definitions come before uses
  return plan.buffer_of[value.index];
}

std::optional<uint32_t> input_behind(const LaunchPlan& plan, ValueId value) {
  const uint32_t buffer = buffer_behind(plan, value);
  return buffer != Id<void>::kNone && plan.buffers[buffer].kind == Buffer::Kind::input ? std::optional(plan.buffers[buffer].input) : std::nullopt;
}

}  // namespace escapement
