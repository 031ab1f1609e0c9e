// Memory that can be written past its tensor's version counter. `w.data` has a counter of its own, a NumPy array has none: `w.data[5] = 0` and
// `w.detach().numpy()[5] = 0` change a weight of which nothing else tells. Who keeps something that was made of a tensor's contents asks here
// whether it must compare them.
//
// `.data` is noticed when it is taken (by torch's VariableHooks, asked_kinds.h), an array since torch then forbids to resize what it is made of.
// Not noticed: what was handed out before the first recording of a process, memory that was another library's from the start (`from_numpy`),
// and what is written through an address.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace escapement {

void note_exposed(const at::TensorBase& tensor);   // another tensor, with another counter, is made of its memory
void note_array(const at::TensorBase& tensor);     // an array has been, which may be written at any time from now on

// Who could write a tensor's memory; made before its contents are read.
class Exposure {
 public:
  Exposure() = default;
  explicit Exposure(const at::Tensor& tensor);   // as it is now

  // Whether nobody but its counter's own tensors can have written it since.
  bool is_quiet(const at::Tensor& tensor) const;

 private:
  uint64_t times_ = 0;       // that it had been handed out
  bool resizable_ = false;   // no array had been made of it
};

}  // namespace escapement
