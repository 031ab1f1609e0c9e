// See made_of_rows.h.
#include "torch/record/made_of_rows.h"

#include <ATen/core/stack.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/all.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "torch/record/random_mask.h"
#include "torch/record/wrapper.h"
#include "trace/layout.h"

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

// Something to draw for, at every size that this recording serves: of nothing the mask has another dtype, and eager hands back the argument.
bool has_elements(Tape& tape, const at::Tensor& x) {
  if (!tape.live()) return x.numel() != 0;
  const Dim count = tape.dims().product(tape.trace().type(Wrapper::of(x)->value()).sizes);
  const bool none = tape.dims().hint(count) == std::optional<int64_t>(0);
  tape.guard_relation(Guard::Kind::equal, count, tape.dims().constant(0), none, "dropout of nothing");
  return !none;
}

// The axes from the outermost to the innermost in memory, if nothing lies between the elements, at any size.
std::optional<std::vector<int64_t>> order_in_memory(Tape& tape, const at::Tensor& x) {
  std::vector<int64_t> order(static_cast<size_t>(x.dim()));
  std::iota(order.begin(), order.end(), 0);
  const auto sort_by = [&](const auto& stride) { std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return stride(a) > stride(b); }); };
  if (!tape.live()) {
    sort_by([&](int64_t axis) { return x.size(axis) == 1 ? std::numeric_limits<int64_t>::max() : x.stride(axis); });
    return x.permute(order).is_contiguous() ? std::optional(order) : std::nullopt;
  }
  const TensorType type = tape.trace().type(Wrapper::of(x)->value());
  sort_by([&](int64_t axis) { return tape.dims().hint(type.strides[static_cast<size_t>(axis)]).value_or(0); });
  std::vector<Dim> sizes, strides;
  for (const int64_t axis : order) sizes.push_back(type.sizes[static_cast<size_t>(axis)]), strides.push_back(type.strides[static_cast<size_t>(axis)]);
  return is_contiguous(tape.dims(), sizes, strides) ? std::optional(order) : std::nullopt;
}

// As ATen draws: in the order in which the argument lies.
at::Tensor mask_like(const at::Tensor& x, const std::vector<int64_t>& order, double keep) {
  std::vector<c10::SymInt> sizes;
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) sizes.push_back(x.sym_size(order[i])), back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  const at::Tensor mask = random_mask(sizes, keep);
  return std::is_sorted(order.begin(), order.end()) ? mask : mask.permute(back);
}

bool drops_some(const at::Tensor& x, const c10::IValue& p, const c10::IValue& train) {
  const at::ScalarType type = x.scalar_type();
  const bool is_real = type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
  if (!is_real || !x.is_cpu() || !p.isDouble() || (!train.isNone() && !(train.isBool() && train.toBool()))) return false;
  return p.toDouble() > 0 && p.toDouble() < 1;
}

// Of nothing eager hands back the argument.
void note_choice(Tape& tape, const at::Tensor& x, const at::Tensor& dropped) {
  const Wrapper *const source = Wrapper::of(x), *const result = Wrapper::of(dropped);
  if (!tape.live() || !source || !result) return;
  const bool unlike = source->inner().is_inference() != result->inner().is_inference();
  tape.choices.note(result->value(), Choice{.source = source->value(), .copies = {}, .strays = {}, .itself = true, .unlike = unlike});
}

bool drop(Tape& tape, Stack& stack) {
  const c10::IValue* const given = &stack[stack.size() - 3];
  const at::Tensor x = given[0].toTensor();
  const auto order = is_known(tape, x) ? order_in_memory(tape, x) : std::nullopt;
  const bool some = (tape.live() && order ? Wrapper::of(x)->inner() : x).numel() != 0;
  if (!order || !some || !drops_some(x, given[1], given[2])) return false;
  ++tape.recording.ops;
  const double keep = 1 - given[1].toDouble();
  const at::Tensor kept = mask_like(x, *order, keep).to(x.scalar_type());
  torch::jit::drop(stack, 2);
  stack.back() = at::mul(x, at::div(kept, at::Scalar(keep)));
  note_choice(tape, x, stack.back().toTensor());
  return true;
}

// What torch.compile makes of a dropout: the mask is a result, too.
bool drop_with_mask(Tape& tape, Stack& stack) {
  const c10::IValue* const given = &stack[stack.size() - 3];
  const at::Tensor x = given[0].toTensor();
  const auto order = is_known(tape, x) ? order_in_memory(tape, x) : std::nullopt;
  if (!order || !drops_some(x, given[1], given[2]) || !has_elements(tape, x)) return false;
  ++tape.recording.ops;
  const double keep = 1 - given[1].toDouble();
  const at::Tensor mask = mask_like(x, *order, keep);
  torch::jit::drop(stack, 1);
  stack[stack.size() - 2] = at::mul(at::mul(x, mask), at::Scalar(1 / keep));
  stack.back() = mask;
  return true;
}

// Attention that drops some of its weights is ATen's plain one on the CPU: products, a softmax and a dropout.
bool attend_and_drop(Tape& tape, Stack& stack) {
  const c10::IValue* const given = &stack[stack.size() - 8];
  const at::Tensor query = given[0].toTensor(), key = given[1].toTensor(), value = given[2].toTensor();
  if (!given[4].isDouble() || !(given[4].toDouble() > 0 && given[4].toDouble() < 1) || !query.is_cpu()) return false;
  for (const at::Tensor& each : {query, key, value})
    if (!is_known(tape, each) || each.dim() != 4 || each.scalar_type() != query.scalar_type()) return false;
  ++tape.recording.ops;
  auto mask = given[3].isNone() ? std::nullopt : std::optional(given[3].toTensor());
  if (mask && mask->scalar_type() == at::kBool) {
    const at::Tensor seen = at::scalar_tensor(0, query.options()), unseen = at::scalar_tensor(-std::numeric_limits<double>::infinity(), query.options());
    mask = at::where(*mask, seen, unseen);
  }
  const at::Tensor result = std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, mask, given[4].toDouble(), given[5].toBool(), std::nullopt,
                                                                               given[6].toOptional<double>(), given[7].toBool()));
  torch::jit::drop(stack, 7);
  stack.back() = result;
  return true;
}

bool drop_backward(Tape& tape, Stack& stack) {
  const c10::IValue* const given = &stack[stack.size() - 3];
  const at::Tensor gradient = given[0].toTensor(), mask = given[1].toTensor();
  if (!is_known(tape, gradient) || !is_known(tape, mask) || !given[2].isDouble()) return false;
  const double scale = given[2].toDouble();
  ++tape.recording.ops;
  torch::jit::drop(stack, 2);
  stack.back() = at::mul(at::mul(gradient, mask), at::Scalar(scale));
  return true;
}

}  // namespace

Parts parts_of(const OpPlan& plan) {
  if (plan.base == "equal") return compare;
  if (plan.base == "allclose") return compare_nearly;
  if (plan.base == "is_same_size") return compare_sizes;
  if (plan.base == "nansum" && plan.form == OpPlan::Form::functional) return sum_of_numbers;
  if (plan.base == "dropout" && plan.form == OpPlan::Form::functional) return drop;
  if (plan.name == "aten::scaled_dot_product_attention") return attend_and_drop;
  if (plan.name == "aten::native_dropout") return drop_with_mask;
  if (plan.name == "aten::native_dropout_backward") return drop_backward;
  return nullptr;
}

}  // namespace escapement
