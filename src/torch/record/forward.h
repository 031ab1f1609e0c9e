// Restart by fast-forward: a program runs once more, and gets from its first operators what they computed before instead of running them.
// So the host comes back to where a compiled trace left it, without doing anything twice: writes, random numbers and reads of values among
// these operators are not made again. What the host does by itself (prints, counters of its own) is.
//
// Tensors that the host still holds at the exit are the real ones; of those that it lets go of before nothing but sizes and strides can be
// seen, so they get memory with nothing in it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "torch/record/exits.h"

namespace escapement {

// What a compiled trace left at an exit.
struct Departure {
  std::shared_ptr<const std::vector<ScriptStep>> script;
  std::shared_ptr<const Trace> before;   // Exit::before
  Snapshot at;
  size_t steps = 0;
  std::vector<at::Tensor> inputs;        // of `before`, by position; undefined where they are no tensors
  std::vector<int64_t> symbols;          // values, by number
  std::vector<at::Tensor> live;          // of Snapshot::live
  c10::Device device{c10::DeviceType::CPU};   // Recording::device
};

class Forward {
 public:
  explicit Forward(Departure departure);

  bool active() const { return next_ < from_.steps; }
  // The operator's results in place of its arguments; whether it drew random numbers. UserError: the program did something else before. Where it is not
  // `recorded` any more, tensors are the program's own: other memory for one that something else looks at is a UserError as well.
  bool take(const c10::OperatorHandle& op, torch::jit::Stack& stack, size_t arguments, bool recorded = true);
  c10::Scalar take_read();
  bool comes_to(const c10::OperatorName& name) const { return (*from_.script)[next_].name == name; }   // next; where active
  // The values that the symbols of `now` had when the trace was recorded. Where a recording was told something that is right for all sizes, it is told
  // the same here: these sizes may call for another way, with other operators.
  std::vector<int64_t> hints(const DimTable& now) const;
  void expect_arrived() const;           // the program has ended: UserError if it did so before it came to the exit

 private:
  const ScriptStep& step(const std::optional<c10::OperatorName>& name);
  void pass_over();
  c10::IValue result(const ScriptStep::Result& from, std::span<const c10::IValue> arguments);
  at::Tensor tensor(ValueId value, c10::ScalarType dtype, bool inference);
  at::Tensor root(ValueId value, c10::ScalarType dtype, bool inference);
  std::vector<int64_t> strides(const TensorType& type) const;
  std::vector<int64_t> values(const std::vector<Dim>& dims) const;
  void hand_over(const ScriptStep& step, torch::jit::Stack& stack, size_t arguments, bool recorded);
  bool is_view(const ScriptStep& step) const;
  bool is_left_out(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments) const;
  void give_memory(ValueId value, const at::Tensor& written, const std::string& by);
  void rename(const ScriptStep& step, std::span<const c10::IValue> arguments, bool recorded);

  const Departure from_;
  size_t next_ = 0;
  std::unordered_map<uint32_t, at::Tensor> roots_;
};

}  // namespace escapement
