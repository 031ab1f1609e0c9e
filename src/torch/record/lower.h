// Lowering: how an ATen call becomes trace instructions. One function per family of ops, found by the op's base name ("aten::add"
// serves add.Tensor, add.Scalar, add_ and out=). A lowering runs after the real op: it sees the program's arguments and the real
// results, and either appends instructions and names their values, or returns false ("not ours for these arguments": `why`).
// The caller compares every claim with the real results, and stores values for in-place and out= forms.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "torch/record/host_args.h"
#include "torch/record/recorder_tape.h"

namespace escapement {

// The least and the largest finite number that ATen's checked conversion to the type lets through; empty for f64, which holds all.
std::optional<std::pair<double, double>> reals_of(DType dtype);

class OpCall;
using Lowering = bool (*)(OpCall&);
// Result sizes of an op that stays a library call, one list per result; empty outer list: no rule for these arguments.
using SizeRule = std::vector<std::vector<Dim>> (*)(OpCall&);

// How far the layout seen while recording is one for all sizes. Every claim is checked whenever the program runs.
enum class ResultLayout : uint8_t {
  of_operands,   // contiguous if the operands were
  contiguous,    // contiguous if it was
  image,         // the same, or channels last: by the memory format that the operand's strides suggest
  own,           // nothing is claimed: it follows other arguments, or none
  preserved,     // as empty_like of the first operand lies
  heads,         // attention: contiguous, or with axes 1 and 2 in the other order
};

// Networks of torch.nn that are one operator: lstm, gru, rnn_tanh, rnn_relu.
bool is_recurrent(std::string_view base);

struct SizeRuleRow {
  std::string_view name;
  SizeRule rule;
  ResultLayout layout;
};

// What is known about an operator before its first call; computed once per operator and thread.
struct OpPlan {
  const c10::FunctionSchema* schema = nullptr;
  std::string name;             // "aten::add_"
  std::string target;           // "aten::add_.Tensor"
  std::string base;             // "add"; empty outside aten
  Lowering lower = nullptr;
  const SizeRuleRow* sizes = nullptr;
  bool decompose = false;       // a composite that is recorded through its parts ...
  c10::DispatchKey parts = c10::DispatchKey::CompositeImplicitAutograd;   // ... which this kernel calls
  bool autocast = false;        // has an autocast kernel
  bool metadata = false;        // changes its argument's sizes or storage in place
  bool random = false;
  bool pointwise = false;
  bool pass = false;            // of no interest (profiler marks)
  bool collective = false;      // other processes take part: made once, in the program's order, whoever uses the result
  bool host_result = false;     // returns something that is no tensor
  enum class Form : uint8_t { functional, in_place, out } form = Form::functional;
  std::vector<uint32_t> writes;   // arguments written
  std::vector<int> returned;    // per return: the argument it is, or -1
};

OpPlan& plan_of(const c10::OperatorHandle& op);   // recorder_plan.cpp

class OpCall {
 public:
  OpCall(Tape& tape, const OpPlan& plan, std::span<const c10::IValue> args);

  Tape& tape;
  Builder& build;
  const OpPlan& plan;
  std::span<const c10::IValue> args;        // as the program gave them
  std::vector<ValueId> values;              // of all tensors among them, lists flattened; none: absent or a wrapped number
  std::vector<at::Tensor> reals;            // real results, flattened
  std::vector<ValueId> results;             // what the lowering says they are
  Reason why = Reason::call_no_row;         // set by a lowering that declines
  bool draws = false;                       // it drew random numbers, whatever its tags say
  bool may_share = false;                   // eager returns its argument's memory at some sizes and fresh memory at others
  bool as_library_may_share = false;        // the same, of a call that is left to ATen: the memory of the first argument
  std::vector<Dim> result_sizes;            // of a call that is left to ATen, if the lowering knows them
  std::optional<Choice> choice;             // that the first result is the outcome of

