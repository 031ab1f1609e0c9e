// See input_behind.h.
#include "torch/program/input_behind.h"

#include <algorithm>

namespace escapement {

namespace {

template <class Test>
ValueId first_of(const std::vector<ValueId>& values, const Test& test) {
  const auto found = std::ranges::find_if(values, test);
  return found != values.end() ? *found : ValueId();
}

}  // namespace

uint32_t buffer_behind(const LaunchPlan& plan, ValueId value) {
  const Trace& trace = plan.trace;
  for (;;) {   // definitions come before uses, so each step is to an earlier one
    const ValueId root = trace.type(value).root ? trace.type(value).root : value;
    const InstrId made_by = trace[root].definition;
    const Storage storage = trace.type(root).storage;
    const auto is_it = [&](ValueId v) { return v && storage && trace.type(v).storage == storage; };
    const ValueId operand = made_by ? first_of(trace[made_by].operands, is_it) : ValueId();
    if (!operand) return plan.buffer_of[root.index];
    value = operand;
  }
}

std::optional<uint32_t> input_behind(const LaunchPlan& plan, ValueId value) {
  const uint32_t buffer = buffer_behind(plan, value);
  return buffer != Id<void>::kNone && plan.buffers[buffer].kind == Buffer::Kind::input ? std::optional(plan.buffers[buffer].input) : std::nullopt;
}

}  // namespace escapement
