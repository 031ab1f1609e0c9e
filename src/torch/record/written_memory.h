// Whether a recording has written to memory that none of its operators made. Then its program must not be run again, whatever ended the
// recording, unless what was written is put back (undo_log.h): everything would be written twice.
//
// Storages are asked, not tensors: a tensor may be written under another name, with another dtype and with a count of writes of its own. And
// every operator of the thread is seen, whether or not the recording still is to become a program. The host writes unseen where it has an
// address: a digest of what is there is compared with that of when the address was given. (A tensor that is no argument gives its address to numpy
// without any operator: that nobody sees.)
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "torch/record/undo_log.h"

namespace escapement {

struct OpPlan;

class WrittenMemory {
 public:
  // Around an operator on real tensors. What its results hold and `given` does not it has made.
  using Given = std::vector<const c10::StorageImpl*>;
  Given before(const OpPlan& plan, std::span<const c10::IValue> arguments);
  void after(const OpPlan& plan, const Given& given, std::span<const c10::IValue> results);

  void lend(const at::Tensor& real);         // the host gets its address, or may without our notice
  void note();                               // a write that is no operator
  bool any() const;

  void keep_undo();                          // from now on; without it, and what was written before, nothing can be put back
  UndoLog take_undo();

 private:
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;   // so that an address is not given to another
  struct Lent {
    Weak storage;
    uint64_t seen;
  };
  bool is_made(const at::Tensor& real) const;
  bool wrote_lent() const;

  bool written_ = false;
  std::optional<UndoLog> undo_;
  std::unordered_map<const c10::StorageImpl*, Weak> made_;
  std::unordered_map<const c10::StorageImpl*, Lent> lent_;
};

}  // namespace escapement
