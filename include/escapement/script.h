// Methods of TorchScript modules, compiled for all sizes: what torch::jit::load read, or a module that was defined in the program.
//
//   auto f = escapement::jit<at::Tensor(at::Tensor, at::Tensor)>(torch::jit::load("model.pt"));
//   at::Tensor y = f(ids, mask);
//
// docs/cpp.md, "TorchScript", is the contract. Source: torch/csrc/jit.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "escapement/jit.h"

namespace escapement::inline ESCAPEMENT_ABI {

// One method of a module. A call runs it as the module does; where it is recorded, what the method computes of sizes stays symbolic, which
// TorchScript's own interpreter would read as numbers. Any number of threads may call it. UserError: the module has no such method.
class ESCAPEMENT_API Script {
 public:
  explicit Script(const torch::jit::Module& module, const std::string& method = "forward");
  ~Script();
  Script(const Script&);
  Script(Script&&) noexcept;
  Script& operator=(const Script&) = delete;
  Script& operator=(Script&&) = delete;

  // The method's parameters in order; those at the end that have defaults may be left out. Raises what the method raises.
  c10::IValue operator()(std::vector<c10::IValue> arguments) const;

  // Why TorchScript's interpreter runs it also where it is recorded, so that sizes are read as numbers: the node that has no rule here. Empty: it does not.
  const std::string& refused() const;
  // The state of the module, as jit() watches it: whatever is assigned to an attribute is noticed by the next call.
  std::shared_ptr<torch::nn::Module> state() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

namespace detail {

// std::invalid_argument: the method returns something else than the signature says. (torch's own words for it are those of a failed assertion.)
template <class R>
R result_as(const c10::IValue& result) {
  try {
    return result.to<R>();
  } catch (const c10::Error&) {
    throw std::invalid_argument("the method of the TorchScript module returned a " + result.type()->repr_str() +
                    ", which is not what the signature given to escapement::jit returns; name the method's own type there");
  }
}

template <class Signature>
struct ScriptCall;
template <class R, class... As>
struct ScriptCall<R(As...)> {
  static Jitted<R(As...)> make(Script script, JitSettings settings) {
    Watched watched{script.state(), {}};
    auto call = [script = std::move(script)](passed<As>... arguments) -> R {
      std::vector<c10::IValue> values;
      values.reserve(sizeof...(As));
      (values.emplace_back(std::forward<decltype(arguments)>(arguments)), ...);
      const c10::IValue result = script(std::move(values));
      if constexpr (!std::is_void_v<R>) return result_as<R>(result);
    };
    return {std::move(call), std::move(watched), std::move(settings)};
  }
};

}  // namespace detail

// The compiled form of a method, `forward` if none is named, with the signature that C++ calls it by: at::Tensor, numbers, bool, std::string,
// c10::SymInt, std::vector, std::optional and std::tuple of them.
template <class Signature>
  requires std::is_function_v<Signature>
Jitted<Signature> jit(Script script, JitOptions options = {}) {
  return detail::ScriptCall<Signature>::make(std::move(script), detail::settings_of(std::move(options), "script"));
}
template <class Signature>
  requires std::is_function_v<Signature>
Jitted<Signature> jit(const torch::jit::Module& module, JitOptions options = {}) {
  return jit<Signature>(Script(module), std::move(options));
}

}  // namespace escapement
