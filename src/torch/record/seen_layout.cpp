// See seen_layout.h.
#include "torch/record/seen_layout.h"

#include <algorithm>

#include "torch/record/copies.h"
#include "trace/layout.h"

namespace escapement {

namespace {

constexpr const char* kOrder = "the order of a result's axes";
constexpr const char* kOrderByOne = "the order of a result's axes, by strides of axes of size 1";
constexpr const char* kDecidedByOne = " of tensors whose axes of size 1 decide the order of the result's";

class SeenLayout {
 public:
  SeenLayout(OpCall& call, const TensorType& type) : call_(call), tape_(call.tape), type_(type) {
    std::copy_if(call.values.begin(), call.values.end(), std::back_inserter(operands_), [](ValueId v) { return static_cast<bool>(v); });
    if (call.plan.base == "threshold_backward") std::ranges::reverse(operands_);   // it asks the forward's tensor first
  }

  // The axes of a pointwise result are in the order of its operands' strides. Where that order is not known for all sizes the result was taken
  // for contiguous, which it is as long as no two axes of more than one element are in another order.
  void hold_order_of_axes() {
    if (!call_.build.result_strides(operands_, type_.sizes).empty()) return;
    for (const ValueId v : operands_) {
      const TensorType operand = call_.type(v);
      for (int i = 0; i < operand.rank(); ++i)
        for (int j = i + 1; j < operand.rank(); ++j) hold_order(operand, i, j);
    }
  }

  // Picked elements lie in the order of the argument's strides. Axes of which no two elements each were seen may lie otherwise than they do.
  void hold_unseen_order() {
    if (tape_.host_looks || are_contiguous()) return;
    DimTable& dims = call_.table();
    Dim unseen = dims.constant(0);
    for (int outer = 0; outer < type_.rank(); ++outer) {
      for (int inner = outer + 1; inner < type_.rank(); ++inner)
        if (const Dim both = matters(type_, outer, inner); dims.hint(both) == std::optional<int64_t>(0)) unseen = dims.add(unseen, both);
    }
    tape_.guard_relation(Guard::Kind::equal, unseen, dims.constant(0), true, kOrder);
  }

  // Attention has several layouts, of operands that are not contiguous; a result without elements tells none.
  void hold_nothing() {
    const Dim count = call_.table().product(type_.sizes);
    if (call_.table().hint(count) != std::optional<int64_t>(0)) return;
    if (are_contiguous()) return;
    tape_.guard_relation(Guard::Kind::equal, count, call_.table().constant(0), true, kOrder);
  }

  // Where two axes are in no order by themselves, one of size 1 may bring them into one by its stride (axes_may_wait, trace/layout.h). Those of
  // our types are what ATen has as long as those of the program's inputs are.
  void hold_axes_of_one(bool left_to_aten) {
    std::vector<TensorType> types;
    std::vector<const TensorType*> pointers;
    for (const ValueId v : operands_) types.push_back(call_.type(v));
    for (const TensorType& type : types) pointers.push_back(&type);
    if (!axes_may_wait(call_.table(), pointers, type_.sizes)) return;
    if (left_to_aten && !lies_as_claimed(pointers)) return tape_.refuse(Reason::recorder_refused, call_.plan.target + kDecidedByOne);
    for (const ValueId v : operands_) hold_strides_of_input(tape_, call_.type(v).root, kOrderByOne);
  }

 private:
  bool are_contiguous() const {
    return std::all_of(operands_.begin(), operands_.end(), [&](ValueId v) { return call_.build.is_contiguous(call_.type(v)); });
  }

  // 0 or 1: do the axes have an order that shows? Of nothing none does.
  Dim matters(const TensorType& type, int outer, int inner) {
    DimTable& dims = call_.table();
    const Dim zero = dims.constant(0), one = dims.constant(1), two = dims.constant(2);
    const auto has_several = [&](int axis) { return dims.max(dims.sub(dims.min(type.sizes[axis], two), one), zero); };
    return dims.mul(some_elements(dims, type), dims.mul(has_several(outer), has_several(inner)));
  }

