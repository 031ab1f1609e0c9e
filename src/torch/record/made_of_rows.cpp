// See made_of_rows.h.
#include "torch/record/made_of_rows.h"

#include <ATen/core/stack.h>
#include <ATen/ops/all.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>

#include "torch/record/wrapper.h"

namespace escapement {

namespace {

using Stack = torch::jit::Stack;

bool same_sizes(const at::Tensor& a, const at::Tensor& b) {
  bool same = a.dim() == b.dim();
  for (int64_t d = 0; same && d < a.dim(); ++d) same = a.sym_size(d) == b.sym_size(d);
  return same;
}

// Where nothing is recorded any more all tensors are real, and it is asked of those that were taken apart in the recording before (go_on).
bool is_known(const Tape& tape, const at::Tensor& tensor) { return !tape.live() || Wrapper::of(tensor); }

bool compare_sizes(Tape&, Stack& stack) {
  const bool same = same_sizes(stack[stack.size() - 2].toTensor(), stack.back().toTensor());
  stack.pop_back();
  stack.back() = same;
  return true;
}

// A truth value for the host, made of operators that have rows: of tensors of one type, whether sizes and all elements agree. Of numbers
// without a row ATen says yes of a tensor and itself, NaN or not. What the program holds itself, and no operator has seen yet, is held by
// the comparison of its elements; where there is none, because the sizes differ, nothing would hold it.
bool compare(Tape& tape, Stack& stack) {
  const at::Tensor b = stack.back().toTensor(), a = stack[stack.size() - 2].toTensor();
  if (a.dim() != b.dim() || a.scalar_type() != b.scalar_type()) return false;
  const Wrapper *left = Wrapper::of(a), *right = Wrapper::of(b);
  const bool both = left && right;
  const bool one = both ? left->value() == right->value() : !tape.live() && a.is_same(b);
  const bool same = one && !at::isFloatingType(a.scalar_type());
  if (a.is_complex() && !same && (!both || left->inner().is_alias_of(right->inner()))) return false;
  bool equal = same || same_sizes(a, b);
  if (!both && !equal && tape.live()) return false;
  ++tape.recording.ops;
  if (!same && equal) equal = at::all(at::eq(a, b)).item().toBool();
  stack.pop_back();
  stack.back() = equal;
  return true;
}

// The same of numbers that are nearly equal.
bool compare_nearly(Tape& tape, Stack& stack) {
  const c10::IValue* const given = &stack[stack.size() - 5];
  if (!is_known(tape, given[0].toTensor()) && !is_known(tape, given[1].toTensor())) return false;
  ++tape.recording.ops;
  const at::Tensor close = at::isclose(given[0].toTensor(), given[1].toTensor(), given[2].toDouble(), given[3].toDouble(), given[4].toBool());
  torch::jit::drop(stack, 4);
  stack.back() = at::all(close).item().toBool();
  return true;
}

// A sum that leaves out what is not a number.
bool sum_of_numbers(Tape& tape, Stack& stack) {
  const c10::IValue* const given = &stack[stack.size() - 4];
  const at::Tensor x = given[0].toTensor();
  if (!is_known(tape, x) || !at::isFloatingType(x.scalar_type())) return false;
  ++tape.recording.ops;
  const at::Tensor numbers = at::where(at::isnan(x), at::scalar_tensor(0, x.options()), x);
  std::optional<std::vector<int64_t>> axes;
  if (!given[1].isNone()) axes = given[1].toIntVector();
  const at::Tensor total = at::sum(numbers, axes ? at::OptionalIntArrayRef(*axes) : std::nullopt, given[2].toBool(), given[3].toOptional<at::ScalarType>());
  torch::jit::drop(stack, 3);
  stack.back() = total;
  return true;
}

}  // namespace

Parts parts_of(const OpPlan& plan) {
  if (plan.base == "equal") return compare;
  if (plan.base == "allclose") return compare_nearly;
  if (plan.base == "is_same_size") return compare_sizes;
  if (plan.base == "nansum" && plan.form == OpPlan::Form::functional) return sum_of_numbers;
  return nullptr;
}

}  // namespace escapement
