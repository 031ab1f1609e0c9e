// See jit_modules.h.
#include "torch/api/jit_modules.h"

#include <boost/hana/for_each.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/type.hpp>
#include <torch/nn/module.h>
#include <torch/nn/modules.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <typeindex>
#include <unordered_map>

namespace escapement {
namespace {

namespace hana = boost::hana;
namespace nn = torch::nn;

// How objects of a class are compared: their bytes, and what else they keep in memory that they only point to.
struct Known {
  size_t size = 0;
  void (*list)(const nn::Module& module, Listing& into) = nullptr;
};

// --- torch's own classes

template <class M>
void list_weights(const nn::Module& module, Listing& into) {
  for (const at::Tensor& weight : static_cast<const M&>(module).all_weights()) into.tensor(weight);
}

void list_parameters(const nn::Module& module, Listing& into) {
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    into.text(parameter.key());
    into.tensor(parameter.value());
  }
}

void list_sequence(const nn::Module& module, Listing& into) {
  for (const nn::AnyModule& child : static_cast<const nn::SequentialImpl&>(module)) into.module(child.ptr());
}

void list_children(const nn::Module& module, Listing& into) {
  for (const auto& child : module.named_children()) {
    into.text(child.key());
    into.module(child.value());
  }
}

template <class M>
void list_last_norm(const nn::Module& module, Listing& into) {
  if (const nn::AnyModule& norm = static_cast<const M&>(module).norm; !norm.is_empty()) into.module(norm.ptr());
}

void list_normalized_shape(const nn::Module& module, Listing& into) {
  into.numbers(static_cast<const nn::LayerNormImpl&>(module).options.normalized_shape());
}

void list_unflattened(const nn::Module& module, Listing& into) {
  into.numbers(static_cast<const nn::UnflattenImpl&>(module).options.sizes());
}

void list_upsampled(const nn::Module& module, Listing& into) {
  const nn::UpsampleOptions& options = static_cast<const nn::UpsampleImpl&>(module).options;
  if (options.size()) into.numbers(*options.size());
  if (options.scale_factor()) into.numbers(*options.scale_factor());
}

void list_cutoffs(const nn::Module& module, Listing& into) {
  const auto& self = static_cast<const nn::AdaptiveLogSoftmaxWithLossImpl&>(module);
  into.numbers(self.options.cutoffs());
  into.numbers(self.cutoffs);
}

template <class M, class... Ms>
inline constexpr bool is_one_of = (std::is_same_v<M, Ms> || ...);

template <class M>
constexpr Known known_class() {
  if constexpr (requires(const M& m) { m.all_weights(); }) return {sizeof(M), list_weights<M>};
  else if constexpr (std::is_same_v<M, nn::SequentialImpl>) return {sizeof(M), list_sequence};
  else if constexpr (is_one_of<M, nn::ModuleListImpl, nn::ModuleDictImpl>) return {sizeof(M), list_children};
  else if constexpr (is_one_of<M, nn::TransformerEncoderImpl, nn::TransformerDecoderImpl>) return {sizeof(M), list_last_norm<M>};
  else if constexpr (std::is_same_v<M, nn::LayerNormImpl>) return {sizeof(M), list_normalized_shape};
  else if constexpr (std::is_same_v<M, nn::UnflattenImpl>) return {sizeof(M), list_unflattened};
  else if constexpr (std::is_same_v<M, nn::UpsampleImpl>) return {sizeof(M), list_upsampled};
  else if constexpr (std::is_same_v<M, nn::AdaptiveLogSoftmaxWithLossImpl>) return {sizeof(M), list_cutoffs};
  else if constexpr (is_one_of<M, nn::ParameterListImpl, nn::ParameterDictImpl>) return {sizeof(M), list_parameters};
  else return {sizeof(M), nullptr};
}

constexpr auto kClasses = hana::tuple_t<
    nn::AdaptiveAvgPool1dImpl, nn::AdaptiveAvgPool2dImpl, nn::AdaptiveAvgPool3dImpl,
    nn::AdaptiveLogSoftmaxWithLossImpl, nn::AdaptiveMaxPool1dImpl, nn::AdaptiveMaxPool2dImpl,
    nn::AdaptiveMaxPool3dImpl, nn::AlphaDropoutImpl, nn::AvgPool1dImpl, nn::AvgPool2dImpl, nn::AvgPool3dImpl,
    nn::BatchNorm1dImpl, nn::BatchNorm2dImpl, nn::BatchNorm3dImpl, nn::BilinearImpl, nn::CELUImpl,
    nn::ConstantPad1dImpl, nn::ConstantPad2dImpl, nn::ConstantPad3dImpl, nn::Conv1dImpl, nn::Conv2dImpl,
    nn::Conv3dImpl, nn::ConvTranspose1dImpl, nn::ConvTranspose2dImpl, nn::ConvTranspose3dImpl,
    nn::CosineSimilarityImpl, nn::CrossMapLRN2dImpl, nn::DropoutImpl, nn::Dropout2dImpl, nn::Dropout3dImpl,
    nn::ELUImpl, nn::EmbeddingImpl, nn::EmbeddingBagImpl, nn::FeatureAlphaDropoutImpl, nn::FlattenImpl, nn::FoldImpl,
    nn::FractionalMaxPool2dImpl, nn::FractionalMaxPool3dImpl, nn::FunctionalImpl, nn::GELUImpl, nn::GLUImpl,
    nn::GRUImpl, nn::GRUCellImpl, nn::GroupNormImpl, nn::HardshrinkImpl, nn::HardtanhImpl, nn::IdentityImpl,
    nn::InstanceNorm1dImpl, nn::InstanceNorm2dImpl, nn::InstanceNorm3dImpl, nn::LPPool1dImpl, nn::LPPool2dImpl,
    nn::LPPool3dImpl, nn::LSTMImpl, nn::LSTMCellImpl, nn::LayerNormImpl, nn::LeakyReLUImpl, nn::LinearImpl,
    nn::LocalResponseNormImpl, nn::LogSigmoidImpl, nn::LogSoftmaxImpl, nn::MaxPool1dImpl, nn::MaxPool2dImpl,
    nn::MaxPool3dImpl, nn::MaxUnpool1dImpl, nn::MaxUnpool2dImpl, nn::MaxUnpool3dImpl, nn::MishImpl,
    nn::ModuleDictImpl, nn::ModuleListImpl, nn::MultiheadAttentionImpl, nn::PReLUImpl, nn::PairwiseDistanceImpl,
    nn::ParameterDictImpl, nn::ParameterListImpl, nn::PixelShuffleImpl, nn::PixelUnshuffleImpl, nn::RNNImpl,
    nn::RNNCellImpl, nn::RReLUImpl, nn::ReLUImpl, nn::ReLU6Impl, nn::ReflectionPad1dImpl, nn::ReflectionPad2dImpl,
    nn::ReflectionPad3dImpl, nn::ReplicationPad1dImpl, nn::ReplicationPad2dImpl, nn::ReplicationPad3dImpl,
    nn::SELUImpl, nn::SequentialImpl, nn::SiLUImpl, nn::SigmoidImpl, nn::SoftmaxImpl, nn::Softmax2dImpl,
    nn::SoftminImpl, nn::SoftplusImpl, nn::SoftshrinkImpl, nn::SoftsignImpl, nn::TanhImpl, nn::TanhshrinkImpl,
    nn::ThresholdImpl, nn::TransformerImpl, nn::TransformerDecoderImpl, nn::TransformerDecoderLayerImpl,
    nn::TransformerEncoderImpl, nn::TransformerEncoderLayerImpl, nn::UnflattenImpl, nn::UnfoldImpl, nn::UpsampleImpl,
    nn::ZeroPad1dImpl, nn::ZeroPad2dImpl, nn::ZeroPad3dImpl>;

// --- all classes whose size is known

class Registry {
 public:
  Registry() {
    hana::for_each(kClasses, [&](auto type) {
      using M = typename decltype(type)::type;
      known_.emplace(typeid(M), known_class<M>());
    });
  }
  void declare(const std::type_info& type, const Known& known) {
    const std::lock_guard lock(mutex_);
    known_.try_emplace(type, known);
  }
  Known find(const std::type_info& type) const {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(type);
    return found == known_.end() ? Known() : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::type_index, Known> known_;
};

Registry& registry() {
  static Registry one;
  return one;
}

}  // namespace

void declare_module_size(const std::type_info& type, size_t size) { registry().declare(type, {size, nullptr}); }

void declare_module_class(const std::type_info& type, size_t size, void (*list)(const nn::Module&, Listing&)) {
  registry().declare(type, {size, list});
}

bool ModuleWatch::look_at(Object& object, std::string& unknown) {
  const nn::Module& module = *object.module;
  const Known known = registry().find(typeid(module));
  if (known.size == 0) {
    unknown = c10::demangle(typeid(module).name());
    return false;
  }
  object.memory = static_cast<const std::byte*>(dynamic_cast<const void*>(&module));
  object.seen.assign(object.memory, object.memory + known.size);
  object.list = known.list;
  if (known.list) known.list(module, object.listed);
  object.listed.keep_members(object.seen);
  for (const at::Tensor& tensor : module.parameters(/*recurse=*/false)) object.listed.keep(tensor);
  for (const at::Tensor& tensor : module.buffers(/*recurse=*/false)) object.listed.keep(tensor);
  return true;
}

std::shared_ptr<const ModuleWatch> ModuleWatch::of(const std::shared_ptr<nn::Module>& module, std::string& unknown) {
  auto state = std::make_shared<ModuleWatch>();
  for (const std::shared_ptr<nn::Module>& each : module->modules(/*include_self=*/true)) {
    Object object;
    object.module = each;
    if (!look_at(object, unknown)) return nullptr;
    state->objects_.push_back(std::move(object));
  }
  return state;
}

std::shared_ptr<const ModuleWatch> ModuleWatch::of(std::span<const std::byte> callable) {
  auto state = std::make_shared<ModuleWatch>();
  state->is_module_ = false;
  Object object;
  object.memory = callable.data();
  object.seen.assign(callable.begin(), callable.end());
  state->objects_.push_back(std::move(object));
  return state;
}

bool ModuleWatch::same() const {
  static thread_local Listing listed;
  for (const Object& object : objects_) {
    if (std::memcmp(object.memory, object.seen.data(), object.seen.size()) != 0) return false;
    if (object.list == nullptr) continue;
    listed.clear();
    object.list(*object.module, listed);
    if (!(listed == object.listed)) return false;
  }
  return true;
}

// Does a word of a compared object, or an entry of what it lists, say where the tensor is?
bool ModuleWatch::names(const at::Tensor& tensor) const {
  const void* const wanted = tensor.unsafeGetTensorImpl();
  return std::any_of(objects_.begin(), objects_.end(), [&](const Object& object) {
    for (size_t at = 0; at + sizeof wanted <= object.seen.size(); at += alignof(void*)) {
      if (std::memcmp(object.seen.data() + at, &wanted, sizeof wanted) == 0) return true;
    }
    return object.listed.names(wanted);
  });
}

std::optional<Reason> ModuleWatch::refuses(std::span<const at::Tensor> captured) const {
  if (!same()) return Reason::state_changed;
  if (!is_module_) return {};   // its captured tensors are looked at as a lambda's
  constexpr long kHolders = 2;   // the recording and its recorder, which is still there (Tape::judge_captures)
  for (const at::Tensor& tensor : captured) {
    const bool held_elsewhere = tensor.use_count() > kHolders;   // else it is a literal of the program
    if (held_elsewhere && !names(tensor)) return Reason::unwatched_module;
  }
  return {};
}

}  // namespace escapement