  // --- arguments by name. Absent: none, empty, or the given default.
  int find(std::string_view name) const;    // -1
  bool given(std::string_view name) const;  // there, and not None
  const c10::IValue& arg(std::string_view name) const;
  ValueId value(std::string_view name) const;
  ValueId value_at(int position) const;
  std::vector<ValueId> list(std::string_view name) const;
  at::Tensor real(std::string_view name) const;                  // undefined if absent
  at::Tensor real_at(int position) const;
  at::Tensor real_in(std::string_view list, int position) const;
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  bool flag(std::string_view name, bool otherwise = false) const;
  double number(std::string_view name, double otherwise = 0) const;
  std::string text(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;    // pins symbols
  bool varies(std::string_view name) const;                      // holds a symbol: to read it as an integer would pin it
  Dim dim(std::string_view name) const;
  std::vector<Dim> dims(std::string_view name) const;
  std::vector<Dim> lengths(std::string_view name) const;  // as `dims`, of what cannot be negative: a guard, since eager raises there
  std::optional<int> axis(std::string_view name, int rank) const;
  std::vector<int32_t> axes(std::string_view name, int rank) const;  // sorted; empty = all

  // --- values
  const TensorType& type(ValueId v) const { return tape.trace().type(v); }
  int rank(ValueId v) const { return type(v).rank(); }
  DimTable& table() const { return tape.dims(); }
  DType result_type(size_t i = 0) const { return dtype_of(reals[i].scalar_type()); }
  // A scalar argument (Scalar, number, wrapped number; a symbolic one too) as a 0-d value.
  ValueId scalar(const c10::Scalar& s, DType dtype);
  ValueId constant(double value, DType dtype);
  // For operators that raise where a number does not fit their dtype: one that differs between calls is checked in each. A call that
  // fails the check is recorded anew, and then raises as eager does. False: this one does not fit, and ATen took it all the same (it
  // does not look at the number of a single element).
  bool lays_out_otherwise() const;          // asked for a memory format whose order of axes may show at other sizes only
  bool must_fit(const c10::Scalar& s, DType dtype);
  // An exponent stays what it is when it is rounded to float32: odd, even, a fraction, zero. One that differs between calls is checked in
  // each. ATen rounds it for the elements that fill its vectors and for the others not, so where that makes a difference it is ATen's.
  bool exponent_must_hold(const c10::Scalar& s);
  // The argument as a number if it is one: a Scalar or a wrapped number.
  std::optional<c10::Scalar> scalar_arg(std::string_view name) const;

  bool done(ValueId v) {
    results.push_back(v);
    return true;
  }
  bool decline(Reason reason) {
    why = reason;
    return false;
  }

 private:
  bool integer_must_fit(const c10::SymInt& s, DType dtype);
  bool real_must_fit(const c10::Scalar& s, DType dtype);

  std::vector<uint32_t> first_;             // per argument: its first entry in `values`
};

// --- the families (lower_*.cpp)
bool lower_pointwise(OpCall& call, Op op);   // by the row: operands in the schema's order, then its numbers by their names

Lowering find_lowering(std::string_view base);                 // lower_table.cpp
const SizeRuleRow* find_size_rule(std::string_view base);      // lower_sizes.cpp
bool keep_whole(std::string_view base);                        // composites recorded as one call though no lowering exists
void learn_keep_whole(const std::string& base);                // a composite that turned out to touch memory
bool writes_silently(std::string_view base, std::vector<std::string_view>& arguments);  // mutation that the schema hides

// Appends a library call for the whole op and fills `results` (lower_call.cpp).
void record_call(OpCall& call);
// Of an out= argument that kept its sizes when recording: it must have the result's at every call.
void hold_same_sizes(OpCall& call, const std::vector<Dim>& result, const std::vector<Dim>& target);
void hold_resized(OpCall& call, ValueId result, ValueId target);  // Of one whose sizes ATen has changed.
// There are as many results as pieces of `size` elements of an axis of `total`.
void hold_pieces(OpCall& call, Dim total, Dim size);

}  // namespace escapement
