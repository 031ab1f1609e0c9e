// See float_power.h.
#include "torch/record/float_power.h"

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

const c10::OperatorHandle& power_operator() {
  static const auto library = [] {
    auto lib = std::make_unique<torch::Library>(torch::Library::FRAGMENT, "escapement", std::nullopt, __FILE__, static_cast<uint32_t>(__LINE__));
    lib->def("power(Tensor base, Tensor exponent) -> Tensor", {at::Tag::pointwise});
    lib->impl("power", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &power));
    return lib;
  }();
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("escapement::power", "");
  return op;
}

at::Tensor wrapped(Tape& tape, ValueId value, double seen) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
  return Wrapper::make(at::scalar_tensor(seen, at::TensorOptions(tape.recording.device).dtype(at::kDouble)), tape.shared_from_this(), value);
}

}  // namespace

ValueId record_power(Tape& tape, ValueId base_value, double base, ValueId exponent_value, double exponent) {
  torch::jit::Stack stack{wrapped(tape, base_value, base), wrapped(tape, exponent_value, exponent)};
  record_op(tape, power_operator(), stack);
  return tape.value_of(stack[0].toTensor());
}

}  // namespace escapement
