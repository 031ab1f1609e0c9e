// The type and size rule of every row of ops.def: what the result of an op is, given the types of its operands.
//
// A rule that needs a relation between sizes asks for it through `Demands` and goes on as if it held. The builder makes a guard
// of it; the verifier checks that it is known. What can never hold is a UserError with eager's wording.
//
// Broadcasting. Two sizes that meet on an axis and are not provably equal: a size that is the constant 1 yields to the other.
// Else the values seen when recording decide which relation is demanded: one of them was 1 and the other not, then that one is
// pinned to 1; otherwise they are demanded equal (also when both were 1: a size that was 1 by accident must not stay 1). "Equal or 1" is no relation of ours: the result's size would hang
// on which of the two held.
#pragma once

#include <span>
#include <string>

#include "trace/trace.h"

namespace escapement {

class Demands {
 public:
  virtual ~Demands() = default;
  virtual void require(Guard::Kind kind, Dim left, Dim right, const std::string& because) = 0;
};

using OperandTypes = std::span<const TensorType* const>;

// The result's dtype, device, sizes and strides; for views also offset, storage and root. Strides are eager's where a rule
// knows them, contiguous otherwise. Ops without a result (write) give the type of their destination.
TensorType infer(Op op, OperandTypes operands, const Attrs& attrs, DimTable& dims, Demands& demands);

// torch.result_type: tensors with dimensions first, then 0-d tensors, then the number in attrs.value.
DType promoted_type(OperandTypes operands, const Number& number);

// The operands of a pointwise row without its numbers, where these are operands too (numbers.def).
OperandTypes without_numbers(Op op, OperandTypes operands);

// Whether `count` operands fit the row (norms without weight, binary ops whose second operand is attrs.value, ...).
bool arity_fits(Op op, size_t count, const Attrs& attrs);

std::vector<Dim> broadcast_sizes(DimTable& dims, Demands& demands, std::span<const Dim> a, std::span<const Dim> b,
                                 const std::string& because);

// --- shared by the rule files
class Rules {
 public:
  Rules(Op op, DimTable& dims, Demands& demands) : op(op), dims(dims), demands(demands) {}
  void require_equal(Dim a, Dim b, const std::string& message);  // message: what eager would say
  void require_less(Dim a, Dim b, const std::string& message);
  void require_less_equal(Dim a, Dim b, const std::string& message);
  void require_not_zero(Dim a, const std::string& message);
  // The same with the message made only where the relation is not known: showing wide expressions costs more than knowing.
  template <class Message>
  void require_less_by(Dim a, Dim b, const Message& message) {
    if (dims.less(a, b) != Truth::yes) require_less(a, b, message());
  }
  template <class Message>
  void require_less_equal_by(Dim a, Dim b, const Message& message) {
    if (dims.less_equal(a, b) != Truth::yes) require_less_equal(a, b, message());
  }
  void check_axis(int64_t axis, int64_t rank) const;             // 0 <= axis < max(rank, 1)
  std::string shown(Dim dim) const;                              // the value seen when recording, else the expression
  std::string shown(std::span<const Dim> sizes) const;           // [2, 3]
  TensorType plain(DType dtype, DeviceKind device, std::vector<Dim> sizes);  // contiguous

  Op op;
  DimTable& dims;
  Demands& demands;

 private:
  void require(Guard::Kind kind, Dim a, Dim b, const std::string& message, bool (*holds)(int64_t, int64_t));
};

std::vector<Dim> broadcast_all(Rules& rules, OperandTypes operands);                     // sizes
TensorType infer_reduction(Rules& rules, const TensorType& a, const Attrs& attrs);
TensorType infer_composite(Rules& rules, OperandTypes operands, const Attrs& attrs);   // composite_rules.cpp
TensorType infer_view(Rules& rules, const TensorType& a, const Attrs& attrs);          // view_rules.cpp
TensorType infer_contraction(Rules& rules, OperandTypes operands, const Attrs& attrs);  // contract_rules.cpp

}  // namespace escapement
