// See shrink.h.
#include "fuzz/ir/shrink.h"

#include <optional>
#include <vector>

#include "specialize/passes.h"
#include "support/error.h"
#include "trace/copier.h"
#include "trace/verifier.h"

namespace escapement::fuzz {
namespace {

// Without instruction `which`: its results become inputs of the same type, with memory of their own.
std::optional<Trace> without_instruction(const Trace& trace, uint32_t which) {
  Trace result;
  Copier copier(trace, result);
  for (uint32_t i = 0; i < trace.instrs.size(); ++i) {
    const InstrId id(i);
    if (i != which) {
      copier.copy(id);
      continue;
    }
    for (const Guard& guard : trace.guards)
      if (guard.after == id) return {};
    for (const ValueId old : trace[id].results) {
      TensorType type = trace.type(old);
      type.root = {}, type.offset = {}, type.storage = {};
      copier.replace(old, copier.builder().input(type));
    }
  }
  copier.finish();
  return result;
}

std::optional<Trace> without_output(const Trace& trace, uint32_t which) {
  Trace result = trace;
  result.outputs.erase(result.outputs.begin() + which);
  return result;
}

std::optional<Trace> without_guard(const Trace& trace, uint32_t which) {
  Trace result = trace;
  result.guards.erase(result.guards.begin() + which);
  return result;
}

// An operand stands for the result, where they are alike.
std::optional<Trace> with_operand(const Trace& trace, uint32_t which) {
  const Instr& skipped = trace.instrs[which];
  if (skipped.results.size() != 1 || skipped.operands.empty()) return {};
  const TensorType &from = trace.type(skipped.operands[0]), &to = trace.type(skipped.results[0]);
  if (from.dtype != to.dtype || from.sizes != to.sizes) return {};
  Trace result;
  Copier copier(trace, result);
  for (uint32_t i = 0; i < trace.instrs.size(); ++i) {
    if (i == which) copier.replace(skipped.results[0], copier[skipped.operands[0]]);
    else copier.copy(InstrId(i));
  }
  copier.finish();
  return result;
}

// An input that nothing mentions; sources count inputs by number.
std::optional<Trace> without_input(const Trace& trace, uint32_t which) {
  if (trace.inputs[which].kind != Input::Kind::tensor) return {};
  const ValueId value = trace.inputs[which].value;
  for (const Instr& instr : trace.instrs)
    for (const ValueId v : instr.operands)
      if (v && trace.type(v).root == value) return {};
  for (const Output& output : trace.outputs)
    if (output.value && trace.type(output.value).root == value) return {};
  Trace result = trace;
  for (uint32_t s = 0; s < trace.dims.symbol_count(); ++s) {
    Source source = trace.dims.info(Symbol(s)).source;
    if (source.value || source.kind == Source::Kind::none) continue;
    if (source.input == which) source = {};
    else if (source.input > which) --source.input;
    result.dims.set_source(Symbol(s), source);
  }
  result.inputs.erase(result.inputs.begin() + which);
  return parse_trace(print(result));
}

using Change = std::optional<Trace> (*)(const Trace&, uint32_t);

bool acceptable(const Trace& trace, const std::function<bool(const Trace&)>& fails) {
  try {
    verify(trace);
    return fails(trace);
  } catch (const std::exception&) {
    return false;
  }
}

// Tries the change at every place, from the end; whether any was kept.
bool apply_all(Trace& now, Change change, size_t (*count)(const Trace&), const std::function<bool(const Trace&)>& fails) {
  bool smaller = false;
  for (size_t i = count(now); i-- > 0;) {
    try {
      std::optional<Trace> candidate = i < count(now) ? change(now, static_cast<uint32_t>(i)) : std::nullopt;
      if (!candidate || !acceptable(*candidate, fails)) continue;
      now = std::move(*candidate);
      smaller = true;
    } catch (const std::exception&) {
      // The change made no trace.
    }
  }
  return smaller;
}

size_t instructions(const Trace& t) { return t.instrs.size(); }
size_t outputs(const Trace& t) { return t.outputs.size() > 1 ? t.outputs.size() : 0; }
size_t guards(const Trace& t) { return t.guards.size(); }
size_t inputs(const Trace& t) { return t.inputs.size(); }

// Only what the change of one round left.
size_t once(const Trace&) { return 1; }
std::optional<Trace> without_dead_code(const Trace& trace, uint32_t) {
  Trace result = remove_dead_code(trace);
  if (result.instrs.size() == trace.instrs.size()) return {};
  return result;
}

}  // namespace

Trace shrink(const Trace& trace, const std::function<bool(const Trace&)>& fails) {
  struct Way {
    Change change;
    size_t (*count)(const Trace&);
  };
  constexpr Way kWays[] = {{without_output, outputs}, {without_dead_code, once}, {without_instruction, instructions}, {with_operand, instructions},
                           {without_dead_code, once}, {without_guard, guards}, {without_input, inputs}};
  Trace now = trace;
  for (int round = 0; round < 8; ++round) {
    bool smaller = false;
    for (const Way& way : kWays) smaller |= apply_all(now, way.change, way.count, fails);
    if (!smaller) break;
  }
  return now;
}

}  // namespace escapement::fuzz
