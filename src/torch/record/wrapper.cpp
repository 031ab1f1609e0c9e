// See wrapper.h.
#include "torch/record/wrapper.h"

#include <c10/core/WrapDimMinimal.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "torch/record/layout_questions.h"
#include "torch/record/recorder_fallback.h"
#include "torch/record/unharmed.h"

namespace escapement {

Wrapper::Wrapper(at::Tensor inner, TapePtr tape, ValueId value)
    : c10::TensorImpl(inner.key_set().add(kRecorderKey), inner.dtype(), inner.device()),
      inner_(std::move(inner)), tape_(std::move(tape)), value_(value) {
  set_custom_sizes_strides(SizesStridesPolicy::CustomSizes);
  // Torch has looked at the mode that is on now; whether it was made in inference mode the tensor knows.
  key_set_ = inner_.key_set().add(kRecorderKey);
  if (is_inference()) {
    if (!inner_.unsafeGetTensorImpl()->version_counter().enabled()) set_version_counter(c10::VariableVersion());
  } else if (!version_counter().enabled()) set_version_counter(c10::VariableVersion(0));
  if (tape_->exits) tape_->exits->hold(this);
}

Wrapper::~Wrapper() {
  if (tape_->exits) tape_->exits->drop(this);
}

Wrapper* Wrapper::of(const c10::TensorImpl* impl) {
  if (impl == nullptr || !impl->key_set().has(kRecorderKey)) return nullptr;
  return dynamic_cast<Wrapper*>(const_cast<c10::TensorImpl*>(impl));
}

at::Tensor Wrapper::make(at::Tensor inner, TapePtr tape, ValueId value) {
  return at::Tensor(c10::make_intrusive<Wrapper>(std::move(inner), std::move(tape), value));
}

void Wrapper::stand_for(ValueId value) {
  value_ = value;
  sizes_.clear();
  for (auto& strides : strides_) strides.clear();
  sizes_symbolic_ = false;
}

void Wrapper::replace_inner(at::Tensor inner) {
  inner_ = std::move(inner);
  data_type_ = inner_.dtype();   // what torch does not ask a virtual function for
  device_opt_ = inner_.device();
  key_set_ = inner_.key_set().add(kRecorderKey);
  stand_for(value_);
}

AskedLayout Wrapper::asked() const { return {*tape_, value_, inner_}; }

// --- symbolic metadata

static void fill(std::vector<c10::SymInt>& out, Tape& tape, const std::vector<Dim>& dims, c10::IntArrayRef hints) {
  out.clear();
  out.reserve(hints.size());
  for (size_t i = 0; i < hints.size(); ++i) out.push_back(tape.symint(dims[i], hints[i]));
}

c10::SymIntArrayRef Wrapper::sym_sizes_custom() const {
  if (!symbolic()) {
    sizes_.assign(inner_.sizes().begin(), inner_.sizes().end());
    sizes_symbolic_ = false;
  } else if (!sizes_symbolic_) {
    fill(sizes_, *tape_, tape_->trace().type(value_).sizes, inner_.sizes());
    sizes_symbolic_ = true;
  }
  // Torch's indexing reads the first size of a 0-d tensor before it finds that there is none.
  static const c10::SymInt nothing = 0;
  if (sizes_.empty()) return {&nothing, size_t{0}};
  return sizes_;
}

// Composites compute with strides, and what they make of one that addresses nothing addresses nothing.
c10::SymIntArrayRef Wrapper::sym_strides_custom() const {
  const Strides wanted = !symbolic() ? Strides::seen : composite_in_progress() ? Strides::claimed : Strides::asked;
  std::vector<c10::SymInt>& strides = strides_[static_cast<size_t>(wanted)];
  if (wanted != Strides::seen && strides.size() == static_cast<size_t>(inner_.dim())) return strides;
  strides.clear();
  for (int axis = 0; axis < inner_.dim(); ++axis) {
    if (wanted == Strides::asked) strides.push_back(asked_stride(asked(), axis));
    else if (wanted == Strides::seen) strides.emplace_back(inner_.stride(axis));
    else strides.push_back(tape_->symint(tape_->trace().type(value_).strides[axis], inner_.stride(axis)));
  }
  return strides;
}

c10::SymInt Wrapper::sym_size_custom(int64_t d) const {
  d = c10::maybe_wrap_dim(d, inner_.dim(), /*wrap_scalar=*/false);
  return sym_sizes_custom()[d];
}

c10::SymInt Wrapper::sym_numel_custom() const {
  if (!symbolic()) return inner_.numel();
  return tape_->symint(tape_->dims().product(tape_->trace().type(value_).sizes), inner_.numel());
}

c10::SymInt Wrapper::sym_storage_offset_custom() const {
  return symbolic() ? asked_offset(asked()) : inner_.storage_offset();
}

c10::SymBool Wrapper::sym_is_contiguous_custom(at::MemoryFormat format) const {
  return symbolic() ? asked_contiguous(asked(), format) : inner_.is_contiguous(format);
}

c10::SymBool Wrapper::sym_is_non_overlapping_and_dense_custom() const {
  return symbolic() ? asked_dense(asked()) : inner_.is_non_overlapping_and_dense();
}

bool Wrapper::is_strides_like_custom(at::MemoryFormat format) const {
  if (!symbolic()) return inner_.unsafeGetTensorImpl()->is_strides_like(format);
  const c10::SymIntArrayRef sizes = sym_sizes_custom(), strides = sym_strides_custom();
  if (format == at::MemoryFormat::ChannelsLast) return c10::is_channels_last_strides_2d(sizes, strides);
  return format == at::MemoryFormat::ChannelsLast3d && c10::is_channels_last_strides_3d(sizes, strides);
}

// --- plain metadata

int64_t Wrapper::size_custom(int64_t d) const {
  d = c10::maybe_wrap_dim(d, inner_.dim(), /*wrap_scalar=*/false);
  if (symbolic()) tape_->pin(tape_->trace().type(value_).sizes[d], inner_.size(d), "size(" + std::to_string(d) + ") read as a number");
  return inner_.size(d);
}

c10::IntArrayRef Wrapper::sizes_custom() const {
  if (symbolic()) {
    const std::vector<Dim> sizes = tape_->trace().type(value_).sizes;
    for (size_t d = 0; d < sizes.size(); ++d) tape_->pin(sizes[d], inner_.size(d), "sizes() read as numbers");
  }
  return inner_.sizes();
}

c10::IntArrayRef Wrapper::strides_custom() const {
  if (symbolic())
    for (const c10::SymInt& stride : sym_strides_custom()) stride.guard_int("strides()", 0);
  return inner_.strides();
}

int64_t Wrapper::numel_custom() const {
  if (symbolic()) tape_->pin(tape_->dims().product(tape_->trace().type(value_).sizes), inner_.numel(), "numel() read as a number");
  return inner_.numel();
}

int64_t Wrapper::storage_offset_custom() const {
  if (symbolic()) asked_offset(asked()).guard_int("storage_offset()", 0);
  return inner_.storage_offset();
}

// --- memory

// Nobody else can have the address of what the program computed itself. A composite that reaches there is not the program.
Reason Wrapper::why_memory_matters() const {
  const Trace& trace = tape_->trace();
  const ValueId root = trace.type(value_).root;
  const bool computed = static_cast<bool>(trace[root].definition) && !tape_->roomy.contains(root);
  return computed && composite_in_progress() == nullptr ? Reason::result_read : Reason::storage_access;
}

void Wrapper::expose_storage(const char* what) const {
  if (symbolic() && !lends_memory()) tape_->refuse(why_memory_matters(), what);
  if (current_tape() == tape_.get()) tape_->written.lend(inner_);
  auto* self = const_cast<Wrapper*>(this);
  self->storage_ = inner_.storage();
  self->storage_offset_ = inner_.storage_offset();
}

// A composite's own kernel that reaches into memory is told apart from the program: it is recorded whole (recorder_fallback.cpp).
bool Wrapper::lends_memory() const {
  return composite_in_progress() == nullptr && current_tape() == tape_.get() && tape_->lent.lend(*tape_, value_, inner_);
}

bool Wrapper::has_storage() const {
  expose_storage("has_storage() of a tensor of the program");
  return inner_.has_storage();
}

const c10::Storage& Wrapper::storage() const {
  expose_storage("the memory of a tensor of the program was accessed");
  return storage_;
}

// x.data and the like: a tensor of its own in the same memory, and the program may return either.
ValueId Wrapper::detached() const {
  ValueId value = value_;
  if (symbolic()) unharmed(*tape_, [&] { value = tape_->builder.view(Op::detach, value_, {}); });
  return value;
}

// x.data of an inference tensor counts versions where it is made outside of inference mode, and so may be written there.
static at::Tensor detached_inner(const at::Tensor& inner) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);   // it is no operator of the program's
  if (!inner.is_inference()) return inner.detach();
  return at::Tensor(inner.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
}

c10::intrusive_ptr<c10::TensorImpl> Wrapper::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                     bool allow_change) const {
  auto copy = c10::make_intrusive<Wrapper>(detached_inner(inner_), tape_, detached());
  if (!copy->is_inference()) copy->set_version_counter(version);
  copy->set_allow_tensor_metadata_change(allow_change);
  return copy;
}

c10::intrusive_ptr<c10::TensorImpl> Wrapper::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                     bool allow_change) const {
  return shallow_copy_and_detach(static_cast<const c10::VariableVersion&>(version), allow_change);
}

void Wrapper::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) {
  if (symbolic()) tape_->refuse(Reason::recorder_refused, "the data of a tensor was replaced (x.data = y)");
  tape_->written.note();
  const Wrapper* other = of(impl.get());
  const at::Tensor data = other ? other->inner_ : at::Tensor(impl);
  inner_.unsafeGetTensorImpl()->shallow_copy_from(data.getIntrusivePtr());  // the caller's tensor shall see it, as in eager
  replace_inner(inner_);
}

}  // namespace escapement
