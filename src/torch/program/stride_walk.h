// Strides that address nothing: those of tensors without elements, and of axes of one element. ATen takes such a tensor for contiguous whatever
// they are; but a program can ask for them, an operator can refuse them (`view(dtype)`), and what they are follows from those of the arguments,
// step by step. Ours are computed the same way, where each step is known.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "jit/run/shape_program.h"
#include "torch/program/sorted_axes.h"
#include "trace/trace.h"

namespace escapement {

class StrideWalk {
 public:
  using InputOf = std::function<std::optional<uint32_t>(ValueId)>;
  using SlotOf = std::function<Slot(Dim)>;

  // None: something on the way there has no rule here. Also of what is known to be a new tensor's.
  static std::optional<StrideWalk> of(const Trace& trace, ValueId value, const InputOf& input_of, const SlotOf& slot_of);

  std::optional<uint32_t> input() const { return input_; }
  const std::vector<Slot>& slots() const { return slots_; }   // all that `strides` reads
  // Nothing but views of an input and operations of it and numbers: the strides are eager's for all sizes, and not only without elements.
  bool is_exact() const;
  // Whether what is made of this input surely has a new tensor's strides: it has elements, and these strides itself, and no step turns it. Costs
  // less than the walk.
  bool keeps_new(const at::Tensor& input) const;
  Strides strides(const at::Tensor* input, const int64_t* table) const;

 private:
  enum class Kind : uint8_t {
    fresh,       // a new tensor: of operands of one shape
    sorted,      // an operation of it and numbers sorts the axes
    permuted, unsqueezed, dropped, sliced, expanded, reshaped,   // views
  };
  struct Step {
    Kind kind;
    int axis = 0;
    std::vector<int32_t> axes = {};
    size_t sizes = 0, rank = 0;   // of the result, among the slots
    size_t step = 0;              // of a slice, among the slots
  };
  struct Known {
    Strides sizes, strides;
  };
  static std::optional<Step> step_of(const Trace& trace, ValueId value, ValueId& operand);
  void note_slots(Step& step, const Trace& trace, ValueId value, const SlotOf& slot_of);
  void take(const Step& step, const int64_t* table, Known& known) const;

  std::optional<uint32_t> input_;
  std::vector<Step> steps_;
  std::vector<Slot> slots_;
  bool copies_ = false;   // on the way
};

}  // namespace escapement
