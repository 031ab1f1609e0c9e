// See libm.h.
#include "torch/record/libm.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <cmath>

#include "torch/record/recorder_fallback.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

// The host's own, wherever the numbers lie.
at::Tensor power(const at::Tensor& base, const at::Tensor& exponent) {
  if (!base.is_cpu()) return at::scalar_tensor(std::pow(base.item<double>(), exponent.item<double>()), base.options());
  at::Tensor result = at::empty({}, base.options());
  *result.mutable_data_ptr<double>() = std::pow(*base.const_data_ptr<double>(), *exponent.const_data_ptr<double>());
  return result;
}

template <double (*function)(double)>
at::Tensor of_one(const at::Tensor& x) {
  return at::scalar_tensor(function(x.item<double>()), x.options());
}

// `log2` is asked for by symbolic numbers themselves, the rest by recording/number_calls.py.
struct Function {
  const char* name;
  at::Tensor (*of)(const at::Tensor&);
};
constexpr Function kFunctions[] = {
    {"log2", of_one<std::log2>}, {"log", of_one<std::log>}, {"log10", of_one<std::log10>}, {"log1p", of_one<std::log1p>}, {"exp", of_one<std::exp>},
    {"expm1", of_one<std::expm1>}, {"sin", of_one<std::sin>}, {"cos", of_one<std::cos>}, {"tan", of_one<std::tan>}, {"tanh", of_one<std::tanh>},
    {"atan", of_one<std::atan>},
};

at::Tensor like(const at::Tensor& x) { return at::empty({}, x.options()); }   // where there is no number: a graph is traced

c10::OperatorHandle libm_operator(const char* name) {
  define_libm();
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

at::Tensor wrapped(Tape& tape, ValueId value, double seen) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
  return Wrapper::make(at::scalar_tensor(seen, at::TensorOptions(tape.recording.device).dtype(at::kDouble)), tape.shared_from_this(), value);
}

ValueId recorded(Tape& tape, const c10::OperatorHandle& function, torch::jit::Stack stack) {
  record_op(tape, function, stack);
  return tape.value_of(stack[0].toTensor());
}

}  // namespace

void define_libm() {
  static const auto library = [] {
    auto lib = std::make_unique<torch::Library>(torch::Library::FRAGMENT, "escapement", std::nullopt, __FILE__, static_cast<uint32_t>(__LINE__));
    lib->def("power(Tensor base, Tensor exponent) -> Tensor", {at::Tag::pointwise});
    lib->impl("power", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &power));
    for (const Function& function : kFunctions) {
      lib->def((std::string(function.name) + "(Tensor x) -> Tensor").c_str(), {at::Tag::pointwise});
      lib->impl(function.name, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, function.of));
      lib->impl(function.name, torch::dispatch(c10::DispatchKey::Meta, &like));
    }
    return lib;
  }();
}

ValueId record_power(Tape& tape, ValueId base_value, double base, ValueId exponent_value, double exponent) {
  static const auto function = libm_operator("escapement::power");
  return recorded(tape, function, {wrapped(tape, base_value, base), wrapped(tape, exponent_value, exponent)});
}

ValueId record_log2(Tape& tape, ValueId value, double seen) {
  static const auto function = libm_operator("escapement::log2");
  return recorded(tape, function, {wrapped(tape, value, seen)});
}

}  // namespace escapement
