// See overlap.h.
#include "torch/record/overlap.h"

#include <algorithm>

#include "torch/record/layout_questions.h"
#include "torch/record/seen_layout.h"
#include "trace/layout.h"

namespace escapement {
namespace {

constexpr const char* kBecause = "no two elements of a written tensor are one";

// Of an input, or of a view that a library call made.
bool is_any_stride(const DimTable& dims, Dim stride) {
  const auto is_stride = [&](Symbol s) {
    return dims.info(s).kind == SymbolKind::stride || dims.info(s).source.kind == Source::Kind::value_stride;
  };
  const std::vector<Symbol> symbols = dims.symbols(stride);
  return std::any_of(symbols.begin(), symbols.end(), is_stride);
}

// A view with strides that the program chose, or a view of such.
bool has_chosen_strides(const Trace& trace, ValueId v) {
  for (; trace[v].definition && info(trace[trace[v].definition].op).kind == OpKind::view; v = trace[trace[v].definition].operands[0])
    if (trace[trace[v].definition].op == Op::as_strided) return true;
  return false;
}

// Along an axis of more than one element. `any`: the stride is not a product of sizes, of which one that is 0 leaves no elements.
bool may_be_zero(OpCall& call, Dim stride, Dim size, bool any) {
  DimTable& dims = call.table();
  const Dim zero = dims.constant(0);
  if (dims.less_equal(size, dims.constant(1)) == Truth::yes) return false;
  if (const auto known = dims.as_constant(stride)) {
    const bool steps = *known == 0 && dims.hint(size).value_or(0) > 1;   // of a single element it may be another stride
    if (steps) call.tape.guard_relation(Guard::Kind::less, dims.constant(1), size, true, kBecause);
    return *known == 0;
  }
  if ((!any && !is_any_stride(dims, stride)) || dims.less(zero, stride) == Truth::yes) return false;
  if (dims.hint(stride) == std::optional<int64_t>(0)) return true;
  call.tape.guard_relation(Guard::Kind::not_equal, stride, zero, true, kBecause);
  return false;
}

// That the axis steps over what is inside; the stride of a single element steps over nothing.
void hold_outside(OpCall& call, Dim size, Dim inside, Dim stride) {
  DimTable& dims = call.table();
  const Dim one = dims.constant(1);
  if (dims.hint(size) != std::optional<int64_t>(1)) return call.tape.guard_relation(Guard::Kind::less, inside, stride, true, kBecause);
  const Dim further = dims.max(dims.sub(size, one), dims.constant(0));
  call.tape.guard_relation(Guard::Kind::less_equal, dims.mul(further, dims.add(inside, one)), dims.mul(further, stride), true, kBecause);
}

// Does each axis step over all that lies between the first and the last element of the axes with smaller strides? What is not known is a
// guard where it holds now, and `guarded`.
bool is_nested(OpCall& call, const TensorType& type, bool guarded) {
  DimTable& dims = call.table();
  const Dim one = dims.constant(1);
  std::vector<size_t> axes;
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (dims.less_equal(type.sizes[d], one) != Truth::yes) axes.push_back(d);
  std::stable_sort(axes.begin(), axes.end(), [&](size_t a, size_t b) { return dims.hint(type.strides[a]) < dims.hint(type.strides[b]); });
  Dim inside = dims.constant(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim stride = type.strides[axes[i]];
    if (i != 0 && dims.less(inside, stride) != Truth::yes) {
      if (!guarded || dims.hint(inside) >= dims.hint(stride)) return false;
      hold_outside(call, type.sizes[axes[i]], inside, stride);
    }
    inside = dims.add(inside, dims.mul(dims.sub(type.sizes[axes[i]], one), stride));
  }
  return true;
}

// Elements that lie in one place are no error for ATen unless a stride is 0, but then it matters in which order they are read and written.
bool may_overlap_itself(OpCall& call, ValueId value) {
  const TensorType type = call.type(value);
  const bool chosen = has_chosen_strides(call.tape.trace(), value);
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (may_be_zero(call, type.strides[d], type.sizes[d], chosen)) return true;
  const auto is_any = [&](Dim stride) { return is_any_stride(call.table(), stride); };
  const bool any = std::any_of(type.strides.begin(), type.strides.end(), is_any);
  return (any || chosen) && !is_nested(call, type, any);
}

// Behind the last element, from the root's first.
Dim end_of(DimTable& dims, const TensorType& type) {
  Dim end = dims.add(type.offset, dims.constant(1));
  for (size_t d = 0; d < type.sizes.size(); ++d) end = dims.add(end, dims.mul(dims.sub(type.sizes[d], dims.constant(1)), type.strides[d]));
  return end;
}

// Provably before the other in memory. (ATen takes tensors with gaps for apart, and then reads of one what it has just written of the other.)
bool lies_before(DimTable& dims, const TensorType& a, const TensorType& b) {
  return a.root == b.root && dims.less_equal(end_of(dims, a), b.offset) == Truth::yes;
}

bool is_as_seen(const DimTable& dims, const std::vector<Dim>& claimed, c10::IntArrayRef real) {
  const auto same = [&](Dim dim, int64_t now) { return dims.hint(dim) == std::optional<int64_t>(now); };
  return std::equal(claimed.begin(), claimed.end(), real.begin(), real.end(), same);
}

// Where two views of an argument begin at one place, ATen compares all their strides, and those of axes of size 1 are whatever the caller's
// are. The argument itself is handed on as it came, a view of it with the strides that the trace has.
void see_strides(OpCall& call, ValueId value) {
  for (int argument = 0; argument < static_cast<int>(call.args.size()); ++argument) {
    if (call.value_at(argument) != value) continue;
    const at::Tensor real = call.real_at(argument);
    if (!is_as_seen(call.table(), call.type(value).sizes, real.sizes())) return;   // out= that ATen has given other sizes
    for (int axis = 0; axis < real.dim(); ++axis) call.tape.dim_of(asked_stride({call.tape, value, real}, axis));
    if (real.numel() != 0 && !call.tape.input_of(value) && !is_as_seen(call.table(), call.type(value).strides, real.strides()))
      call.tape.refuse(Reason::recorder_refused, call.plan.target + " of a view whose axes of size 1 have strides of their caller's");
    return;
  }
}

// Two views of an argument that is expanded have strides of 0 both; of one that was expanded to a single element, those that its caller gave it.
void hold_expanded(OpCall& call, const TensorType& view) {
  const auto input = call.tape.input_of(view.root);
  if (!input) return;
  const TensorType root = call.type(view.root);
  for (int axis = 0; axis < root.rank(); ++axis) {
    if (call.table().as_constant(root.strides[axis]) != std::optional<int64_t>(0) || call.tape.stride_seen(view.root, axis) != 0) continue;
    if (call.table().less(call.table().constant(1), root.sizes[axis]) == Truth::yes) continue;
    call.tape.guard_relation(Guard::Kind::equal, call.tape.input_stride(*input, axis, 0), root.strides[axis], true, kBecause);
  }
}

// What see_strides is for, where two arguments share memory: the strides of both are guarded, whatever their sizes.
void hold_inputs(OpCall& call, ValueId a, ValueId b) {
  if (!hold_strides(call.tape, a, kBecause) || !hold_strides(call.tape, b, kBecause))
    call.tape.refuse(Reason::recorder_refused, call.plan.target + " of arguments in one memory whose axes of size 1 have strides of their caller's");
}

// The strides of axes of size 1 are eager's, too: the same steps from the same tensor, or steps that keep all strides.
bool is_derived_alike(const Trace& trace, ValueId a, ValueId b) {
  const auto keeps_strides = [](const Instr& instr) { return instr.op == Op::alias || instr.op == Op::detach; };
  const auto view_behind = [&](ValueId& v) -> const Instr* {
    for (;;) {
      const InstrId made_by = trace[v].definition;
      if (!made_by || info(trace[made_by].op).kind != OpKind::view) return nullptr;
      if (!keeps_strides(trace[made_by])) return &trace[made_by];
      v = trace[made_by].operands[0];
    }
  };
  for (;;) {
    const Instr *const of_a = view_behind(a), *const of_b = view_behind(b);
    if (a == b) return true;
    if (!of_a || !of_b || of_a->op != of_b->op || !(of_a->attrs == of_b->attrs)) return false;
    a = of_a->operands[0], b = of_b->operands[0];
  }
}

// Of an argument of a single element along some axis: those that it came with.
void hold_strides_of_root(OpCall& call, ValueId root) {
  if (call.tape.input_of(root) && !hold_strides(call.tape, root, kBecause))
    call.tape.refuse(Reason::recorder_refused, call.plan.target + " of two views of an argument whose axes of size 1 have strides of their caller's");
}

// Two views that are the same part of one memory in the trace are so for ATen where the strides of axes of size 1 are the same, too, which only
// eager's own steps tell: as they were seen, of the same kinds of axes.
void hold_same_strides(OpCall& call, ValueId a, ValueId b) {
  if (is_derived_alike(call.tape.trace(), a, b)) return;
  DimTable& dims = call.table();
  const TensorType type = call.type(a);
  const Dim elements = dims.product(type.sizes), one = dims.constant(1);
  if (dims.hint(elements) == std::optional<int64_t>(0)) return call.tape.guard_relation(Guard::Kind::less, elements, one, true, kBecause);
  for (const Dim size : type.sizes) {
    if (dims.as_constant(size)) continue;
    const bool single = dims.hint(size) == std::optional<int64_t>(1);
    if (single) hold_strides_of_root(call, type.root);
    call.tape.guard_relation(Guard::Kind::less, one, size, !single, kBecause);
  }
}

bool may_overlap_with(OpCall& call, ValueId written, ValueId other) {
  DimTable& dims = call.table();
  const TensorType a = call.type(written), b = call.type(other);
  if (written != other && a.storage == b.storage && a.root == b.root) hold_expanded(call, a);
  const bool of_one = a.root == b.root && dims.same(a.offset, b.offset);
  const bool meet = a.storage == b.storage && (a.root != b.root || of_one), given = written == a.root && other == b.root;
  if (meet && !given && a.sizes.size() == b.sizes.size()) hold_same_strides(call, written, other);
  if (!may_overlap_partly(dims, a, b) || lies_before(dims, a, b) || lies_before(dims, b, a)) return false;
  const bool are_inputs = call.tape.input_of(a.root) && call.tape.input_of(b.root);
  if (a.root != b.root && are_inputs) hold_inputs(call, a.root, b.root);
  else if (a.root != b.root || (of_one && are_inputs)) see_strides(call, written), see_strides(call, other);   // also of a view that a library call made
  return true;
}

// What a kernel of ATen has written of an out= argument before it has read all of an operand there is its own affair.
bool reads_what_it_writes(OpCall& call, ValueId written) {
  if (call.plan.form != OpPlan::Form::out || call.plan.pointwise) return false;
  const auto shares = [&](ValueId value) { return value && call.type(value).storage == call.type(written).storage; };
  return std::count_if(call.values.begin(), call.values.end(), shares) > 1;
}

}  // namespace

void hold_overlaps(OpCall& call) {
  for (const uint32_t argument : call.plan.writes)
    if (const ValueId written = call.value_at(static_cast<int>(argument)))
      for (const ValueId other : call.values)
        if (other && other != written) may_overlap_with(call, written, other);
}

// All is looked at, whatever was found: each pair has its own guards.
bool may_overlap(OpCall& call) {
  bool may = false;
  for (const uint32_t argument : call.plan.writes) {
    const ValueId written = call.value_at(static_cast<int>(argument));
    if (!written) continue;
    may = may_overlap_itself(call, written) || may;
    may = reads_what_it_writes(call, written) || may;
    for (const ValueId other : call.values)
      if (other && other != written) may = may_overlap_with(call, written, other) || may;
  }
  return may;
}

}  // namespace escapement
