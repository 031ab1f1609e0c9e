// See random_mask.h.
#include "torch/record/random_mask.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "support/mersenne_twister.h"

namespace escapement {

namespace {

constexpr int64_t kFewest = 192;     // to copy the generator's state costs as much as a hundred draws
constexpr int64_t kAtOnce = 2048;    // draws whose words stay near

MersenneTwister twister_of(const at::mt19937_data_pod& data) { return {data.state_, MersenneTwister::kWords + 1 - static_cast<size_t>(data.left_)}; }

// In ATen's terms: `left_` is one more than what is left of the state.
at::mt19937 engine_of(const MersenneTwister& twister, at::mt19937_data_pod data) {
  data.state_ = twister.state();
  data.left_ = static_cast<int>(MersenneTwister::kWords + 1 - twister.used());
  data.next_ = static_cast<uint32_t>(twister.used());
  at::mt19937 engine;
  engine.set_data(data);
  return engine;
}

void draw(at::CPUGeneratorImpl& generator, double keep, std::span<bool> mask) {
  const at::mt19937_data_pod data = generator.engine().data();
  MersenneTwister twister = twister_of(data);
  std::array<uint32_t, 2 * kAtOnce> words;
  for (size_t done = 0; done < mask.size();) {
    const size_t count = std::min<size_t>(kAtOnce, mask.size() - done);
    const std::span<uint32_t> some(words.data(), 2 * count);
    twister.fill(some);
    compare_draws(some, keep, mask.data() + done);
    done += count;
  }
  generator.set_engine(engine_of(twister, data));
}

std::span<bool> elements(const at::Tensor& mask) { return {mask.mutable_data_ptr<bool>(), static_cast<size_t>(mask.numel())}; }

// A torch that is built in another way draws from Bernoulli distributions by a generator of MKL's: asked once, since nothing says so.
bool draws_as_torch() {
  static const bool same = [] {
    constexpr double kKeep = 0.3;
    const at::Generator theirs = at::detail::createCPUGenerator(1), ours = at::detail::createCPUGenerator(1);
    const at::Tensor expected = at::empty({kFewest}, at::kBool).bernoulli_(kKeep, theirs), mask = at::empty({kFewest}, at::kBool);
    draw(*at::check_generator<at::CPUGeneratorImpl>(ours), kKeep, elements(mask));
    return mask.equal(expected) && ours.get_state().equal(theirs.get_state());
  }();
  return same;
}

at::Tensor random_mask_on_cpu(c10::SymIntArrayRef size, double keep) {
  at::Tensor mask = at::empty(C10_AS_INTARRAYREF_SLOW(size), at::kBool);
  if (mask.numel() < kFewest || !(keep >= 0 && keep <= 1) || !draws_as_torch()) return mask.bernoulli_(keep);
  auto* const generator = at::get_generator_or_default<at::CPUGeneratorImpl>(std::nullopt, at::detail::getDefaultCPUGenerator());
  const std::lock_guard lock(generator->mutex_);
  draw(*generator, keep, elements(mask));
  return mask;
}

}  // namespace

void install_random_mask() {
  static const auto library = [] {
    auto lib = std::make_unique<torch::Library>(torch::Library::FRAGMENT, "escapement", std::nullopt, __FILE__, static_cast<uint32_t>(__LINE__));
    lib->def("random_mask(SymInt[] size, float keep) -> Tensor", {at::Tag::nondeterministic_seeded});
    // Without a tensor among its arguments an operator is at home nowhere but here.
    lib->impl("random_mask", torch::dispatch(c10::DispatchKey::BackendSelect, TORCH_FN(random_mask_on_cpu)));
    return lib;
  }();
}

at::Tensor random_mask(c10::SymIntArrayRef size, double keep) {
  install_random_mask();
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("escapement::random_mask", "").typed<at::Tensor(c10::SymIntArrayRef, double)>();
  return op.call(size, keep);
}

}  // namespace escapement
