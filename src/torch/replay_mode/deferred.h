// Deferred: a tensor that an operator of a running segment would have produced. It has dtype and device, and sizes and
// strides as soon as somebody asks; it has no memory. Whoever asks for memory ends the segment. Then it becomes an ordinary
// tensor, in place, and nothing of ours is left in it but its class.
#pragma once

#include <c10/core/TensorImpl.h>

#include "torch/record/recorder_tape.h"
#include "torch/replay_mode/stream.h"

namespace escapement {

class ReplayCall;

class Deferred final : public c10::TensorImpl {
 public:
  Deferred(c10::DispatchKeySet keys, caffe2::TypeMeta dtype);   // see make
  static c10::intrusive_ptr<Deferred> make(c10::DispatchKeySet keys, caffe2::TypeMeta dtype);

  static Deferred* of(const c10::TensorImpl* impl);   // null unless it is one that has no memory yet
  bool may_begin(const Produced& type) const {        // used again for such a tensor
    return (own_version_ || type.view_of >= 0) && key_set_ == type.keys.add(kRecorderKey);
  }
  void begin(ReplayCall* call, const Produced& type) {
    call_ = call;
    type_ = &type;
    base_ = nullptr;
    lost_ = view_noted_ = false;
    data_type_ = type.dtype;
    set_custom_sizes_strides(SizesStridesPolicy::CustomSizes);
  }
  void share_version(const c10::TensorImpl& base);
  void note_base(const c10::TensorImpl& operand);      // that its operator made a view of
  const Deferred* pending_base() const { return base_ ? of(base_) : nullptr; }
  void note_write();
  // Becomes an ordinary tensor, in this layout.
  void settle(const at::Tensor& real, c10::IntArrayRef strides, int64_t offset);
  void lose();                                        // what should have computed it failed
  void raise_if_lost() const;
  ReplayCall* call() const { return call_; }
  const Produced& type() const { return *type_; }

  c10::IntArrayRef sizes_custom() const override;
  c10::IntArrayRef strides_custom() const override;
  int64_t size_custom(int64_t d) const override;
  int64_t numel_custom() const override;
  int64_t dim_custom() const override;
  int64_t storage_offset_custom() const override;
  c10::SymIntArrayRef sym_sizes_custom() const override;
  c10::SymIntArrayRef sym_strides_custom() const override;
  c10::SymInt sym_size_custom(int64_t d) const override;
  c10::SymInt sym_numel_custom() const override;
  c10::SymInt sym_storage_offset_custom() const override;
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat format) const override;
  c10::SymBool sym_is_non_overlapping_and_dense_custom() const override;
  bool is_strides_like_custom(at::MemoryFormat format) const override;
  bool has_storage() const override;
  const c10::Storage& storage() const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version, bool change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version, bool change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) override;
  const char* tensorimpl_type_name() const override { return "escapement::Deferred"; }

 private:
  void note_view();
  void tell_autograd();                               // of what it is a view
  // Sizes, strides and offset are known from now on; but where nothing says what eager's strides are (LayoutHolds) only those that address
  // something. Whoever asks for the others ends the segment, operator by operator.
  void resolve() const;
  void resolve_layout() const;
  void end_segment() const;

  ReplayCall* call_ = nullptr;
  const Produced* type_ = nullptr;
  bool lost_ = false;
  bool own_version_ = true;   // its counter of versions is new and its own
  bool without_grad_ = false;   // of a view: made where no gradients are kept
  bool view_noted_ = false;   // autograd knows of what it is a view
  ViewKind view_ = ViewKind::none;
  const c10::TensorImpl* base_ = nullptr;   // of a view: the segment holds it, from outside or as its own
};

}  // namespace escapement
