// The reference evaluator on the tensors of plan_runner.h: what every plan must equal.
#pragma once

#include <algorithm>
#include <optional>
#include <span>

#include "exec/plan_runner.h"
#include "trace/evaluator.h"

namespace escapement::testing {

inline escapement::HostTensor to_reference(const HostTensor& t) {
  escapement::HostTensor r;
  r.dtype = t.dtype;
  r.sizes = t.sizes;
  r.strides = t.strides;
  r.offset = t.offset;
  const auto memory = std::as_bytes(std::span(*t.memory));
  r.storage = std::make_shared<std::vector<std::byte>>(memory.begin(), memory.end());
  return r;
}

inline HostTensor from_reference(const escapement::HostTensor& r) {
  HostTensor t{r.dtype, r.sizes, r.strides, r.offset, std::make_shared<std::vector<char>>(r.storage->size())};
  std::copy(r.storage->begin(), r.storage->end(), std::as_writable_bytes(std::span(*t.memory)).begin());
  return t;
}

// Outputs that are tensors; the inputs afterwards hold what the trace wrote to them. Nothing if a guard refuses these sizes.
inline std::optional<std::vector<HostTensor>> run_reference(const Trace& trace, std::vector<HostTensor>& inputs, const PlanRunner::Call& call) {
  std::vector<HostInput> given;
  for (const HostTensor& t : inputs) given.push_back(to_reference(t));
  EvaluatorHooks hooks;
  hooks.call = [&](const Trace& t, const Instr& instr, std::span<const escapement::HostTensor> operands) {
    std::vector<HostTensor> own, results;
    for (const auto& o : operands) own.push_back(from_reference(o));
    for (ValueId v : instr.results) results.push_back(make_tensor(t.type(v).dtype, own[0].sizes));
    call(instr, own, results);
    std::vector<escapement::HostTensor> answers;
    for (const HostTensor& r : results) answers.push_back(to_reference(r));
    return answers;
  };
  const Evaluation done = evaluate(trace, given, hooks);
  if (done.failed_guard) return {};
  std::vector<HostTensor> outputs;
  for (const HostOutput& o : done.outputs) {
    if (const auto* t = std::get_if<escapement::HostTensor>(&o)) outputs.push_back(from_reference(*t));
  }
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = from_reference(std::get<escapement::HostTensor>(given[i]));
  return outputs;
}

}  // namespace escapement::testing
