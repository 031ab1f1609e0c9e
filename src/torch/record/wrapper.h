// Wrapper: what the program holds while it is recorded. A TensorImpl without memory of its own over the real `inner` tensor, with
// symbolic sizes taken from the type of the trace value it stands for.
//
// A plain size read by C++ (`sizes()`, `size(0)`) pins that size; a read of the storage refuses the recording, since values would
// be baked into the trace. After the recording a wrapper is a plain view of `inner`.
#pragma once

#include <c10/core/TensorImpl.h>

#include <array>

#include "torch/record/recorder_tape.h"

namespace escapement {

struct AskedLayout;

class Wrapper final : public c10::TensorImpl {
 public:
  Wrapper(at::Tensor inner, TapePtr tape, ValueId value);
  ~Wrapper() override;

  static Wrapper* of(const at::Tensor& tensor) { return of(tensor.unsafeGetTensorImpl()); }
  static Wrapper* of(const c10::TensorImpl* impl);  // null if it is no wrapper
  static at::Tensor make(at::Tensor inner, TapePtr tape, ValueId value);

  const at::Tensor& inner() const { return inner_; }
  Tape& tape() const { return *tape_; }
  ValueId value() const { return value_; }
  void stand_for(ValueId value);             // after an in-place op: renamed, or its metadata changed
  void replace_inner(at::Tensor inner);      // set_data and the like
  // Of a view: what the program knows its base as. Eager's view keeps its base, too.
  const at::Tensor& base() const { return base_; }
  void set_base(at::Tensor base) { base_ = std::move(base); }

  // Symbolic metadata. Plain numbers once the recording is over or refused.
  c10::SymIntArrayRef sym_sizes_custom() const override;
  c10::SymIntArrayRef sym_strides_custom() const override;
  c10::SymInt sym_size_custom(int64_t d) const override;
  c10::SymInt sym_numel_custom() const override;
  c10::SymInt sym_storage_offset_custom() const override;
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat format) const override;
  c10::SymBool sym_is_non_overlapping_and_dense_custom() const override;
  bool is_strides_like_custom(at::MemoryFormat format) const override;

  // Plain metadata: pins what is read.
  int64_t size_custom(int64_t d) const override;
  c10::IntArrayRef sizes_custom() const override;
  c10::IntArrayRef strides_custom() const override;
  int64_t numel_custom() const override;
  int64_t storage_offset_custom() const override;
  int64_t dim_custom() const override { return inner_.dim(); }

  bool has_storage() const override;
  const c10::Storage& storage() const override;

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                              bool allow_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                              bool allow_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) override;
  const char* tensorimpl_type_name() const override { return "escapement::Wrapper"; }

 private:
  ValueId detached() const;
  bool symbolic() const { return value_ && tape_->live(); }
  AskedLayout asked() const;
  void expose_storage(const char* what) const;
  Reason why_memory_matters() const;
  bool lends_memory() const;

  at::Tensor inner_, base_;
  TapePtr tape_;
  ValueId value_;
  enum class Strides : uint8_t { seen, claimed, asked };
  mutable std::vector<c10::SymInt> sizes_;                     // built on first use
  mutable std::array<std::vector<c10::SymInt>, 3> strides_;    // likewise, by what is wanted
  mutable bool sizes_symbolic_ = false;
};

}  // namespace escapement
