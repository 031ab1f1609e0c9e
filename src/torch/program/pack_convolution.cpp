// See pack_convolution.h.
#include "torch/program/pack_convolution.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "support/fork.h"

namespace escapement {
namespace {

using Reorder = at::Tensor(const at::Tensor&, c10::IntArrayRef, c10::IntArrayRef, c10::IntArrayRef, int64_t, at::OptionalIntArrayRef);
using Describe = at::Tensor(const at::Tensor&);

constexpr const char* kReorder = "mkldnn::_reorder_convolution_weight";
constexpr const char* kDescribe = "mkldnn::_get_mkldnn_serialized_md";
constexpr size_t kMostLayouts = 4;   // of a weight; more are not known to occur, and each is the weight once more
constexpr size_t kMostUses = 256;    // of a weight that are remembered

at::Tensor pack(const at::Tensor& weight, const ConvolutionWindow& window, c10::IntArrayRef image) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kReorder, "").typed<Reorder>();
  return op.call(weight.dim() == 3 ? weight.unsqueeze(2) : weight, window.padding, window.stride, window.dilation, window.groups, image);
}

// The library's own description of a layout, as bytes. Four of them are the gap behind a field and hold whatever was there; a layout that is taken
// for another because of such bytes is only kept twice. (Were two that differ taken for one, the library would compute with the wrong one more slowly.)
std::string layout_of(const at::Tensor& packed) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kDescribe, "").typed<Describe>();
  const at::Tensor bytes = op.call(packed);
  std::string text(static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel()));
  constexpr size_t kGap = 108, kLength = 4;
  if (text.size() >= kGap + kLength) std::fill_n(text.begin() + kGap, kLength, '\0');
  return text;
}

std::vector<int64_t> use_of(const at::Tensor& x, const ConvolutionWindow& window) {
  std::vector<int64_t> use = x.sizes().vec();
  for (const std::vector<int64_t>* part : {&window.stride, &window.padding, &window.dilation}) use.insert(use.end(), part->begin(), part->end());
  use.push_back(at::get_num_threads());
  return use;
}

struct Packings {
  WeightMark mark;
  std::map<std::string, at::Tensor> by_layout;
  std::map<std::vector<int64_t>, at::Tensor> by_use;
};

// All packings of the process. Nothing is packed under its lock.
class Registry {
 public:
  static Registry& instance() {
    static Registry* registry = new Registry;  // tensors must not be destroyed after torch's own static objects
    return *registry;
  }

  // The weight as it is now, and its packing: undefined if nobody has asked for this use of it.
  std::pair<WeightMark, at::Tensor> find(const at::Tensor& weight, const std::vector<int64_t>& use) {
    const std::lock_guard lock(mutex_);
    const Packings& packings = of(weight);
    const auto known = packings.by_use.find(use);
    return {packings.mark, known == packings.by_use.end() ? at::Tensor() : known->second};
  }

  // The packing for that use from now on: `made`, or an older one of the same layout.
  at::Tensor add(const at::Tensor& weight, const std::vector<int64_t>& use, const at::Tensor& made) {
    std::string layout = layout_of(made);
    const std::lock_guard lock(mutex_);
    Packings& packings = of(weight);
    if (packings.by_use.size() >= kMostUses) packings.by_use.clear();
    if (packings.by_layout.size() >= kMostLayouts && !packings.by_layout.contains(layout)) packings = {packings.mark, {}, {}};
    const at::Tensor packed = packings.by_layout.try_emplace(std::move(layout), made).first->second;
    packings.by_use.emplace(use, packed);
    return packed;
  }

  size_t bytes() {
    const std::lock_guard lock(mutex_);
    drop_dead();
    size_t sum = 0;
    for (const auto& [impl, packings] : weights_)
      for (const auto& [layout, packed] : packings.by_layout) sum += packed.nbytes();
    return sum;
  }

 private:
  void drop_dead() {
    std::erase_if(weights_, [](const auto& entry) { return entry.second.mark.tensor.expired(); });
  }
  // What is there of the weight as it is now.
  Packings& of(const at::Tensor& weight) {
    const c10::TensorImpl* const impl = weight.unsafeGetTensorImpl();
    if (const auto known = weights_.find(impl); known != weights_.end() && known->second.mark.matches(weight)) return known->second;
    drop_dead();
    Packings& fresh = weights_[impl];
    fresh = {WeightMark(weight), {}, {}};
    return fresh;
  }

  ForkMutex mutex_;
  std::unordered_map<const c10::TensorImpl*, Packings> weights_;
};

}  // namespace

at::Tensor packed_for(const at::Tensor& x, const at::Tensor& weight, const ConvolutionWindow& window, HeldConvolution& held, size_t limit) {
  std::vector<int64_t> use = use_of(x, window);
  if ((held.packed.defined() || held.has_no_room) && held.use == use && held.mark.matches(weight)) return held.packed;
  std::tie(held.mark, held.packed) = Registry::instance().find(weight, use);   // the mark before it is packed: a write meanwhile is noticed by the next call
  held.has_no_room = !held.packed.defined() && !has_room(weight, limit);
  if (!held.packed.defined() && !held.has_no_room) held.packed = Registry::instance().add(weight, use, pack(weight, window, x.sizes()));
  held.use = std::move(use);
  return held.packed;
}

size_t packed_convolution_bytes() { return Registry::instance().bytes(); }

bool can_pack_convolutions() {
  static const bool present = c10::Dispatcher::singleton().findSchema({kReorder, ""}).has_value() &&
                              c10::Dispatcher::singleton().findSchema({kDescribe, ""}).has_value();
  return present;
}

}  // namespace escapement
