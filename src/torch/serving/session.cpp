// Sessions: the memory of results used again, and what may stop a call (include/escapement/serving.h).
#include <algorithm>

#include "support/error.h"
#include "torch/program/pool.h"
#include "torch/serving/module_impl.h"

namespace escapement {

struct Session::Impl {
  explicit Impl(Module given) : module(std::move(given)) {}

  Module module;
  std::atomic<bool> cancelled{false};
  std::chrono::nanoseconds timeout{0};
  Clock::time_point deadline = Clock::time_point::max();
  std::vector<c10::IValue> inputs, outputs;  // of tensor runs; of the last run
  std::vector<at::Tensor> offers;
  std::vector<bool> lent;                    // of the outputs: in memory of an input of the last run

  CallControl control() const {
    return {&cancelled, timeout.count() > 0 ? std::min(deadline, end_of(timeout)) : deadline};
  }

  // The last results, where nobody else holds them or their memory. Who reads memory that came from elsewhere (from_blob, DLPack, a mapped
  // file) is in no count.
  void offer_outputs() {
    offers.clear();
    for (size_t i = 0; i < outputs.size(); ++i) {
      offers.emplace_back();
      if (!outputs[i].isTensor()) continue;
      at::Tensor tensor = std::move(outputs[i]).toTensor();
      const bool lent_here = i < lent.size() && lent[i];
      if (!lent_here && tensor.defined() && tensor.has_storage() && tensor.use_count() == 1 && tensor.storage().use_count() == 1 &&
          is_allocated_memory(tensor.storage().data_ptr()))
        offers.back() = std::move(tensor);
    }
  }

  // A result that is an input, or a view of one.
  void note_lent(const std::vector<c10::IValue>& of) {
    lent.assign(outputs.size(), false);
    const auto shares = [&](const c10::IValue& output) {
      return std::ranges::any_of(of, [&](const c10::IValue& input) { return input.isTensor() && may_overlap(input.toTensor(), output.toTensor()); });
    };
    for (size_t i = 0; i < outputs.size(); ++i) lent[i] = outputs[i].isTensor() && shares(outputs[i]);
  }
};

namespace {

// An output that the plan may write at once: whatever else the call reads or writes lies elsewhere.
bool may_offer(const at::Tensor& output, const std::vector<c10::IValue>& inputs, const std::vector<at::Tensor>& outputs,
               const ModuleState& state) {
  for (const c10::IValue& input : inputs) {
    if (input.isTensor() && may_overlap(input.toTensor(), output)) return false;
  }
  const auto same = [&](const at::Tensor& other) { return may_overlap(other, output); };
  return std::count_if(outputs.begin(), outputs.end(), same) <= 1 && !state.is_weight_memory(output);
}

void check_outputs(const std::vector<at::Tensor>& outputs, const std::vector<c10::IValue>& results) {
  if (outputs.size() != results.size())
    throw UserError("escapement: the program has " + std::to_string(results.size()) + " results, and " +
                    std::to_string(outputs.size()) + " outputs are given");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!results[i].isTensor()) throw UserError("escapement: result " + std::to_string(i) + " is no tensor: call run");
    const at::Tensor& result = results[i].toTensor();
    if (outputs[i].scalar_type() != result.scalar_type() || outputs[i].sizes() != result.sizes())
      throw UserError("escapement: output " + std::to_string(i) + " is " + dtype_name(outputs[i].scalar_type()) +
                      c10::str(outputs[i].sizes()) + ", and the result is " + dtype_name(result.scalar_type()) +
                      c10::str(result.sizes()));
  }
}

// What is not in its place yet. A result that lies in memory of another output is taken out of there before any is written.
void copy_into(const std::vector<at::Tensor>& outputs, std::vector<c10::IValue>& results) {
  const auto in_place = [&](size_t i) { return results[i].toTensor().is_same(outputs[i]); };
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto hit = [&](const at::Tensor& output) { return may_overlap(output, results[i].toTensor()); };
    if (!in_place(i) && std::any_of(outputs.begin(), outputs.end(), hit)) results[i] = results[i].toTensor().clone();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!in_place(i)) outputs[i].copy_(results[i].toTensor());
  }
}

void require(const void* session) {
  if (session == nullptr) throw ServingError(ErrorCode::invalid_input, "escapement: this session was moved from: use the one that it was moved into");
}

void check_given(const std::vector<at::Tensor>& outputs) {
  for (const at::Tensor& output : outputs) {
    if (!output.defined() || !output.device().is_cpu() || output.layout() != c10::kStrided)
      throw UserError("escapement: an output is no strided tensor on the CPU");
  }
}

}  // namespace

Session::Session(Module module) : impl_(std::make_unique<Impl>(std::move(module))) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const std::vector<c10::IValue>& Session::run(const std::vector<c10::IValue>& inputs) {
  require(impl_.get());
  if (&inputs == &impl_->outputs) return run(std::vector<c10::IValue>(inputs));   // its own results: somebody holds them now
  return serving(impl_->module.name(), [&]() -> const std::vector<c10::IValue>& {
    impl_->offer_outputs();
    const CallControl control = impl_->control();
    impl_->module.impl_->call(inputs, impl_->outputs, impl_->offers, &control);
    impl_->offers.clear();
    impl_->note_lent(inputs);
    return impl_->outputs;
  });
}

const std::vector<c10::IValue>& Session::run(const std::vector<at::Tensor>& inputs) {
  require(impl_.get());
  impl_->inputs.assign(inputs.begin(), inputs.end());
  struct Clear {
    std::vector<c10::IValue>& values;
    ~Clear() { values.clear(); }
  } const clear{impl_->inputs};
  return run(impl_->inputs);
}

void Session::run_into(const std::vector<c10::IValue>& inputs, const std::vector<at::Tensor>& outputs) {
  require(impl_.get());
  serving(impl_->module.name(), [&] {
    check_given(outputs);
    std::vector<at::Tensor> offers(outputs.size());
    {
      const auto state = impl_->module.impl_->gate.enter();
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (may_offer(outputs[i], inputs, outputs, *state)) offers[i] = outputs[i];
      }
    }
    const CallControl control = impl_->control();
    std::vector<c10::IValue> results;
    impl_->module.impl_->call(inputs, results, offers, &control);
    check_outputs(outputs, results);
    copy_into(outputs, results);
  });
}

void check_timeout(std::chrono::nanoseconds timeout) {
  if (timeout.count() >= 0) return;
  throw ServingError(ErrorCode::invalid_input, "escapement: a timeout of " + std::to_string(timeout.count()) +
                                                   " ns is negative: zero is none, and set_deadline takes an end that may have passed");
}

CallControl::Clock::time_point end_of(std::chrono::nanoseconds timeout) {
  using Clock = CallControl::Clock;
  const Clock::time_point now = Clock::now();
  const bool ends = timeout.count() > 0 && timeout < Clock::time_point::max() - now;   // a later end than there is time for is none
  return ends ? now + timeout : Clock::time_point::max();
}

void Session::set_timeout(std::optional<std::chrono::nanoseconds> per_run) {
  require(impl_.get());
  check_timeout(per_run.value_or(std::chrono::nanoseconds(0)));
  impl_->timeout = per_run.value_or(std::chrono::nanoseconds(0));
}
void Session::set_deadline(Clock::time_point deadline) {
  require(impl_.get());
  impl_->deadline = deadline;
}
void Session::cancel() {
  require(impl_.get());
  impl_->cancelled.store(true, std::memory_order_relaxed);
}
void Session::reset() {
  require(impl_.get());
  impl_->cancelled.store(false, std::memory_order_relaxed);
}

}  // namespace escapement
