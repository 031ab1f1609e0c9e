// Copies of an operand side by side, and an operand that is turned around along its axes: views of it that are copied or put together, or rows looked up.
#include <utility>

#include "torch/record/lower_families.h"
#include "torch/record/suggested_format.h"

namespace escapement {

namespace {

ValueId with_axis(OpCall& call, ValueId v, int axis) {
  Attrs attrs;
  attrs.axis = axis;
  return call.build.view(Op::unsqueeze, v, std::move(attrs));
}

// An axis for the copies stands in front of what is repeated, or behind it.
struct Repeats {
  std::vector<Dim> expanded;   // of the operand with an axis for each repetition
  std::vector<Dim> merged;     // of the result
};

bool repeated(OpCall& call, ValueId v, const Repeats& sizes) {
  Attrs attrs;
  attrs.sizes = sizes.expanded;
  const ValueId many[] = {call.build.view(Op::expand, v, std::move(attrs))};
  return call.done(reshape_to(call, call.build.pointwise(Op::copy, many, {}, call.build.contiguous_strides(sizes.expanded)), sizes.merged));
}

bool is_plain(OpCall& call, ValueId v) {
  if (!v || call.type(v).dtype == DType::other) return call.decline(Reason::call_dtype);
  return call.reals[0].is_contiguous() || call.decline(Reason::call_layout);
}

}  // namespace

bool lower_repeat(OpCall& call) {
  ValueId v = call.value("self");
  if (!is_plain(call, v)) return false;
  const std::vector<Dim> times = call.lengths("repeats");
  while (call.rank(v) < static_cast<int>(times.size())) v = with_axis(call, v, 0);
  DimTable& dims = call.table();
  Repeats sizes;
  for (size_t i = 0, axis = 0; i < times.size(); ++i, ++axis) {
    const Dim size = call.type(v).sizes[axis];
    if (dims.as_constant(times[i]) != std::optional<int64_t>(1)) {
      v = with_axis(call, v, static_cast<int>(axis++));
      sizes.expanded.push_back(times[i]);
    }
    sizes.expanded.push_back(size);
    sizes.merged.push_back(dims.mul(times[i], size));
  }
  if (sizes.expanded.size() == times.size()) return call.decline(Reason::call_attribute);   // a copy, of which nothing is repeated
  return repeated(call, v, sizes);
}

// By one number; by a tensor of them the sizes are the data's.
bool lower_repeat_interleave(OpCall& call) {
  const ValueId v = call.value("self");
  if (!v || call.find("repeats") < 0 || call.arg("repeats").isTensor() || !call.given("dim")) return call.decline(Reason::call_attribute);
  const auto axis = call.axis("dim", call.rank(v));
  if (!axis || call.rank(v) == 0 || !is_plain(call, v)) return call.decline(Reason::call_attribute);
  DimTable& dims = call.table();
  const Dim times = call.dim("repeats");
  call.tape.guard_relation(Guard::Kind::less_equal, dims.constant(0), times, true, "repeats are not negative");
  Repeats sizes{call.type(v).sizes, call.type(v).sizes};
  sizes.expanded.insert(sizes.expanded.begin() + *axis + 1, times);
  sizes.merged[*axis] = dims.mul(sizes.merged[*axis], times);
  return repeated(call, with_axis(call, v, *axis + 1), sizes);
}

namespace {

ValueId part(OpCall& call, ValueId v, int axis, Dim start, Dim length) {
  Attrs attrs;
  attrs.axis = axis;
  attrs.start = start;
  attrs.step = call.table().constant(1);
  attrs.sizes = {length};
  return call.build.view(Op::slice, v, std::move(attrs));
}

// Laid out as a new tensor, also where it has no elements: an argument without any may have whatever strides.
bool is_new(OpCall& call, ValueId v) {
  const InstrId made_by = call.tape.trace()[call.type(v).root].definition;
  return made_by && call.tape.trace()[made_by].op != Op::call && call.build.is_contiguous(call.type(v));
}

// What lies behind the cut comes first.
ValueId rolled(OpCall& call, ValueId v, int axis, Dim shift) {
  DimTable& dims = call.table();
  const Dim size = call.type(v).sizes[axis];
  const Dim cut = dims.mod(dims.sub(size, shift), dims.max(size, dims.constant(1)));
  Attrs attrs;
  attrs.axis = axis;
  const ValueId parts[] = {part(call, v, axis, cut, dims.sub(size, cut)), part(call, v, axis, dims.constant(0), cut)};
  return call.build.combine(Op::cat, parts, std::move(attrs));
}

}  // namespace

bool lower_roll(OpCall& call) {
  const ValueId v = call.value("self");
  if (!is_plain(call, v)) return false;
  const std::vector<Dim> shifts = call.dims("shifts");
  const std::vector<int64_t> axes = call.integers("dims");
  const int rank = call.rank(v);
  hold_format(call, v, call.real("self"));
  if (!is_new(call, v) && guard_elements(call, v)) return call.decline(Reason::call_layout);   // eager clones what has no elements
  if (axes.empty()) {
    if (shifts.size() != 1 || !call.build.is_contiguous(call.type(v))) return call.decline(Reason::call_attribute);
    const ValueId turned = rolled(call, reshape_to(call, v, {call.table().product(call.type(v).sizes)}), 0, shifts[0]);
    return call.done(reshape_to(call, turned, call.type(v).sizes));
  }
  ValueId turned = v;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_in(axes[i], rank);
    if (!axis || i >= shifts.size()) return call.decline(Reason::call_attribute);
    turned = rolled(call, turned, *axis, shifts[i]);
  }
  return call.done(turned);
}

// Rows are looked up from the last to the first. Along the innermost axis that is one element at a time, which ATen does faster. An argument's strides of
// axes of one element, and of nothing, would be the result's.
bool lower_flip(OpCall& call) {
  ValueId v = call.value("self");
  if (!is_plain(call, v)) return false;
  if (call.tape.on_device() || !is_new(call, v)) return call.decline(Reason::call_layout);
  DimTable& dims = call.table();
  const int rank = call.rank(v);
  for (const int64_t given : call.integers("dims")) {
    const auto axis = axis_in(given, rank);
    if (!axis || *axis == rank - 1) return call.decline(Reason::call_attribute);
    const Dim size = call.type(v).sizes[*axis];
    Attrs backwards;
    backwards.sizes = {size};
    backwards.dtype = DType::i64;
    backwards.value.kind = Number::Kind::dim;
    backwards.value.dim = dims.sub(size, dims.constant(1));
    backwards.value2 = integer_number(-1);
    Attrs along;
    along.axis = *axis;
    v = call.build.index(Op::index_select, std::vector<ValueId>{v, call.build.create(Op::arange, std::move(backwards))}, std::move(along));
  }
  return v == call.value("self") ? call.decline(Reason::call_attribute) : call.done(v);
}

}  // namespace escapement
