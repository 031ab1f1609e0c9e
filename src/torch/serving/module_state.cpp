// See module_state.h.
#include "torch/serving/module_state.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <set>

#include "support/error.h"
#include "support/text.h"
#include "torch/exported/arguments.h"
#include "torch/exported/writes.h"

namespace escapement {

namespace {

std::vector<ExportedInput> user_inputs(const ExportedProgram& program) {
  std::vector<ExportedInput> inputs;
  for (const ExportedInput& input : program.inputs) {
    if (input.is_user()) inputs.push_back(input);
  }
  return inputs;
}

std::vector<InputSpec> input_specs(const std::vector<ExportedInput>& inputs) {
  std::vector<InputSpec> specs;
  for (const ExportedInput& input : inputs) {
    InputSpec spec;
    spec.name = input.name;
    spec.kind = input.kind == ExportedInput::Kind::integer ? InputSpec::Kind::integer : InputSpec::Kind::tensor;
    spec.sizes = input.tensor.sizes;
    spec.size = input.size;
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<InputForm> forms_of(const std::vector<ExportedInput>& inputs) {
  std::vector<InputForm> forms;
  for (const ExportedInput& input : inputs) {
    const bool integer = input.kind == ExportedInput::Kind::integer;
    forms.push_back({input.name, integer, integer ? c10::ScalarType::Long : dtype_from_schema(input.tensor.dtype)});
  }
  return forms;
}

void check_tensor(const InputForm& form, const at::Tensor& tensor) {
  if (!tensor.defined()) throw UserError("escapement: the input '" + form.name + "' is an undefined tensor");
  if (tensor.scalar_type() != form.dtype)
    throw UserError("escapement: the input '" + form.name + "' is of dtype " + c10::toString(tensor.scalar_type()) +
                    ", expected " + c10::toString(form.dtype) + "; convert it, or export the program with this dtype");
  if (!tensor.device().is_cpu() || tensor.layout() != c10::kStrided)
    throw UserError("escapement: the input '" + form.name + "' is no strided tensor on the CPU");
}

// The contract has been held: ranks are as declared.
int64_t value_of(const InputFact& fact, const c10::IValue& input, const std::string& name) {
  if (fact.kind == InputFact::Kind::value) return input.toInt();
  at::Tensor tensor = input.toTensor();
  if (fact.of_base) {
    if (!tensor.is_view())
      throw UserError("escapement: the input '" + name + "' is no view, and the program was exported with one under conditions on what "
                      "it is a view of; export it with a tensor of its own");
    tensor = tensor._base();
  }
  if (fact.kind == InputFact::Kind::offset) return tensor.storage_offset();
  if (fact.axis >= static_cast<size_t>(tensor.dim()))
    throw UserError("escapement: the input '" + name + "' has " + std::to_string(tensor.dim()) + " dims, and a condition of the program is "
                    "about dim " + std::to_string(fact.axis));
  return fact.kind == InputFact::Kind::size ? tensor.size(fact.axis) : tensor.stride(fact.axis);
}

}  // namespace

void InputForm::check(const c10::IValue& value) const {
  if (value.isTensor() == integer || (integer && !value.isInt()))
    throw UserError("escapement: the input '" + name + "' is " + value.tagKind() + ", expected " +
                    (integer ? "an integer" : "a tensor"));
  if (!integer) check_tensor(*this, value.toTensor());
}

ModuleFacts::ModuleFacts(std::string given_name, const ExportedProgram& program, std::string given_json,
                         Options given_options)
    : name(std::move(given_name)),
      json(std::move(given_json)),
      options(std::move(given_options)),
      forms(forms_of(user_inputs(program))),
      specs(input_specs(user_inputs(program))),
      contract(program.contract()),
      guards(program.guards),
      signature(signature_of(program)) {
  for (const InputForm& form : forms) names.push_back(form.name);
  const std::set<uint32_t> slots = written_inputs(program);
  for (const ExportedInput& input : program.inputs) {
    const bool is_written = slots.contains(input.slot);
    if (is_written) written.push_back(input.name);
    if (!input.is_user()) weights.push_back({input.name, input.kind, is_written});
  }
}

void ModuleFacts::check(const Region::Values& inputs) const {
  if (inputs.size() != forms.size())
    throw UserError("escapement: the program takes " + std::to_string(forms.size()) + " inputs (" +
                    join(names, ", ", [](const std::string& input) { return input; }) + "), and " +
                    std::to_string(inputs.size()) + " are given");
  for (size_t i = 0; i < forms.size(); ++i) forms[i].check(inputs[i]);
  check_sizes(inputs);
}

void ModuleFacts::check_sizes(const Region::Values& inputs) const {
  c10::SmallVector<std::span<const int64_t>, 16> seen;
  std::vector<int64_t> numbers(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].isTensor()) {
      const c10::IntArrayRef sizes = inputs[i].toTensor().sizes();
      seen.emplace_back(sizes.data(), sizes.size());
    } else {
      numbers[i] = inputs[i].toInt();
      seen.emplace_back(&numbers[i], 1);
    }
  }
  contract.check({seen.data(), seen.size()});
  if (!guards.empty()) check_guards(inputs);
}

void ModuleFacts::check_guards(const Region::Values& inputs) const {
  c10::SmallVector<int64_t, 16> values;
  for (const InputFact& fact : guards.facts()) values.push_back(value_of(fact, inputs[fact.input], names[fact.input]));
  guards.check({values.data(), values.size()});
}

ModuleState::ModuleState(const ModuleFacts& facts, GraphRunner graph, Listener listener)
    : runner(std::move(graph)),
      region(
          facts.name, [this](const Region::Values& in, Region::Values& out) { runner.run(in, out); }, facts.specs,
          facts.options) {
  region.hooks().listener = std::move(listener);
  region.keep_traces();
}

bool ModuleState::is_weight_memory(const at::Tensor& tensor) const {
  const auto& weights = runner.weights();
  return std::any_of(weights.begin(), weights.end(), [&](const at::Tensor& weight) { return may_overlap(weight, tensor); });
}

bool may_overlap(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined() || !a.has_storage() || !b.has_storage()) return false;
  const auto begin = [](const at::Tensor& t) { return reinterpret_cast<uintptr_t>(t.storage().data()); };
  return begin(a) < begin(b) + b.storage().nbytes() && begin(b) < begin(a) + a.storage().nbytes();
}

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::set<const void*> seen;
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (seen.insert(tensor.storage().data()).second) bytes += static_cast<int64_t>(tensor.storage().nbytes());
  }
  return bytes;
}

}  // namespace escapement
