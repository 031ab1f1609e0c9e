// See graph_runner.h.
#include "torch/exported/graph_runner.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>

#include "jit/run/call_control.h"
#include "support/error.h"
#include "support/text.h"
#include "torch/exported/autocast_state.h"
#include "torch/exported/steps.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

using Kind = ExportedValue::Kind;

template <class Use>
void for_each_slot(const ExportedValue& value, Use use) {
  if (value.kind == Kind::slot) use(value.slot);
  for (const ExportedValue& item : value.items) for_each_slot(item, use);
}

c10::IValue result_of(const ExportedValue& value, const GraphRunner::Values& values) {
  switch (value.kind) {
    case Kind::slot: return values[value.slot];
    case Kind::integer: return value.integer;
    case Kind::real: return value.real;
    case Kind::boolean: return value.integer != 0;
    case Kind::none: return {};
    default: throw UserError("an output of the program is no tensor, number or None");
  }
}

// While a recording is made: what the tensors stand for does.
bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  const auto real = [](const at::Tensor& tensor) {
    const Wrapper* const wrapper = Wrapper::of(tensor);
    return wrapper ? wrapper->inner() : tensor;
  };
  const at::Tensor left = real(a), right = real(b);
  return left.defined() && right.defined() && left.has_storage() && right.has_storage() && left.is_alias_of(right);
}

}  // namespace

GraphRunner::GraphRunner(const ExportedProgram& program, std::vector<at::Tensor> weights)
    : outputs_(program.outputs), weights_(std::move(weights)), slots_(program.slots) {
  for (const ExportedNode& node : program.nodes) {
    try {
      steps_.push_back(make_step(node));
      has_autocast_ = has_autocast_ || node.target == kEnterAutocast;
    } catch (const UserError& error) {
      throw UserError("node " + quote(node.name) + " (" + node.target.substr(0, 200) + "): " + error.what());
    }
  }
  place_inputs(program);
  plan_frees(program);
}

GraphRunner::~GraphRunner() = default;
GraphRunner::GraphRunner(GraphRunner&&) noexcept = default;
GraphRunner::GraphRunner(const GraphRunner&) = default;

GraphRunner GraphRunner::with_weights(std::vector<at::Tensor> weights) const {
  ESCAPEMENT_CHECK(weights.size() == weights_.size(), "one tensor per weight");
  GraphRunner other(*this);
  other.weights_ = std::move(weights);
  return other;
}

void GraphRunner::place_inputs(const ExportedProgram& program) {
  for (const ExportedInput& input : program.inputs)
    (input.is_user() ? argument_slots_ : weight_slots_).push_back(input.slot);
  ESCAPEMENT_CHECK(weight_slots_.size() == weights_.size(), "one tensor per weight");
}

// A value dies after the last step that reads it; what is written back or returned lives to the end, and so do inputs.
void GraphRunner::plan_frees(const ExportedProgram& program) {
  constexpr uint32_t kNever = UINT32_MAX;
  std::vector<uint32_t> last(slots_, kNever);
  for (uint32_t i = 0; i < program.nodes.size(); ++i) {
    const auto note = [&](uint32_t slot) { last[slot] = i; };
    for (const ExportedValue& output : program.nodes[i].outputs) for_each_slot(output, note);
    for (const auto& [name, value] : program.nodes[i].inputs) for_each_slot(value, note);
  }
  for (const ExportedInput& input : program.inputs) last[input.slot] = kNever;
  for (const ExportedOutput& output : outputs_) for_each_slot(output.value, [&](uint32_t slot) { last[slot] = kNever; });
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    if (last[slot] != kNever) steps_[last[slot]]->frees.push_back(slot);
  }
}

void GraphRunner::run(const Values& arguments, Values& results) const {
  ESCAPEMENT_CHECK(arguments.size() == argument_slots_.size(), "as many arguments as inputs");
  Values values(slots_);
  for (size_t i = 0; i < arguments.size(); ++i) values[argument_slots_[i]] = arguments[i];
  for (size_t i = 0; i < weights_.size(); ++i) values[weight_slots_[i]] = weights_[i];
  const std::optional<AutocastScope> scope = has_autocast_ ? std::optional<AutocastScope>(std::in_place) : std::nullopt;
  ControlledRun control;
  for (const auto& step : steps_) {
    control.step(step->effect);
    try {
      step->run(values);
    } catch (const UserError& error) {
      throw UserError("escapement: node " + quote(step->name) + " (" + step->target.substr(0, 200) + "): " + error.what());
    }
    for (const uint32_t slot : step->frees) values[slot] = c10::IValue();
  }
  control.step(true);
  write_back(values);
  for (const ExportedOutput& output : outputs_) {
    if (!output.is_write) results.push_back(result_of(output.value, values));
  }
}

// What is written, and what is a result, was computed from the state as it was: `b <- a, a <- x` writes the a that was there. So what lies in
// memory that is written here is kept first.
void GraphRunner::write_back(Values& values) const {
  std::vector<at::Tensor> destinations(outputs_.size());   // by output; no tensor: a result
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].is_write) continue;
    const c10::IValue &destination = values[outputs_[i].destination], &value = values[outputs_[i].value.slot];
    if (!destination.isTensor() || !value.isTensor()) throw UserError("escapement: what the program writes back is no tensor");
    if (!destination.toTensor().is_same(value.toTensor())) destinations[i] = destination.toTensor();
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].value.kind != Kind::slot) continue;
    c10::IValue& value = values[outputs_[i].value.slot];
    const auto is_in = [&](const at::Tensor& written) { return value.isTensor() && share_memory(value.toTensor(), written); };
    if (std::ranges::any_of(destinations, is_in)) value = value.toTensor().clone();
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (destinations[i].defined()) destinations[i].copy_(values[outputs_[i].value.slot].toTensor());
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {   // a result that was written back is the input itself, as the module gives it
    if (destinations[i].defined()) values[outputs_[i].value.slot] = std::move(destinations[i]);
  }
}

}  // namespace escapement
