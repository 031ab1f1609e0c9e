// See exits.h.
#include "torch/record/exits.h"

#include <algorithm>
#include <set>

#include "support/limits.h"
#include "torch/record/lower.h"
#include "torch/record/symnode.h"
#include "torch/record/wrapper.h"
#include "trace/effects.h"

namespace escapement {
namespace {

bool is_given(const Trace& trace, Storage storage) {
  return std::any_of(trace.inputs.begin(), trace.inputs.end(), [&](const Input& i) { return i.value && trace.type(i.value).storage == storage; });
}

// Behind it a call cannot begin anew. The run time asks the same of steps (jit/run/plan_compiler.cpp).
bool is_seen_outside(const Trace& trace, const Instr& instr) {
  return acts_outside(instr) || std::any_of(instr.writes.begin(), instr.writes.end(), [&](uint32_t operand) {
    return instr.operands[operand] && is_given(trace, trace.type(instr.operands[operand]).storage);
  });
}

void add_values(const FloatExpr& expr, std::set<ValueId>& values) {
  if (!expr.reads) return;
  if (expr.kind == FloatExpr::Kind::value) values.insert(expr.value);
  if (expr.a) add_values(*expr.a, values);
  if (expr.b) add_values(*expr.b, values);
}

std::vector<Symbol> born_symbols(const Trace& trace) {
  std::vector<Symbol> born;
  for (uint32_t s = 0; s < trace.dims.symbol_count(); ++s) {
    if (trace.dims.info(Symbol(s)).source.value) born.emplace_back(s);
  }
  return born;
}

ScriptStep::Result result_of(const at::Tensor& result, std::span<const c10::IValue> arguments) {
  ScriptStep::Result found;
  if (!result.defined()) return found;
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isTensor() || !arguments[i].toTensor().is_same(result)) continue;
    found.kind = ScriptStep::Result::Kind::argument;
    found.argument = i;
    return found;
  }
  const Wrapper* const wrapper = Wrapper::of(result);
  if (!wrapper) return found;
  found.kind = ScriptStep::Result::Kind::tensor;
  found.value = wrapper->value();
  found.dtype = wrapper->inner().scalar_type();
  found.inference = wrapper->inner().is_inference();
  return found;
}

}  // namespace

void ExitNotes::hold(const Wrapper* wrapper) {
  const std::lock_guard lock(mutex_);
  wrappers_.insert(wrapper);
}

void ExitNotes::drop(const Wrapper* wrapper) {
  const std::lock_guard lock(mutex_);
  wrappers_.erase(wrapper);
}

void ExitNotes::hold(const std::shared_ptr<const FloatExpr>& number) {
  const std::lock_guard lock(mutex_);
  numbers_.push_back(number);
}

// A result that is no tensor of the recording (a tensor from outside, handed through) cannot be told later; nor can a change of shape, or of a
// type that a view shows its memory as, be made a second time.
void ExitNotes::note(const c10::OperatorHandle& op, const OpPlan& plan, std::span<const c10::IValue> arguments,
                     std::span<const c10::IValue> results, bool draws, const Trace& trace) {
  if (!possible_) return;
  if (plan.metadata && !plan.writes.empty()) return give_up();
  ScriptStep step{op.operator_name(), {}, {}, {}, draws};
  const auto add = [&](const at::Tensor& tensor) {
    const ScriptStep::Result result = result_of(tensor, arguments);
    const bool strange = result.kind == ScriptStep::Result::Kind::nothing && tensor.defined();
    if (strange || (result.value && trace.type(result.value).dtype != trace.type(trace.type(result.value).root).dtype)) give_up();
    step.results.push_back(result);
  };
  for (const c10::IValue& result : results) {
    if (result.isTensorList()) {
      const auto list = result.toTensorVector();
      step.returns.push_back({true, static_cast<uint32_t>(list.size())});
      for (const at::Tensor& tensor : list) add(tensor);
    } else if (result.isTensor()) {
      step.returns.push_back({false, 1});
      add(result.toTensor());
    } else {
      return give_up();
    }
  }
  for (const uint32_t written : plan.writes) {
    if (arguments[written].isTensorList()) continue;   // none of a list gets another value to stand for
    const Wrapper* const wrapper = arguments[written].isTensor() ? Wrapper::of(arguments[written].toTensor()) : nullptr;
    if (wrapper) step.renamed.emplace_back(written, wrapper->value());
    else if (!arguments[written].isNone()) give_up();
  }
  script_.push_back(std::move(step));
}

void ExitNotes::note_read(ScriptStep::Result read) {
  ScriptStep step;
  step.returns.push_back({false, 1});
  step.results.push_back(read);
  script_.push_back(std::move(step));
}

bool ExitNotes::has_acted(const Trace& trace) {
  for (; !acted_ && scanned_ < trace.instrs.size(); ++scanned_) acted_ = is_seen_outside(trace, trace.instrs[scanned_]);
  return acted_;
}

std::vector<ValueId> ExitNotes::held(const Trace& trace) {
  std::set<ValueId> values;
  const std::lock_guard lock(mutex_);
  for (const Wrapper* const wrapper : wrappers_) {
    if (wrapper->value()) values.insert(wrapper->value());
  }
  for (const auto& number : numbers_) {
    if (const auto expr = number.lock()) add_values(*expr, values);
  }
  std::set<ValueId> roots;
  for (const ValueId value : values) {
    const ValueId root = trace.type(value).root;
    if (root && trace[root].definition) roots.insert(root);
  }
  return {roots.begin(), roots.end()};
}

void ExitNotes::before_guard(Tape& tape, InstrId bound, const std::string& because, Location location) {
  const Trace& trace = tape.trace();
  if (!possible_ || inside_ > 0 || tape.lent.any() || !(everywhere_ || has_acted(trace))) return;
  if (!exits_.empty() && bound.index < exits_.back().at.instrs) return;   // tested where the side trace begins
  if (exits_.size() == limits::exits_of_a_recording) return give_up();
  tape.choices.at_exit();
  if (!tape.live()) return;
  Exit exit;
  exit.at = {static_cast<uint32_t>(trace.instrs.size()), held(trace), born_symbols(trace)};
  exit.steps = script_.size();
  exit.because = because;
  exit.location = location;
  auto before = std::make_shared<Trace>(trace);
  before->outputs = handed_on(before->dims, exit.at);
  exit.before = std::move(before);
  exits_.push_back(std::move(exit));
}

}  // namespace escapement