  // As TensorIterator compares axes: by their strides, and those of one stride by their sizes.
  void hold_order(const TensorType& type, int outer, int inner) {
    DimTable& dims = call_.table();
    const Dim both = matters(type, outer, inner), one = dims.constant(1);
    const auto compared = [&](Dim a, Dim b) { return std::pair(dims.mul(both, a), dims.mul(both, b)); };
    const auto [low, high] = compared(type.strides[inner], type.strides[outer]);
    const auto [next, top] = compared(dims.add(type.strides[inner], one), type.strides[outer]);
    if (!dims.hint(low) || !dims.hint(high)) return;
    if (*dims.hint(next) <= *dims.hint(top)) return tape_.guard_relation(Guard::Kind::less_equal, next, top, true, kOrder);
    if (*dims.hint(low) > *dims.hint(high)) return tape_.guard_relation(Guard::Kind::less, high, low, true, kOrder);
    const auto [small, large] = compared(type.sizes[inner], type.sizes[outer]);
    tape_.guard_relation(Guard::Kind::equal, low, high, true, kOrder);
    tape_.guard_relation(Guard::Kind::less_equal, small, large, *dims.hint(small) <= *dims.hint(large), kOrder);
  }

  // Whether ATen, given operands with the strides that we claim at these sizes, lays the result out as it did.
  bool lies_as_claimed(std::span<const TensorType* const> operands) {
    DimTable now;
    std::vector<TensorType> types;
    std::vector<const TensorType*> pointers;
    for (const TensorType* operand : operands) types.push_back(at_these_sizes(now, *operand));
    for (const TensorType& type : types) pointers.push_back(&type);
    const at::Tensor& real = call_.reals[0];
    std::vector<Dim> sizes;
    for (const int64_t size : real.sizes()) sizes.push_back(now.constant(size));
    const std::vector<Dim> strides = pointwise_strides(now, pointers, sizes);
    for (size_t axis = 0; axis < strides.size(); ++axis)
      if (real.size(axis) > 1 && now.as_constant(strides[axis]) != std::optional<int64_t>(real.stride(axis))) return real.numel() == 0;
    return true;
  }

  TensorType at_these_sizes(DimTable& now, TensorType type) const {
    const auto settle = [&](Dim& dim) { dim = now.constant(call_.table().hint(dim).value_or(1)); };
    std::for_each(type.sizes.begin(), type.sizes.end(), settle);
    std::for_each(type.strides.begin(), type.strides.end(), settle);
    return type;
  }

  OpCall& call_;
  Tape& tape_;
  const TensorType type_;
  std::vector<ValueId> operands_;
};

bool is_read_at_entry(const DimTable& dims, Dim stride) {
  const auto symbol = dims.as_symbol(stride);
  return symbol && dims.info(*symbol).source.kind == Source::Kind::input_stride;
}

}  // namespace

bool hold_strides(Tape& tape, ValueId input, const char* because) {
  DimTable& dims = tape.dims();
  const TensorType type = tape.trace().type(input);
  const Dim some = some_elements(dims, type), none = dims.constant(0);
  std::vector<Dim> differences;
  for (int axis = 0; axis < type.rank(); ++axis) {
    if (is_read_at_entry(dims, type.strides[axis]) || dims.less(dims.constant(1), type.sizes[axis]) == Truth::yes) continue;
    const Dim read = tape.input_stride(*tape.input_of(input), axis, tape.stride_seen(input, axis));
    differences.push_back(dims.mul(some, dims.sub(read, type.strides[axis])));
    if (dims.hint(differences.back()) != std::optional<int64_t>(0)) return false;
  }
  for (const Dim difference : differences) tape.guard_relation(Guard::Kind::equal, difference, none, true, because);
  return true;
}

// Of an input whose strides are not those of its class this one is recorded.
void hold_strides_of_input(Tape& tape, ValueId root, const char* because) {
  const auto input = tape.input_of(root);
  if (!input || hold_strides(tape, root, because)) return;
  const auto pin = [&](Dim dim) {
    if (const auto now = tape.dims().hint(dim)) tape.guard_relation(Guard::Kind::equal, dim, tape.dims().constant(*now), true, because);
  };
  const TensorType type = tape.trace().type(root);
  for (int axis = 0; axis < type.rank(); ++axis) pin(type.sizes[axis]), pin(tape.input_stride(*input, axis, tape.stride_seen(root, axis)));
}

void hold_seen_layout(OpCall& call) {
  if (call.results.empty() || !call.results[0]) return;
  const TensorType type = call.type(call.results[0]);
  const InstrId made_by = call.tape.trace()[call.results[0]].definition;
  if (!made_by || type.rank() < 2 || type.root != call.results[0]) return;
  SeenLayout seen(call, type);
  const Op op = call.tape.trace()[made_by].op;
  if (info(op).kind == OpKind::pointwise) seen.hold_order_of_axes();
  if (call.plan.pointwise && !call.given("memory_format")) seen.hold_axes_of_one(op == Op::call);
  if (op == Op::attention) seen.hold_nothing();
  if (call.plan.base == "index" || (op == Op::attention && type.rank() < 4)) seen.hold_unseen_order();   // of heads it is known
}

}  // namespace escapement
