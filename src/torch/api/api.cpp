// The public C++ API (include/escapement/escapement.h): Function is jit() for functions of a list of tensors.
#include "escapement/escapement.h"

#include "escapement/jit.h"
#include "support/error.h"
#include "support/events.h"
#include "support/version.h"
#include "torch/api/api_options.h"

namespace escapement {
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
  Jitted<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> compiled;
};

int64_t counter(const std::string& name) { return counted(name); }

const char* version() { return build_version().data(); }

Function::Function(Body body, const OptionList& options, std::string name)
    : impl_(new Impl{jit(std::move(body), options, std::move(name))}) {}
Function::~Function() = default;
Function::Function(Function&&) noexcept = default;
Function& Function::operator=(Function&&) noexcept = default;

std::vector<at::Tensor> Function::operator()(const std::vector<at::Tensor>& arguments) const { return impl_->compiled(arguments); }

std::string Function::explain() const { return impl_->compiled.explain(); }

}  // namespace escapement
