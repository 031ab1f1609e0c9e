// See random_state.h.
#include "torch/record/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

#include <memory>
#include <mutex>

namespace escapement {

namespace {

at::Tensor rng_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_rng_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

void install_random_state() {
  static const auto library = [] {
    auto lib = std::make_unique<torch::Library>(torch::Library::FRAGMENT, "escapement", std::nullopt, __FILE__, static_cast<uint32_t>(__LINE__));
    lib->def("rng_state() -> Tensor", {at::Tag::nondeterministic_seeded});
    lib->def("set_rng_state(Tensor state) -> ()", {at::Tag::nondeterministic_seeded});
    // Without a tensor among its arguments an operator is at home nowhere but here.
    lib->impl("rng_state", torch::dispatch(c10::DispatchKey::BackendSelect, TORCH_FN(rng_state)));
    lib->impl("set_rng_state", torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(set_rng_state)));
    return lib;
  }();
}

}  // namespace escapement
