// Arguments of ATen calls in three forms: as the program gave them (wrappers, symbols), as the kernel takes them (real tensors,
// numbers), and as a trace stores them (CallArg). All conversions between the three are here.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymNodeImpl.h>

#include <functional>
#include <span>

#include "torch/record/recorder_tape.h"

namespace escapement {

// The program's argument for a real kernel: inner tensors, and the values that symbols have now (no guard).
c10::IValue concrete(const c10::IValue& value);
int64_t hint_of(const c10::SymInt& value);

// Collects one call's operands and arguments for a `call` or `contract` instruction.
struct CallArgs {
  std::vector<ValueId> operands;
  std::vector<CallArg> args;
};
// `values` are the tensors of the call in stack order (lists flattened, absent and wrapped-number ones: no id).
CallArgs call_args(Tape& tape, const c10::FunctionSchema& schema, std::span<const c10::IValue> stack, std::span<const ValueId> values);

// A trace's arguments for a kernel.
struct ArgSource {
  std::span<const at::Tensor> operands;                  // of the instruction
  std::function<int64_t(Dim)> size;                      // value of a symbolic integer in this call
  std::span<const c10::IValue> host_objects;
};
c10::IValue to_ivalue(const CallArg& arg, const c10::Argument& formal, const ArgSource& source);
c10::Scalar to_scalar(const Number& number, const std::function<int64_t(Dim)>& size);

// Number for a scalar; a symbolic float is looked at (pinned).
Number number_of(Tape& tape, const c10::IValue& value);
Number number_of(Tape& tape, const c10::Scalar& value);

// Is it a (real) number that the argument parser dressed up as a 0-d tensor?
bool is_wrapped_number(const at::Tensor& t);
// What the program wrote: the symbol behind the parser's placeholder, or the number itself.
c10::Scalar wrapped_scalar(const at::Tensor& wrapped);
at::Tensor wrap_scalar(const c10::Scalar& scalar);        // a wrapped number again

// While it lives, `wrapped` of this thread stands for a symbolic number.
class SymbolicNumber {
 public:
  SymbolicNumber(const at::Tensor& wrapped, c10::SymNode node);
  ~SymbolicNumber();
  SymbolicNumber(const SymbolicNumber&) = delete;
  SymbolicNumber& operator=(const SymbolicNumber&) = delete;

 private:
  friend c10::Scalar wrapped_scalar(const at::Tensor& wrapped);
  const at::Tensor wrapped_;
  const c10::SymNode node_;
  SymbolicNumber* const outer_;
};

}  // namespace escapement
