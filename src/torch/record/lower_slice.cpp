// Parts of a tensor, by positions along one axis: slices, single positions, and all of them as pieces.
#include <algorithm>
#include <utility>

#include "torch/record/lower_families.h"

namespace escapement {

namespace {

ValueId sliced(OpCall& call, ValueId v, int axis, Dim start, Dim length, Dim step) {
  Attrs attrs;
  attrs.axis = axis;
  attrs.start = start;
  attrs.step = step;
  attrs.sizes = {length};
  return call.build.view(Op::slice, v, std::move(attrs));
}

ValueId selected(OpCall& call, ValueId v, int axis, Dim index) {
  Attrs attrs;
  attrs.axis = axis;
  attrs.start = index;
  return call.build.view(Op::select, v, std::move(attrs));
}

// Python's slice bounds: negative ones count from the end, and both are clipped to the axis.
Dim clip_bound(OpCall& call, const c10::SymInt& bound, Dim size, int64_t size_hint) {
  DimTable& dims = call.table();
  Dim b = call.tape.dim_of(bound);
  const int64_t hint = hint_of(bound);
  if (hint < 0) {
    call.tape.guard_relation(Guard::Kind::less, b, dims.constant(0), true, "negative slice bound");
    b = dims.add(b, size);
  } else {
    call.tape.guard_relation(Guard::Kind::less_equal, dims.constant(0), b, true, "slice bound");
  }
  const int64_t normal = hint < 0 ? hint + size_hint : hint;
  if (normal < 0) {
    call.tape.guard_relation(Guard::Kind::less, b, dims.constant(0), true, "slice bound before the start");
    return dims.constant(0);
  }
  call.tape.guard_relation(Guard::Kind::less_equal, dims.constant(0), b, true, "slice bound");
  if (dims.less_equal(b, size) == Truth::yes) return b;
  if (normal > size_hint) {
    call.tape.guard_relation(Guard::Kind::less, size, b, true, "slice bound past the end");
    return size;
  }
  call.tape.guard_relation(Guard::Kind::less_equal, b, size, true, "slice bound within the axis");
  return b;
}

c10::SymInt bound_of(const OpCall& call, std::string_view name, int64_t otherwise) {
  if (!call.given(name)) return otherwise;
  const c10::IValue& v = call.arg(name);
  return v.isSymInt() ? v.toSymInt() : c10::SymInt(v.toInt());
}

}  // namespace

Dim normal_index(OpCall& call, std::string_view name, Dim size) {
  const c10::SymInt index = bound_of(call, name, 0);
  const Dim i = call.tape.dim_of(index);
  if (hint_of(index) >= 0) {
    call.tape.guard_relation(Guard::Kind::less_equal, call.table().constant(0), i, true, "index");
    return i;
  }
  call.tape.guard_relation(Guard::Kind::less, i, call.table().constant(0), true, "index counted from the end");
  return call.table().add(i, size);
}

SliceBounds slice_bounds(OpCall& call, Dim size) {
  DimTable& dims = call.table();
  const int64_t hint = *dims.hint(size);
  const Dim start = clip_bound(call, bound_of(call, "start", 0), size, hint);
  const c10::SymInt stop = bound_of(call, "end", INT64_MAX);
  const bool to_end = !stop.is_heap_allocated() && stop.as_int_unchecked() == INT64_MAX;
  Dim end = to_end ? size : clip_bound(call, stop, size, hint);
  if (*dims.hint(end) < *dims.hint(start)) {
    call.tape.guard_relation(Guard::Kind::less, end, start, true, "empty slice");
    end = start;
  } else {
    call.tape.guard_relation(Guard::Kind::less_equal, start, end, true, "slice");
  }
  const Dim step = call.given("step") ? call.dim("step") : dims.constant(1);
  if (!dims.as_constant(step)) call.tape.guard_relation(Guard::Kind::less, dims.constant(0), step, true, "step of a slice");
  return {start, end, dims.floordiv(dims.add(dims.sub(end, start), dims.sub(step, dims.constant(1))), step), step};
}

bool lower_slice(OpCall& call) {
  const ValueId v = call.value("self");
  const auto axis = call.axis("dim", call.rank(v));
  if (!axis || call.rank(v) == 0) return false;
  const SliceBounds bounds = slice_bounds(call, call.type(v).sizes[*axis]);
  return call.done(sliced(call, v, *axis, bounds.start, bounds.length, bounds.step));
}

bool lower_narrow(OpCall& call) {
  const ValueId v = call.value("self");
  const auto axis = call.axis("dim", call.rank(v));
  if (!axis || call.given("start") == false || call.arg("start").isTensor()) return call.decline(Reason::call_attribute);
  const Dim start = normal_index(call, "start", call.type(v).sizes[*axis]);
  const Dim length = call.dim("length");
  call.tape.guard_relation(Guard::Kind::less_equal, call.table().add(start, length), call.type(v).sizes[*axis], true, "narrow");
  return call.done(sliced(call, v, *axis, start, length, call.table().constant(1)));
}

bool lower_select(OpCall& call) {
  const ValueId v = call.value("self");
  const auto axis = call.axis("dim", call.rank(v));
  if (!axis || call.rank(v) == 0 || !call.given("index")) return call.decline(Reason::call_attribute);
  const Dim size = call.type(v).sizes[*axis];
  const Dim index = normal_index(call, "index", size);
  call.tape.guard_relation(Guard::Kind::less_equal, call.table().constant(0), index, true, "index within the axis");
  call.tape.guard_relation(Guard::Kind::less, index, size, true, "index within the axis");
  return call.done(selected(call, v, *axis, index));
}

bool lower_unbind(OpCall& call) {
  const ValueId v = call.value("self");
  const auto axis = call.axis("dim", call.rank(v));
  if (!axis) return false;
  const int64_t count = static_cast<int64_t>(call.reals.size());
  call.tape.guard_relation(Guard::Kind::equal, call.type(v).sizes[*axis], call.table().constant(count), true, "unbind");
  for (int64_t i = 0; i < count; ++i) call.results.push_back(selected(call, v, *axis, call.table().constant(i)));
  return true;
}

namespace {

bool pieces(OpCall& call, ValueId v, int axis, const std::vector<Dim>& lengths) {
  DimTable& dims = call.table();
  Dim start = dims.constant(0);
  for (const Dim length : lengths) {
    call.results.push_back(sliced(call, v, axis, start, length, dims.constant(1)));
    start = dims.add(start, length);
  }
  return true;
}

// `count` pieces of `size` elements, the last one what is left. How many there are is guarded.
bool equal_pieces(OpCall& call, ValueId v, int axis, Dim size) {
  DimTable& dims = call.table();
  const Dim total = call.type(v).sizes[axis];
  const int64_t count = static_cast<int64_t>(call.reals.size());
  hold_pieces(call, total, size);
  std::vector<Dim> lengths(count, size);
  lengths.back() = dims.sub(total, dims.mul(dims.constant(count - 1), size));
  return pieces(call, v, axis, lengths);
}

// Lengths that are not negative and sum up to the axis: what eager asks. That no piece leaves the axis follows; it is told to the
// table, which cannot see it where there are more lengths than a sum has terms, so that no piece needs a guard of its own.
void split_by_lengths(OpCall& call, Dim total, const std::vector<Dim>& lengths) {
  DimTable& dims = call.table();
  Dim sum = dims.constant(0);
  for (const Dim length : lengths) {
    call.tape.guard_relation(Guard::Kind::less_equal, dims.constant(0), length, true, "split sizes are not negative");
    sum = dims.add(sum, length);
  }
  call.tape.guard_relation(Guard::Kind::equal, sum, total, true, "split sizes sum up to the axis");
  if (!call.tape.live() || lengths.size() < DimTable::kMaxTerms) return;
  Dim start = dims.constant(0);
  std::vector<Dim> overhangs;
  for (const Dim length : lengths) {  // as the rule of a slice will ask: wide sums are equal only if they are made alike
    const Dim room = dims.canonical(dims.sub(total, start));
    overhangs.push_back(dims.sub(dims.canonical(length), room));
    start = dims.add(start, length);
  }
  dims.assume_ranges(overhangs, {Range::kMin, 0});
}

}  // namespace

void hold_pieces(OpCall& call, Dim total, Dim size) {
  DimTable& dims = call.table();
  const int64_t count = static_cast<int64_t>(call.reals.size());
  const Dim before_last = dims.mul(dims.constant(count - 1), size);
  if (count > 1) call.tape.guard_relation(Guard::Kind::less, before_last, total, true, "number of pieces of a split");
  call.tape.guard_relation(Guard::Kind::less_equal, total, dims.mul(dims.constant(count), size), true, "number of pieces of a split");
}

bool lower_split(OpCall& call) {
  const ValueId v = call.value("self");
  const auto axis = axis_in(call.integer("dim"), call.rank(v));
  if (!axis || call.reals.empty()) return false;
  if (call.find("split_size") >= 0) {
    const c10::IValue& size = call.arg("split_size");
    if (size.isInt() || size.isSymInt()) return equal_pieces(call, v, *axis, call.dim("split_size"));
  }
  const std::vector<Dim> lengths = call.dims(call.find("split_sizes") >= 0 ? "split_sizes" : "split_size");
  split_by_lengths(call, call.type(v).sizes[*axis], lengths);
  return pieces(call, v, *axis, lengths);
}

bool lower_chunk(OpCall& call) {
  const ValueId v = call.value("self");
  const auto axis = axis_in(call.integer("dim"), call.rank(v));
  if (!axis || call.reals.empty()) return false;
  DimTable& dims = call.table();
  const int64_t chunks = call.integer("chunks");
  const Dim total = call.type(v).sizes[*axis], zero = dims.constant(0);
  const bool nothing = dims.hint(total) == std::optional<int64_t>(0);
  call.tape.guard_relation(Guard::Kind::equal, total, zero, nothing, "as many pieces as are asked for, of nothing");
  if (nothing) return pieces(call, v, *axis, std::vector<Dim>(call.reals.size(), zero));
  const Dim size = dims.floordiv(dims.add(call.type(v).sizes[*axis], dims.constant(chunks - 1)), dims.constant(chunks));
  return equal_pieces(call, v, *axis, size);
}

}  // namespace escapement
