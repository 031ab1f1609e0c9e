// See deferred.h.
#include "torch/replay_mode/deferred.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/WrapDimMinimal.h>

#include <optional>
#include <typeinfo>

#include "support/error.h"
#include "torch/record/recorder_tape.h"
#include "torch/replay_mode/call.h"
#include "torch/replay_mode/host_memory.h"

namespace escapement {

Deferred::Deferred(c10::DispatchKeySet keys, caffe2::TypeMeta dtype)
    : c10::TensorImpl(keys.add(kRecorderKey), dtype, c10::Device(c10::DeviceType::CPU)) {}

// In inference mode too, a view of a tensor from outside is a tensor that counts its versions.
c10::intrusive_ptr<Deferred> Deferred::make(c10::DispatchKeySet keys, caffe2::TypeMeta dtype) {
  std::optional<c10::InferenceMode> outside;
  if (c10::InferenceMode::is_enabled() && keys.has(c10::DispatchKey::ADInplaceOrView)) outside.emplace(false);
  return c10::make_intrusive<Deferred>(keys, dtype);
}

Deferred* Deferred::of(const c10::TensorImpl* impl) {
  if (!impl->key_set().has(kRecorderKey) || typeid(*impl) != typeid(Deferred)) return nullptr;   // a recorder's wrapper
  return static_cast<Deferred*>(const_cast<c10::TensorImpl*>(impl));
}

void Deferred::share_version(const c10::TensorImpl& base) {
  if (is_inference() || const_cast<c10::TensorImpl&>(base).is_inference()) return;
  own_version_ = false;
  if (Deferred* const other = of(&base)) other->own_version_ = false;
  set_version_counter(base.version_counter());
}

// A view of a view is one of that view's base, whether anybody still holds what lies between or not.
void Deferred::note_base(const c10::TensorImpl& operand) {
  const Deferred* const other = of(&operand);
  const bool through = other != nullptr && other->base_ != nullptr;
  base_ = through ? other->base_ : &operand;
  view_ = type_->view;
  without_grad_ = !c10::GradMode::is_enabled();
  const bool says_nothing = view_ == ViewKind::one && !without_grad_;
  if (through && (says_nothing || other->view_ == ViewKind::inference)) {
    view_ = other->view_;
    without_grad_ = other->without_grad_;
  }
  // Nobody asks us whether it requires gradients, neither the program nor an operator that comes once gradients are kept again.
  if (!c10::GradMode::is_enabled() && base_->autograd_meta() != nullptr && base_->requires_grad()) tell_autograd();
}

void Deferred::tell_autograd() {
  view_noted_ = true;
  const at::Tensor base(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(const_cast<c10::TensorImpl*>(base_)));
  escapement::note_view(*this, base, view_, without_grad_);
}

// Where its base is lost nothing was computed for this one either.
void Deferred::note_view() {
  if (base_ != nullptr && !view_noted_ && of(base_) == nullptr) tell_autograd();
}

// Of memory from outside the write itself counts, which its segment ends with.
void Deferred::note_write() {
  if (is_inference() || type_->base_slot) return;
  own_version_ = false;
  bump_version();
}

void Deferred::settle(const at::Tensor& real, c10::IntArrayRef strides, int64_t offset) {
  call_ = nullptr;
  key_set_ = type_->keys;   // of the state in which its operator came, which need not be that of now
  storage_ = real.storage();
  set_custom_sizes_strides(SizesStridesPolicy::Default);
  set_sizes_and_strides(real.sizes(), strides, offset);
  note_view();
}

void Deferred::lose() {
  call_ = nullptr;
  lost_ = true;
}

// --- sizes

void Deferred::raise_if_lost() const {
  if (lost_) throw UserError("this tensor was never computed: the operators that it comes from failed");
}

void Deferred::resolve() const {
  if (matches_policy(SizesStridesPolicy::CustomSizes)) raise_if_lost();   // else they were known before
  if (!call_ || !matches_policy(SizesStridesPolicy::CustomSizes)) return;
  KnownLayout layout;
  bool exact = false;
  if (!call_->shape_of(*type_, layout, exact)) return end_segment();
  auto* self = const_cast<Deferred*>(this);
  self->set_custom_sizes_strides(SizesStridesPolicy::Default);
  self->set_sizes_and_strides(layout.sizes, layout.strides, layout.offset);
  if (!exact) self->set_custom_sizes_strides(SizesStridesPolicy::CustomStrides);
}

void Deferred::resolve_layout() const {
  resolve();
  if (!matches_policy(SizesStridesPolicy::CustomStrides)) return;
  if (call_) call_->end_segment_exactly();
  else const_cast<Deferred*>(this)->set_custom_sizes_strides(SizesStridesPolicy::Default);
}

c10::IntArrayRef Deferred::sizes_custom() const { return resolve(), sizes_default(); }
c10::IntArrayRef Deferred::strides_custom() const { return resolve_layout(), strides_default(); }
int64_t Deferred::size_custom(int64_t d) const { return resolve(), sizes_default()[c10::maybe_wrap_dim(d, dim_default(), /*wrap_scalar=*/false)]; }
int64_t Deferred::numel_custom() const { return resolve(), numel_default(); }
int64_t Deferred::dim_custom() const { return resolve(), dim_default(); }
int64_t Deferred::storage_offset_custom() const { return resolve_layout(), storage_offset_default(); }
c10::SymIntArrayRef Deferred::sym_sizes_custom() const { return resolve(), sym_sizes_default(); }
c10::SymIntArrayRef Deferred::sym_strides_custom() const { return resolve_layout(), sym_strides_default(); }
c10::SymInt Deferred::sym_size_custom(int64_t d) const { return size_custom(d); }
c10::SymInt Deferred::sym_numel_custom() const { return resolve(), sym_numel_default(); }
c10::SymInt Deferred::sym_storage_offset_custom() const { return resolve_layout(), sym_storage_offset_default(); }
c10::SymBool Deferred::sym_is_contiguous_custom(at::MemoryFormat format) const {
  return format == at::MemoryFormat::Contiguous ? resolve() : resolve_layout(), is_contiguous_default(format);
}
c10::SymBool Deferred::sym_is_non_overlapping_and_dense_custom() const { return resolve_layout(), is_non_overlapping_and_dense_default(); }
bool Deferred::is_strides_like_custom(at::MemoryFormat format) const { return resolve_layout(), is_strides_like_default(format); }

// --- memory

void Deferred::end_segment() const {
  if (call_) call_->end_segment();
  raise_if_lost();
}

// Asked before each access to the memory, by operators and by the program.
bool Deferred::has_storage() const {
  end_segment();
  if (op_listener() != nullptr && ReplayCall::current()->host_runs()) note_host_memory(storage_);
  return static_cast<bool>(storage_);
}
const c10::Storage& Deferred::storage() const { return static_cast<void>(has_storage()), c10::TensorImpl::storage(); }

c10::intrusive_ptr<c10::TensorImpl> Deferred::shallow_copy_and_detach(const c10::VariableVersion& version, bool change) const {
  return end_segment(), c10::TensorImpl::shallow_copy_and_detach(version, change);
}
c10::intrusive_ptr<c10::TensorImpl> Deferred::shallow_copy_and_detach(c10::VariableVersion&& version, bool change) const {
  return end_segment(), c10::TensorImpl::shallow_copy_and_detach(std::move(version), change);
}
void Deferred::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) {
  end_segment();
  if (const Deferred* other = of(impl.get())) other->end_segment();
  c10::TensorImpl::shallow_copy_from(impl);
}

}  // namespace escapement
