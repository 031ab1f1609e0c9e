// What a recording's operators have written over, so that a program which only symbolic numbers made fail can be run again from its beginning.
//
// Before the first write to a storage its bytes are copied; of each tensor that is written also the layout and the count of writes. What cannot
// be put back makes all of it impossible: what is no plain CPU memory or takes part in gradients, another layout or storage by the end, a write
// in between that was no operator of the recording (the count tells), more bytes than kUndoBytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "escapement/export.h"

namespace escapement {

class ESCAPEMENT_API UndoLog {
 public:
  void keep(const at::Tensor& real);   // is about to be written
  void settle();                       // the operator has run
  void give_up();                      // something was written that this cannot know
  bool gave_up() const { return gave_up_; }

  // Once the recording is over. Only what is `possible` may be restored.
  bool possible() const;
  std::optional<uint32_t> count_before(const at::Tensor& tensor) const;   // of writes, under whatever name; empty: not written
  void restore();

 private:
  struct Copy {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::vector<std::byte> bytes;
  };
  struct Written {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::vector<int64_t> sizes, strides;
    int64_t offset;
  };
  struct Count {
    c10::VariableVersion counter;   // may be that of several tensors; keeps it alive
    const c10::StorageImpl* storage;
    uint32_t before, last;
  };
  bool keep_bytes(const at::Tensor& real);
  bool keep_count(const at::Tensor& real);
  void keep_layout(const at::Tensor& real);

  bool gave_up_ = false;
  size_t bytes_ = 0;
  std::vector<Copy> copies_;
  std::vector<Written> written_;
  std::vector<Count> counts_;
  std::vector<const c10::StorageImpl*> running_;   // what the operator writes
};

}  // namespace escapement
