// One argument of an ATen call of an exported program: a constant, converted once, or made of the program's values at each
// run. Symbols of a recording pass through where the operator takes a SymInt, and are read (pinned) where it takes a plain
// number.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <span>

#include "exported/exported_program.h"

namespace escapement {

class ArgumentPlan {
 public:
  // UserError where the value cannot stand for the formal argument.
  ArgumentPlan(ExportedValue value, const c10::Argument& formal);
  static ArgumentPlan of_default(const c10::Argument& formal);

  c10::IValue make(std::span<const c10::IValue> values) const { return constant_ ? result_ : convert(values); }

 private:
  ArgumentPlan() = default;
  c10::IValue convert(std::span<const c10::IValue> values) const;

  bool constant_ = true;
  c10::IValue result_;
  ExportedValue value_;
  c10::TypePtr type_;
};

// Is it a formal Tensor that is given a number? Then the operator's Scalar overload is the one to call.
bool is_tensor_argument(const c10::Argument& formal);
c10::ScalarType dtype_from_schema(int64_t number);   // UserError: unknown

}  // namespace escapement
