// See pack.h.
#include "torch/program/pack.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <unordered_map>

#include "support/events.h"
#include "support/fork.h"
#include "torch/program/pack_convolution.h"
#include "torch/program/pool.h"

namespace escapement {
namespace {

using Linear = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                          c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
using Reorder = at::Tensor(const at::Tensor&, std::optional<int64_t>);

bool library_present() {
  static const bool present = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""}).has_value() &&
                              c10::Dispatcher::singleton().findSchema({"mkldnn::_reorder_linear_weight", ""}).has_value();
  return present;
}

std::string_view bytes_of(const at::Tensor& weight) { return {static_cast<const char*>(weight.const_data_ptr()), weight.nbytes()}; }

std::array<uint64_t, 16> sample(const at::Tensor& weight) {
  std::array<uint64_t, 16> samples{};
  const std::string_view bytes = bytes_of(weight);
  if (bytes.size() < sizeof samples) return samples;
  // From the first to the last, at places that do not fall into one row or column.
  const size_t last = bytes.size() - 8, apart = last / (samples.size() - 1);
  for (size_t i = 0; i < samples.size(); ++i)
    std::memcpy(&samples[i], bytes.data() + std::min(last, (i * apart + i % 3 * (apart / 7)) / 8 * 8), 8);
  return samples;
}

uint64_t digest_of(const at::Tensor& weight) { return std::hash<std::string_view>()(bytes_of(weight)); }

const c10::StorageImpl* memory_of(const at::Tensor& weight) { return weight.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); }

// Memory of torch's own is resizable until an array is made of it: perhaps before anybody has looked, or while something else told of a change.
Exposure exposure_of(const at::Tensor& weight) {
  if (const c10::StorageImpl* const memory = memory_of(weight); !memory->resizable() && is_allocated_memory(memory->data_ptr())) note_array(weight);
  return Exposure(weight);
}

using LinearClass = std::tuple<int64_t, int64_t, c10::ScalarType>;

LinearClass class_of(const at::Tensor& weight) { return {weight.size(0), weight.size(1), weight.scalar_type()}; }

struct Registry {
  ForkMutex mutex;
  std::unordered_map<const c10::TensorImpl*, PackedWeight> weights;
  std::map<LinearClass, LinearChoice> choices;

  static Registry& instance() {
    static Registry* registry = new Registry;  // tensors must not be destroyed after torch's own static objects
    return *registry;
  }
  void drop_dead() {
    std::erase_if(weights, [](const auto& entry) { return entry.second.mark.tensor.expired(); });
  }
  size_t bytes() {
    drop_dead();
    size_t sum = 0;
    for (const auto& [impl, weight] : weights) sum += weight.packed.defined() ? weight.packed.nbytes() : 0;
    return sum;
  }
  bool has_room(const at::Tensor& weight, size_t limit) {
    if (limit == 0 || bytes() + packed_convolution_bytes() + weight.nbytes() <= limit) return true;
    count(Stat::weights_without_room);
    return false;
  }
};

at::Tensor reorder(const at::Tensor& weight) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_reorder_linear_weight", "").typed<Reorder>();
  return op.call(weight, std::nullopt);
}

double best_of_three(const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  run();  // warms caches, and makes the packing
  double best = 1e30;
  for (int i = 0; i < 3; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

WeightMark::WeightMark() : tensor(at::Tensor().getIntrusivePtr()), storage(c10::intrusive_ptr<c10::StorageImpl>()) {}

WeightMark::WeightMark(const at::Tensor& weight)
    : tensor(weight.getIntrusivePtr()), storage(weight.storage().getWeakStorageImpl()), impl(weight.unsafeGetTensorImpl()), memory(memory_of(weight)),
      data(weight.const_data_ptr()), version(impl->version_counter().current_version()), exposure(exposure_of(weight)), samples(sample(weight)),
      digest(digest_of(weight)) {}

bool WeightMark::matches(const at::Tensor& weight) {
  if (impl != weight.unsafeGetTensorImpl() || memory != memory_of(weight)) return false;
  if (data != weight.const_data_ptr() || version != impl->version_counter().current_version() || samples != sample(weight)) return false;
  if (exposure.is_quiet(weight)) return true;
  const Exposure now = exposure_of(weight);
  if (digest != digest_of(weight)) return false;
  exposure = now;
  return true;
}

bool can_pack(const at::Tensor& x, const at::Tensor& weight) {
  const auto dtype = weight.scalar_type();
  return (dtype == at::kFloat || dtype == at::kBFloat16) && x.scalar_type() == dtype && weight.dim() == 2 && weight.is_contiguous() &&
         weight.numel() > 0 && x.numel() > 0 && !weight.is_inference() && library_present();
}

bool refresh_packing(const at::Tensor& weight, PackedWeight& held, size_t limit) {
  if (held.has_no_room && held.mark.impl == weight.unsafeGetTensorImpl()) return false;
  if (held.packed.defined() && held.mark.matches(weight)) return true;
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  registry.drop_dead();
  const c10::TensorImpl* const impl = weight.unsafeGetTensorImpl();
  if (const auto known = registry.weights.find(impl); known == registry.weights.end()) {
    const bool has_room = registry.has_room(weight, limit);
    registry.weights.emplace(impl, PackedWeight{WeightMark(weight), has_room ? reorder(weight) : at::Tensor(), !has_room});
  } else if (PackedWeight& shared = known->second; !shared.has_no_room && !shared.mark.matches(weight)) {
    shared = {WeightMark(weight), reorder(weight)};
  }
  held = registry.weights.at(impl);
  return !held.has_no_room;
}

std::optional<LinearChoice> chosen_linear(const at::Tensor& weight) {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  const auto known = registry.choices.find(class_of(weight));
  return known == registry.choices.end() ? std::nullopt : std::optional(known->second);
}

LinearChoice choose_linear(const at::Tensor& weight, const std::function<void()>& plain, const std::function<void()>& packed) {
  // Two threads may time the same class at once; the first to store decides for both.
  const LinearChoice choice = best_of_three(packed) < best_of_three(plain) ? LinearChoice::packed : LinearChoice::plain;
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  return registry.choices.try_emplace(class_of(weight), choice).first->second;
}

at::Tensor packed_linear(const at::Tensor& x, const PackedWeight& weight, const at::Tensor& bias, const std::string& epilogue) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Linear>();
  // The library refuses an algorithm for any attribute but gelu.
  std::string_view attribute = epilogue, algorithm = "";
  if (epilogue.empty()) attribute = "none";
  if (epilogue == "gelu") algorithm = "none";
  if (epilogue == "silu") attribute = "swish";
  if (epilogue == "gelu_tanh") attribute = "gelu", algorithm = "tanh";
  return op.call(x, weight.packed, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt, attribute,
                 c10::List<std::optional<at::Scalar>>(), algorithm);
}

size_t packed_bytes() {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  return registry.bytes() + packed_convolution_bytes();
}

bool has_room(const at::Tensor& weight, size_t limit) {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  return registry.has_room(weight, limit);
}

}  // namespace escapement
