// Weights of a module replaced as a whole (Module::swap_weights): a second state with the new tensors, whose versions share
// the code of the first, and one exchange at the gate.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "support/error.h"
#include "support/text.h"
#include "torch/serving/module_impl.h"

namespace escapement {

namespace {

using Weights = std::map<std::string, at::Tensor>;

std::string known_names(const ModuleFacts& facts) {
  std::string text;
  for (size_t i = 0; i < facts.weights.size() && i < 8; ++i) text += (i > 0 ? ", " : "") + facts.weights[i].name;
  return text + (facts.weights.size() > 8 ? ", ..." : "");
}

size_t position(const ModuleFacts& facts, const std::string& name) {
  const auto found =
      std::find_if(facts.weights.begin(), facts.weights.end(), [&](const WeightFacts& w) { return w.name == name; });
  if (found == facts.weights.end())
    throw UserError("escapement: '" + facts.name + "' has no weight " + quote(name) + "; it has " + known_names(facts));
  return static_cast<size_t>(found - facts.weights.begin());
}

void check_form(const std::string& name, const at::Tensor& old, const at::Tensor& fresh) {
  if (!fresh.defined() || !fresh.device().is_cpu() || fresh.layout() != c10::kStrided)
    throw UserError("escapement: the new weight " + quote(name) + " is no strided tensor on the CPU");
  if (fresh.scalar_type() != old.scalar_type() || fresh.sizes() != old.sizes())
    throw UserError("escapement: the new weight " + quote(name) + " is " + dtype_name(fresh.scalar_type()) +
                    c10::str(fresh.sizes()) + ", expected " + dtype_name(old.scalar_type()) + c10::str(old.sizes()));
}

// The same layout, so that versions fit; never the caller's memory.
at::Tensor copy_like(const at::Tensor& old, const at::Tensor& fresh) {
  const c10::InferenceMode ordinary(false);
  at::Tensor copy = at::empty_strided(old.sizes(), old.strides(), old.options());
  copy.copy_(fresh.detach());
  return copy;
}

// Bit by bit: a weight that is not a number is the same as itself.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto bytes = [](const at::Tensor& tensor) { return tensor.reshape(-1).view(at::kByte); };
  return bytes(a).equal(bytes(b));
}

class Swap {
 public:
  Swap(const ModuleFacts& facts, const std::vector<at::Tensor>& old) : facts_(facts), old_(old), fresh_(old), given_(old.size()) {}

  void put(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor& before = old_[position(facts_, name)];
    check_form(name, before, tensor);
    check_shared(name, before);
    const at::Tensor copy = copy_like(before, tensor);
    for (size_t i = 0; i < old_.size(); ++i) {
      if (!given_[i].defined() || !old_[i].is_same(before)) continue;  // weights that are one tensor stay one
      if (!given_[i].is_same(tensor) && !same_bits(copy, fresh_[i]))
        throw UserError("escapement: " + quote(facts_.weights[i].name) + " and " + quote(name) +
                        " are one tensor of the program, and different new values are given for it");
    }
    given_[position(facts_, name)] = tensor;
    for (size_t i = 0; i < old_.size(); ++i) {
      if (old_[i].is_same(before)) fresh_[i] = copy;
    }
  }

  const std::vector<at::Tensor>& weights() const { return fresh_; }

  at::Tensor replaced(const at::Tensor& tensor) const {
    for (size_t i = 0; i < old_.size(); ++i) {
      if (old_[i].is_same(tensor)) return fresh_[i];
    }
    return tensor;  // a constant of the program
  }

 private:
  void check_shared(const std::string& name, const at::Tensor& tensor) const {
    for (size_t i = 0; i < old_.size(); ++i) {
      if (!old_[i].is_same(tensor) && may_overlap(old_[i], tensor))
        throw ServingError(ErrorCode::unsupported, "escapement: the weight " + quote(name) + " shares memory with " +
                                                       quote(facts_.weights[i].name) +
                                                       " and cannot be replaced; load the program again");
    }
  }

  const ModuleFacts& facts_;
  const std::vector<at::Tensor>& old_;
  std::vector<at::Tensor> fresh_, given_;   // given: by whoever swaps, under this weight's name
};

void swap_all(Module::Impl& module, const Weights& weights) {
  const std::lock_guard lock(module.changing);
  const auto old = module.gate.enter();
  Swap swap(module.facts, old->runner.weights());
  for (const auto& [weight, tensor] : weights) swap.put(weight, tensor);
  auto fresh = std::make_shared<ModuleState>(module.facts, old->runner.with_weights(swap.weights()), module.listener());
  fresh->region.take_over(old->region, [&](const at::Tensor& tensor) { return swap.replaced(tensor); });
  module.gate.replace(std::move(fresh));
  module.meter.swapped();
}

}  // namespace

void Module::swap_weights(const Weights& weights) const {
  serving(name(), [&] { swap_all(*impl_, weights); });
  impl_->tell(LogLine::Level::info, "weights_swapped", std::to_string(weights.size()) + " weights");   // who hears it may change the module again
}

Weights Module::weights() const {
  return serving(name(), [&] {
    const auto state = impl_->gate.enter();
    Weights copies;
    for (size_t i = 0; i < impl_->facts.weights.size(); ++i)
      copies[impl_->facts.weights[i].name] = state->runner.weights()[i].clone();
    return copies;
  });
}

}  // namespace escapement
