// The public API for exported programs (include/escapement/load.h): the inputs' check, then a Region over the program's
// graph.
#include "escapement/load.h"

#include <c10/util/SmallVector.h>

#include <filesystem>

#include "support/error.h"
#include "support/text.h"
#include "torch/api_options.h"
#include "torch/exported/archive.h"
#include "torch/exported/arguments.h"
#include "torch/exported/graph_runner.h"
#include "torch/region.h"

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

// Everything but the sizes, which are the contract's.
struct InputForm {
  std::string name;
  bool integer = false;
  c10::ScalarType dtype = c10::ScalarType::Float;

  void check(const c10::IValue& value) const {
    if (value.isTensor() == integer || (integer && !value.isInt()))
      throw UserError("escapement: the input '" + name + "' is " + value.tagKind() + ", expected " +
          (integer ? "an integer" : "a tensor"));
    if (!integer) check(value.toTensor());
  }

 private:
  void check(const at::Tensor& tensor) const {
    if (!tensor.defined()) throw UserError("escapement: the input '" + name + "' is an undefined tensor");
    if (tensor.scalar_type() != dtype)
      throw UserError("escapement: the input '" + name + "' is of dtype " + c10::toString(tensor.scalar_type()) +
          ", expected " +
                      c10::toString(dtype) + "; convert it, or export the program with this dtype");
    if (!tensor.device().is_cpu() || tensor.layout() != c10::kStrided)
      throw UserError("escapement: the input '" + name + "' is no strided tensor on the CPU");
  }
};

std::vector<InputForm> forms_of(const std::vector<ExportedInput>& inputs) {
  std::vector<InputForm> forms;
  for (const ExportedInput& input : inputs) {
    const bool integer = input.kind == ExportedInput::Kind::integer;
    forms.push_back({input.name, integer, integer ? c10::ScalarType::Long : dtype_from_schema(input.tensor.dtype)});
  }
  return forms;
}

}  // namespace

struct Module::Impl {
  Impl(const std::string& path, const ExportArchive& archive, const Options& options)
      : forms(forms_of(user_inputs(archive.program()))), contract(archive.program().contract()),
          runner(archive.program(), archive.weights()),
        region(std::filesystem::path(path).stem().string(),
            [this](const Region::Values& in, Region::Values& out) { runner.run(in, out); },
               input_specs(user_inputs(archive.program())), options) {
    for (const InputForm& form : forms) names.push_back(form.name);
  }

  void check(const Region::Values& inputs) const {
    if (inputs.size() != forms.size())
      throw UserError("escapement: the program takes " + std::to_string(forms.size()) + " inputs (" +
                      join(names, ", ", [](const std::string& name) { return name; }) + "), and " +
                          std::to_string(inputs.size()) + " are given");
    for (size_t i = 0; i < forms.size(); ++i) forms[i].check(inputs[i]);
    check_sizes(inputs);
  }

  void check_sizes(const Region::Values& inputs) const {
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
  }

  Region::Values call(const Region::Values& inputs) {
    check(inputs);
    Region::Values outputs;
    region.call(inputs, outputs);
    return outputs;
  }

  std::vector<InputForm> forms;
  std::vector<std::string> names;
  SizeContract contract;
  GraphRunner runner;
  Region region;
};

Module::Module(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Module::~Module() = default;
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&&) noexcept = default;

std::vector<c10::IValue> Module::run(const std::vector<c10::IValue>& inputs) const { return impl_->call(inputs); }

std::vector<at::Tensor> Module::operator()(const std::vector<at::Tensor>& inputs) const {
  std::vector<at::Tensor> results;
  for (c10::IValue& output : impl_->call({inputs.begin(), inputs.end()})) {
    if (!output.isTensor() && !output.isNone())
      throw UserError("escapement: result " + std::to_string(results.size()) +
          " of the program is a number: call run(), which returns these, too");
    results.push_back(output.isTensor() ? std::move(output).toTensor() : at::Tensor());
  }
  return results;
}

const std::vector<std::string>& Module::input_names() const { return impl_->names; }

std::string Module::explain() const { return impl_->region.info(); }

Module load(const std::string& path, const OptionList& options) {
  const Options parsed = parse_options(options);
  const ExportArchive archive(path);
  try {
    return Module(std::make_unique<Module::Impl>(path, archive, parsed));
  } catch (const UserError& error) {
    archive.fail(error.what());
  }
}

}  // namespace escapement
