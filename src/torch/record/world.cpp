// See world.h.
#include "torch/record/world.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>

#include "support/float_mode.h"
#include "support/fork.h"
#include "torch/record/process_flags.h"
#include "torch/record/recorder_tape.h"

namespace escapement {
namespace {

// --- the rows

struct Row {
  const char* name;
  uint64_t (*now)();
  bool inside;   // decides about the meaning of operators, also where the program puts it back before its end
};

// The recorder's own key comes and goes with the recording.
uint64_t but_ours(c10::DispatchKeySet keys) { return keys.remove(kRecorderKey).raw_repr(); }

uint64_t autograd_state() {
  const auto& state = c10::AutogradState::get_tls_state();
  return state.get_grad_mode() | state.get_inference_mode() << 1 | state.get_fw_grad_mode() << 2 | state.get_multithreading_enabled() << 3 |
         state.get_view_replay_enabled() << 4 | state.get_grad_layout_enforcement_enabled() << 5;
}

uint64_t autocast_state() {
  const int nesting = at::autocast::increment_nesting();
  at::autocast::decrement_nesting();
  return static_cast<uint64_t>(at::autocast::get_autocast_dtype(at::kCPU)) | static_cast<uint64_t>(nesting) << 16 |
         static_cast<uint64_t>(at::autocast::is_autocast_cache_enabled()) << 8;
}

// Flags that decide what an operator computes, or whether it raises; which of several implementations runs is not among them.
uint64_t meaning_flags() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() | context.deterministicAlgorithmsWarnOnly() << 1 |
         context.deterministicFillUninitializedMemory() << 2 | context.allowFP16ReductionCPU() << 3;
}

uint64_t precisions() {
  uint64_t bits = 0;
  for (const auto op : {at::Float32Op::ALL, at::Float32Op::CONV, at::Float32Op::RNN, at::Float32Op::MATMUL})
    bits = bits << 8 | static_cast<uint64_t>(at::globalContext().float32Precision(at::Float32Backend::MKLDNN, op));
  return bits;
}

uint64_t torch_modes() {
  return static_cast<uint64_t>(at::impl::PythonTorchFunctionTLS::stack_len()) << 32 |
         static_cast<uint64_t>(c10::impl::TorchDispatchModeTLS::stack_len()) << 8 |
         static_cast<uint64_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state());
}

uint64_t tape_hooks() {
  return at::SavedTensorDefaultHooks::get_tls_state().stack.size() << 2 | at::SavedTensorDefaultHooks::is_enabled() << 1 |
         torch::autograd::AnomalyMode::is_enabled();
}

constexpr Row kRows[] = {
    {"the default dtype", [] { return static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()); }, true},
    {"denormals or rounding of this thread", [] { return static_cast<uint64_t>(float_mode()); }, true},
    {"deterministic algorithms", meaning_flags, true},
    {"precision of float32 matrix products", precisions, true},
    {"grad or inference mode", autograd_state, false},
    {"dispatch keys of this thread", [] { return but_ours(c10::impl::tls_local_dispatch_key_set().included_); }, false},
    {"excluded dispatch keys of this thread, such as autocast", [] { return but_ours(c10::impl::tls_local_dispatch_key_set().excluded_); },
     false},
    {"autocast's dtype, cache or nesting", autocast_state, false},
    {"torch function or dispatch modes", torch_modes, false},
    {"hooks of saved tensors, or anomaly mode", tape_hooks, false},
    {"the number of threads", [] { return static_cast<uint64_t>(at::get_num_threads()); }, false},
    {"warnings", [] { return static_cast<uint64_t>(c10::WarningUtils::get_warnAlways()); }, false},
    {"a flag of the process, such as those of torch.backends", [] { return static_cast<uint64_t>(flags_number()); }, false},
};

// --- generators

// torch's own generator, which a recording asks at every operator: a child would find its lock taken by a thread that drew or recorded
// in the parent. Never ended: a fork comes whenever it comes.
[[maybe_unused]] const HeldOverForks& default_generator = []() -> const HeldOverForks& {
  static at::Generator* const generator = new at::Generator(at::detail::getDefaultCPUGenerator());
  return *new HeldOverForks(generator->mutex());
}();

// Two engines are compared member by member: there is padding between them.
bool same_engine(const at::mt19937_data_pod& a, const at::mt19937_data_pod& b) {
  return a.seed_ == b.seed_ && a.left_ == b.left_ && a.seeded_ == b.seeded_ && a.next_ == b.next_ && a.state_ == b.state_;
}

}  // namespace

Ground Ground::now() { return {flags_number(), c10::get_default_dtype_as_scalartype()}; }

World::World() {
  for (const Row& row : kRows) seen_.push_back(row.now());
}

std::string World::changed() const {
  for (size_t i = 0; i < std::size(kRows); ++i)
    if (kRows[i].now() != seen_[i]) return kRows[i].name;
  return {};
}

std::string World::changed_inside() const {
  for (size_t i = 0; i < std::size(kRows); ++i)
    if (kRows[i].inside && kRows[i].now() != seen_[i]) return kRows[i].name;
  return {};
}

// A generator and what its state was after the last operator.
struct WorldWatch::Watched {
  mutable at::Generator generator;           // its lock is no const thing
  at::mt19937_data_pod engine;
  std::optional<float> next_float;
  std::optional<double> next_double;

  explicit Watched(at::Generator watched) : generator(std::move(watched)) { note(); }

  at::CPUGeneratorImpl& state() const { return *generator.get<at::CPUGeneratorImpl>(); }
  void note() {
    const std::lock_guard lock(generator.mutex());
    engine = state().engine().data();
    next_float = state().next_float_normal_sample();
    next_double = state().next_double_normal_sample();
  }
  bool holds() const {
    const std::lock_guard lock(generator.mutex());
    return same_engine(engine, state().engine().data()) && next_float == state().next_float_normal_sample() &&
           next_double == state().next_double_normal_sample();
  }
};

WorldWatch::WorldWatch(std::span<const at::Generator> known) {
  generators_.emplace_back(at::detail::getDefaultCPUGenerator());
  for (const at::Generator& generator : known)
    if (generator.defined() && generator.device().is_cpu()) generators_.emplace_back(generator);
}

WorldWatch::~WorldWatch() = default;

std::string WorldWatch::moved() const {
  const bool all = std::all_of(generators_.begin(), generators_.end(), [](const Watched& watched) { return watched.holds(); });
  return all ? "" : "the state of a random generator";
}

std::string WorldWatch::before(std::span<const c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    if (!argument.isGenerator()) continue;
    const at::Generator& generator = argument.toGenerator();
    const auto watched = [&](const Watched& one) { return one.generator == generator; };
    if (!generator.defined() || std::any_of(generators_.begin(), generators_.end(), watched)) continue;
    unknown_.push_back(generator);
    return "a random generator that was not known when the recording began";
  }
  std::string changed = world_.changed_inside();
  return changed.empty() ? moved() : changed;
}

bool WorldWatch::after() {
  bool drew = false;
  for (Watched& watched : generators_) {
    if (watched.holds()) continue;
    drew = true;
    watched.note();
  }
  return drew;
}

std::string WorldWatch::at_end() {
  std::string changed = world_.changed();
  return changed.empty() ? moved() : changed;
}

}  // namespace escapement
