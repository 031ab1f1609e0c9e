// Memory of tensors that the program made while it is recorded and whose address it then asked for: what `at::tensor(vector)` does
// inside, or `zeros` and an accessor. Host code may write there at any time, unseen; so before each operator the memory is compared
// with what it was, and what has changed is recorded as a write of a literal. What the host wrote is a constant: host code depends on
// its arguments only, and whatever number of ours it looked at is pinned.
//
// That holds as long as no data can be read there: memory is lent only where an operator without tensors made it and none wrote it, and
// an operator that writes it later refuses the recording.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "trace/trace.h"

namespace escapement {

struct Tape;

bool is_written(const Trace& trace, Storage storage);   // by an instruction of the trace

class LentMemory {
 public:
  // The host gets the address of `value`, whose real tensor is `real`. No: it could read data there.
  bool lend(Tape& tape, ValueId value, const at::Tensor& real);
  bool any() const { return !lent_.empty(); }
  bool holds(const TensorType& type) const;
  void take_in(Tape& tape);        // what the host has written since

 private:
  struct Lent {
    ValueId root;
    Storage storage;
    at::Tensor memory;             // all of the root
    std::vector<std::byte> seen;
    bool known = true;             // no: memory as it was found, which the next run finds otherwise, whatever the host wrote there
  };
  std::vector<Lent> lent_;
  size_t bytes_ = 0;
};

}  // namespace escapement
