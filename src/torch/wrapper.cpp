// See wrapper.h.
#include "torch/wrapper.h"

#include <algorithm>

#include <c10/core/WrapDimMinimal.h>

#include "torch/recorder_fallback.h"
#include "torch/symnode.h"

namespace escapement {

Wrapper::Wrapper(at::Tensor inner, TapePtr tape, ValueId value)
    : c10::TensorImpl(inner.key_set().add(kRecorderKey), inner.dtype(), inner.device()),
      inner_(std::move(inner)), tape_(std::move(tape)), value_(value) {
  set_custom_sizes_strides(SizesStridesPolicy::CustomSizes);
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
  strides_.clear();
  sizes_symbolic_ = strides_symbolic_ = false;
}

void Wrapper::replace_inner(at::Tensor inner) {
  inner_ = std::move(inner);
  stand_for(value_);
}

// --- symbolic metadata

static void fill(std::vector<c10::SymInt>& out, Tape& tape, const std::vector<Dim>& dims, c10::IntArrayRef hints) {
  out.clear();
  out.reserve(hints.size());
  for (size_t i = 0; i < hints.size(); ++i) out.push_back(tape.symint(dims[i], hints[i]));
}

c10::SymIntArrayRef Wrapper::sym_sizes_custom() const {
  if (!symbolic()) {
    if (sizes_symbolic_ || sizes_.size() != static_cast<size_t>(inner_.dim())) {
      sizes_.assign(inner_.sizes().begin(), inner_.sizes().end());
      sizes_symbolic_ = false;
    }
  } else if (!sizes_symbolic_) {
    fill(sizes_, *tape_, tape_->trace().type(value_).sizes, inner_.sizes());
    sizes_symbolic_ = true;
  }
  return sizes_;
}

c10::SymIntArrayRef Wrapper::sym_strides_custom() const {
  if (!symbolic()) {
    if (strides_symbolic_ || strides_.size() != static_cast<size_t>(inner_.dim())) {
      strides_.assign(inner_.strides().begin(), inner_.strides().end());
      strides_symbolic_ = false;
    }
  } else if (!strides_symbolic_) {
    fill(strides_, *tape_, tape_->trace().type(value_).strides, inner_.strides());
    strides_symbolic_ = true;
  }
  return strides_;
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
  if (!symbolic()) return inner_.storage_offset();
  const TensorType& type = tape_->trace().type(value_);
  return tape_->symint(tape_->dims().add(tape_->storage_offset(type.root), type.offset), inner_.storage_offset());
}

namespace {

// "Is laid out with these axes, innermost first": every axis has size 1 or the stride of a dense layout. An empty tensor is
// contiguous whatever its strides are; it is told apart by its own guard.
BoolExprPtr contiguous_in(Tape& tape, const TensorType& type, const at::Tensor& real, const std::vector<int>& innermost_first) {
  DimTable& dims = tape.dims();
  const Dim one = dims.constant(1);
  Dim expected = one;
  int64_t expected_hint = 1;
  BoolExprPtr all;
  for (const int axis : innermost_first) {
    const Dim size = type.sizes[axis], stride = type.strides[axis];
    if (dims.equal(size, one) != Truth::yes && dims.equal(stride, expected) != Truth::yes) {
      auto fits = bool_either(bool_relation(Guard::Kind::equal, stride, expected, real.stride(axis) == expected_hint),
                              bool_relation(Guard::Kind::equal, size, one, real.size(axis) == 1));
      all = all ? bool_both(std::move(all), std::move(fits)) : std::move(fits);
    }
    expected = dims.mul(expected, size);
    expected_hint *= real.size(axis);
  }
  return all;
}

std::vector<int> innermost_first(at::MemoryFormat format, int64_t rank) {
  if (format == at::MemoryFormat::ChannelsLast && rank == 4) return {1, 3, 2, 0};
  if (format == at::MemoryFormat::ChannelsLast3d && rank == 5) return {1, 4, 3, 2, 0};
  std::vector<int> order;
  if (format == at::MemoryFormat::Contiguous)
    for (int axis = static_cast<int>(rank) - 1; axis >= 0; --axis) order.push_back(axis);
  return order;
}

}  // namespace

// "Contiguous for all sizes": a permuted tensor is not, even where an axis happens to have size 1. ATen asks only to take a
// shortcut (Python's .contiguous() asks too, before the op), so the careful answer needs no guard. Whether memory is shared may
// then depend on sizes; the lowerings note that, and a later write guards it.
c10::SymBool Wrapper::sym_is_contiguous_custom(at::MemoryFormat format) const {
  const bool seen = inner_.is_contiguous(format);
  if (!symbolic()) return seen;
  const std::vector<int> order = innermost_first(format, inner_.dim());
  if (order.empty() && inner_.dim() > 0) return seen;  // a format of another rank: false for every size
  return contiguous_in(*tape_, tape_->trace().type(value_), inner_, order) == nullptr;
}

c10::SymBool Wrapper::sym_is_non_overlapping_and_dense_custom() const {
  const bool seen = inner_.is_non_overlapping_and_dense();
  if (!symbolic()) return seen;
  // Asked only by framework fast paths. A permuted dense tensor is dense for all sizes; otherwise pin the order seen.
  std::vector<int> order(inner_.dim());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return inner_.stride(a) < inner_.stride(b); });
  const BoolExprPtr expr = contiguous_in(*tape_, tape_->trace().type(value_), inner_, order);
  if (!expr) return true;
  if (expr->hint == seen) return symbool(*tape_, expr);
  return seen;
}

bool Wrapper::is_strides_like_custom(at::MemoryFormat format) const {
  return inner_.unsafeGetTensorImpl()->is_strides_like(format);  // a hint for the choice of layouts; results are checked
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
  if (symbolic()) {
    const std::vector<Dim> strides = tape_->trace().type(value_).strides;
    for (size_t d = 0; d < strides.size(); ++d) tape_->pin(strides[d], inner_.stride(d), "strides() read as numbers");
  }
  return inner_.strides();
}

int64_t Wrapper::numel_custom() const {
  if (symbolic()) tape_->pin(tape_->dims().product(tape_->trace().type(value_).sizes), inner_.numel(), "numel() read as a number");
  return inner_.numel();
}

int64_t Wrapper::storage_offset_custom() const {
  if (symbolic()) {
    const TensorType& type = tape_->trace().type(value_);
    tape_->pin(tape_->dims().add(tape_->storage_offset(type.root), type.offset), inner_.storage_offset(), "storage_offset() read as a number");
  }
  return inner_.storage_offset();
}

// --- memory

void Wrapper::expose_storage(const char* what) const {
  if (symbolic() && !lends_memory()) tape_->refuse(Reason::storage_access, what);
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

c10::intrusive_ptr<c10::TensorImpl> Wrapper::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                     bool allow_change) const {
  auto copy = c10::make_intrusive<Wrapper>(inner_.detach(), tape_, value_);
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
  const Wrapper* other = of(impl.get());
  const at::Tensor data = other ? other->inner_ : at::Tensor(impl);
  inner_.unsafeGetTensorImpl()->shallow_copy_from(data.getIntrusivePtr());  // the caller's tensor shall see it, as in eager
  replace_inner(inner_);
}

}  // namespace escapement
