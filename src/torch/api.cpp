// The public C++ API (include/escapement/escapement.h): a Region per Function, made at the first call of each arity.
#include "escapement/escapement.h"

#include <mutex>

#include "support/error.h"
#include "support/version.h"
#include "torch/api_options.h"
#include "torch/region.h"

namespace escapement {
namespace {

std::vector<InputSpec> unknown_inputs(size_t count) {
  std::vector<InputSpec> specs(count);
  for (size_t i = 0; i < count; ++i) specs[i].name = "arg" + std::to_string(i);
  return specs;
}

}  // namespace

Options parse_options(const OptionList& list) {
  Options options = default_options();
  for (const auto& [name, value] : list) {
    try {
      set_option(options, name, std::string_view(value));
    } catch (const UserError& error) {
      throw std::invalid_argument(error.what());
    }
  }
  return options;
}

struct Function::Impl {
  Body body;
  std::string name;
  Options options;
  std::mutex mutex;
  std::vector<std::unique_ptr<Region>> regions;  // by number of arguments

  Region& region(size_t arity) {
    const std::lock_guard lock(mutex);
    if (regions.size() <= arity) regions.resize(arity + 1);
    if (!regions[arity]) {
      const auto forward = [this](const Region::Values& in, Region::Values& out) {
        std::vector<at::Tensor> tensors;
        for (const c10::IValue& value : in) tensors.push_back(value.toTensor());
        for (at::Tensor& result : body(tensors)) out.emplace_back(std::move(result));
      };
      regions[arity] = std::make_unique<Region>(name, forward, unknown_inputs(arity), options);
    }
    return *regions[arity];
  }
};

const char* version() { return build_version().data(); }

Function::Function(Body body, const OptionList& options, std::string name) : impl_(new Impl) {
  impl_->body = std::move(body);
  impl_->name = std::move(name);
  impl_->options = parse_options(options);
}
Function::~Function() = default;
Function::Function(Function&&) noexcept = default;
Function& Function::operator=(Function&&) noexcept = default;

std::vector<at::Tensor> Function::operator()(const std::vector<at::Tensor>& arguments) const {
  Region::Values values(arguments.begin(), arguments.end()), outputs;
  impl_->region(arguments.size()).call(values, outputs);
  std::vector<at::Tensor> results;
  for (const c10::IValue& output : outputs) results.push_back(output.isTensor() ? output.toTensor() : at::Tensor());
  return results;
}

std::string Function::explain() const {
  const std::lock_guard lock(impl_->mutex);
  std::string text = "[";
  for (const auto& region : impl_->regions) {
    if (region) text += (text.size() > 1 ? "," : "") + region->info();
  }
  return text + "]";
}

}  // namespace escapement
