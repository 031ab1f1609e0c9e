// See stride_walk.h. The rules are ATen's of torch 2.13; tests/python/memory/test_layouts_of_nothing.py and
// test_views_of_one.py hold them against it.
#include "torch/program/stride_walk.h"

#include <ATen/TensorUtils.h>

#include <algorithm>

#include "torch/program/number_operands.h"

namespace escapement {
namespace {

constexpr size_t kMostSteps = 12;

Strides natural_strides(c10::IntArrayRef sizes) {
  Strides strides(sizes.size());
  int64_t next = 1;
  for (size_t axis = sizes.size(); axis-- > 0; next *= std::max<int64_t>(sizes[axis], 1)) strides[axis] = next;
  return strides;
}

// The one operand of the result's sizes, where all others are numbers.
ValueId beside_numbers(const Trace& trace, const Instr& made, const TensorType& type) {
  const auto whole = std::ranges::find_if(made.operands, [&](ValueId operand) { return trace.type(operand).sizes == type.sizes; });
  if (whole == made.operands.end()) return {};
  const auto fits = [&](ValueId v) { return v == *whole || trace.type(v).rank() == 0; };
  return std::ranges::all_of(made.operands, fits) ? *whole : ValueId();
}

Strides permuted(const Strides& strides, const std::vector<int32_t>& axes) {
  Strides out;
  for (const int32_t from : axes) out.push_back(strides[static_cast<size_t>(from)]);
  return out;
}

// A new axis of one element steps over what stands behind it; where there are more, the stride is 0. So are all of a number's.
Strides expanded(const Strides& old_sizes, const Strides& old_strides, const Strides& sizes) {
  Strides out(sizes.size());
  if (old_sizes.empty()) return out;
  const size_t missing = sizes.size() - old_sizes.size();
  for (size_t i = sizes.size(); i-- > 0;) {
    const bool is_new = i < missing;
    const int64_t size = is_new ? 1 : old_sizes[i - missing];
    const int64_t stride = !is_new ? old_strides[i - missing] : i + 1 < sizes.size() ? sizes[i + 1] * out[i + 1] : 1;
    out[i] = size == sizes[i] ? stride : 0;
  }
  return out;
}

// Where there are elements it is a view; where there are none, another shape has a new tensor's strides.
Strides reshaped(const Strides& old_sizes, const Strides& old_strides, const Strides& sizes) {
  const bool empty = std::ranges::count(sizes, 0) > 0;
  if (empty && old_sizes == sizes) return old_strides;
  if (empty) return natural_strides(sizes);
  const auto found = at::detail::computeStride(c10::IntArrayRef(old_sizes), c10::IntArrayRef(old_strides), c10::IntArrayRef(sizes));
  return found ? Strides(found->begin(), found->end()) : natural_strides(sizes);
}

}  // namespace

// The operand is none behind a step that asks for nothing.
std::optional<StrideWalk::Step> StrideWalk::step_of(const Trace& trace, ValueId value, ValueId& operand) {
  const Instr& made = trace[trace[value].definition];
  const TensorType& type = trace.type(value);
  if (made.operands.empty()) return {};
  operand = made.operands[0];
  switch (made.op) {
    case Op::permute: return Step{.kind = Kind::permuted, .axes = made.attrs.axes};
    case Op::unsqueeze: return Step{.kind = Kind::unsqueezed, .axis = made.attrs.axis};
    case Op::select: case Op::squeeze: return Step{.kind = Kind::dropped, .axis = made.attrs.axis};
    case Op::slice: return Step{.kind = Kind::sliced, .axis = made.attrs.axis};
    case Op::expand: return Step{.kind = Kind::expanded};
    case Op::reshape: return Step{.kind = Kind::reshaped};
    default: break;
  }
  if (info(made.op).kind != OpKind::pointwise) return {};
  if (has_only_whole(trace, made, type)) return operand = {}, Step{.kind = Kind::fresh};
  operand = beside_numbers(trace, made, type);
  return operand ? std::optional(Step{.kind = Kind::sorted}) : std::nullopt;
}

void StrideWalk::note_slots(Step& step, const Trace& trace, ValueId value, const SlotOf& slot_of) {
  const TensorType& type = trace.type(value);
  step.sizes = slots_.size(), step.rank = type.sizes.size();
  for (const Dim size : type.sizes) slots_.push_back(slot_of(size));
  if (step.kind != Kind::sliced) return;
  step.step = slots_.size();
  slots_.push_back(slot_of(trace[trace[value].definition].attrs.step));
}

// Copies keep such strides, also `contiguous()`, which makes none; only a clone that is told to be contiguous does not.
std::optional<StrideWalk> StrideWalk::of(const Trace& trace, ValueId value, const InputOf& input_of, const SlotOf& slot_of) {
  StrideWalk all;
  std::vector<std::pair<Step, ValueId>> backwards;
  while (value && !(all.input_ = input_of(value))) {
    const InstrId definition = trace[value].definition;
    if (!definition || backwards.size() == kMostSteps) return {};
    const Op op = trace[definition].op;
    ValueId operand = trace[definition].operands.empty() ? ValueId() : trace[definition].operands[0];
    if (op != Op::copy && op != Op::cast && op != Op::alias && op != Op::detach) {
      auto step = step_of(trace, value, operand);
      if (!step) return {};
      backwards.emplace_back(std::move(*step), value);
    }
    all.copies_ = all.copies_ || op == Op::copy || op == Op::cast;
    value = operand;
  }
  for (auto it = backwards.rbegin(); it != backwards.rend(); ++it) {
    all.note_slots(it->first, trace, it->second, slot_of);
    all.steps_.push_back(std::move(it->first));
  }
  if (!all.input_ && all.steps_.size() == 1) return {};
  return all;
}

void StrideWalk::take(const Step& step, const int64_t* table, Known& known) const {
  Strides sizes;
  for (size_t i = 0; i < step.rank; ++i) sizes.push_back(table[slots_[step.sizes + i]]);
  Strides& strides = known.strides;
  const auto axis = static_cast<size_t>(step.axis);
  switch (step.kind) {
    case Kind::fresh: strides = natural_strides(sizes); break;
    case Kind::sorted: strides = sorted_strides({&strides, 1}, sizes); break;
    case Kind::permuted: strides = permuted(strides, step.axes); break;
    case Kind::unsqueezed: strides.insert(strides.begin() + step.axis, axis == strides.size() ? 1 : known.sizes[axis] * strides[axis]); break;
    case Kind::dropped: strides.erase(strides.begin() + step.axis); break;
    case Kind::sliced: strides[axis] *= table[slots_[step.step]]; break;
    case Kind::expanded: strides = expanded(known.sizes, strides, sizes); break;
    case Kind::reshaped: strides = reshaped(known.sizes, strides, sizes); break;
  }
  known.sizes = std::move(sizes);
}

bool StrideWalk::is_exact() const {
  return input_ && !copies_ && std::ranges::none_of(steps_, [](const Step& step) { return step.kind == Kind::fresh; });
}

bool StrideWalk::keeps_new(const at::Tensor& input) const {
  if (std::ranges::any_of(steps_, [](const Step& step) { return step.kind != Kind::sorted; })) return false;
  int64_t next = 1;
  for (size_t axis = input.sizes().size(); axis-- > 0; next *= input.sizes()[axis])
    if (input.sizes()[axis] == 0 || input.strides()[axis] != next) return false;
  return true;
}

Strides StrideWalk::strides(const at::Tensor* input, const int64_t* table) const {
  Known known;
  if (input != nullptr) known = {{input->sizes().begin(), input->sizes().end()}, {input->strides().begin(), input->strides().end()}};
  for (const Step& step : steps_) take(step, table, known);
  return known.strides;
}

}  // namespace escapement
