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

namespace {

std::string as_text(bool value) { return value ? "true" : "false"; }
std::string as_text(int64_t value) { return std::to_string(value); }
std::string as_text(const std::string& value) { return value; }
std::string as_text(Compile value) { return value == Compile::block ? "block" : "background"; }

// Those rows of the table that the struct has, where they are said.
template <class Struct>
OptionList said(const Struct& options) {
  OptionList list;
#define OPTION(name, ...)                                                              \
  if constexpr (requires { options.name; }) {                                          \
    if (options.name) list.emplace_back(#name, as_text(*options.name));                \
  }
#include "support/options.def"
#undef OPTION
  return list;
}

}  // namespace

OptionList option_list(const LoadOptions& options) { return said(options); }

struct Function::Impl {
  Jitted<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> compiled;
};

Function::Function(Body body, const OptionList& options, std::string name)
    : impl_(new Impl{jit(std::move(body), options, std::move(name))}) {}
Function::~Function() = default;
Function::Function(Function&&) noexcept = default;
Function& Function::operator=(Function&&) noexcept = default;

std::vector<at::Tensor> Function::operator()(const std::vector<at::Tensor>& arguments) const { return impl_->compiled(arguments); }

std::string Function::explain() const { return impl_->compiled.explain(); }

}  // namespace escapement

namespace escapement::inline ESCAPEMENT_ABI {

int64_t counter(const std::string& name) { return counted(name); }

const char* version() { return build_version().data(); }

detail::JitSettings detail::settings_of(JitOptions options, const char* usual_name) {
  OptionList list = said(options);
  if (options.mode == Mode::replay) list.emplace_back("mode", "replay");
  return {std::move(list), options.name.empty() ? usual_name : std::move(options.name), std::move(options.log)};
}

}  // namespace escapement
