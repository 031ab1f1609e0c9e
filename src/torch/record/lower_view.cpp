// Views: the same memory under other sizes and strides.
#include <algorithm>
#include <utility>

#include "torch/record/copies.h"
#include "torch/record/layout_questions.h"
#include "torch/record/lower_families.h"

namespace escapement {

namespace {

ValueId reshape_to(OpCall& call, ValueId v, std::vector<Dim> sizes) {
  Attrs attrs;
  attrs.sizes = std::move(sizes);
  return call.build.view(Op::reshape, v, std::move(attrs));
}

ValueId permuted(OpCall& call, ValueId v, std::vector<int32_t> order) {
  Attrs attrs;
  attrs.axes = std::move(order);
  return call.build.view(Op::permute, v, std::move(attrs));
}

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

ValueId with_axis(OpCall& call, Op op, ValueId v, int axis) {
  Attrs attrs;
  attrs.axis = axis;
  return call.build.view(op, v, std::move(attrs));
}

// A size that was computed may come out below 0 at other calls, where it is an error, or -1.
void hold_sign(OpCall& call, Dim& size) {
  DimTable& dims = call.table();
  if (dims.as_constant(size)) return;
  const auto seen = dims.hint(size);
  if (!seen || *seen >= 0) {
    call.tape.guard_relation(Guard::Kind::less_equal, dims.constant(0), size, true, "a size");
    return;
  }
  call.tape.guard_relation(Guard::Kind::equal, size, dims.constant(*seen), true, "a size below 0");
  size = dims.constant(*seen);
}

// -1 among the sizes stands for what is left of the elements; of none in sizes that have a zero anything may be left, which eager refuses.
std::vector<Dim> infer_sizes(OpCall& call, Dim numel, std::vector<Dim> sizes) {
  DimTable& dims = call.table();
  Dim known = dims.constant(1);
  int missing = -1;
  for (Dim& size : sizes) hold_sign(call, size);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (dims.as_constant(sizes[i]) == std::optional<int64_t>(-1)) {
      missing = static_cast<int>(i);
    } else {
      known = dims.mul(known, sizes[i]);
    }
  }
  if (missing < 0) return sizes;
  call.tape.guard_relation(Guard::Kind::not_equal, known, dims.constant(0), true, "what -1 stands for");
  sizes[missing] = dims.floordiv(numel, known);
  return sizes;
}

std::vector<int32_t> identity_order(int rank) {
  std::vector<int32_t> order(rank);
  for (int i = 0; i < rank; ++i) order[i] = i;
  return order;
}

// Eager refuses a view that the strides do not allow.
bool view_as_sizes(OpCall& call, std::vector<Dim> sizes) {
  const ValueId v = call.value("self");
  call.tape.choices.layout_read(v);
  return call.done(reshape_to(call, v, infer_sizes(call, call.table().product(call.type(v).sizes), std::move(sizes))));
}

ValueId copied(OpCall& call, ValueId v) {
  return call.build.pointwise(Op::copy, std::vector<ValueId>{v}, {}, call.build.contiguous_strides(call.type(v).sizes));
}

// A view that eager makes at these sizes only: because there are no elements, or because axes of size 1 do not count. Guarded, as are all
// sizes and strides if it is none of these.
bool view_of_these(OpCall& call, ValueId v, std::vector<Dim> sizes) {
  const TensorType type = call.type(v);
  if (call.real("self").numel() == 0) {
    guard_elements(call, v);
    Attrs attrs;
    attrs.sizes = sizes;
    const std::vector<Dim> strides = call.build.contiguous_strides(sizes);
    attrs.sizes.insert(attrs.sizes.end(), strides.begin(), strides.end());
    attrs.start = type.offset;
    return call.done(call.build.view(Op::as_strided, v, std::move(attrs)));
  }
  for (int axis = type.rank(); axis-- > 0;)
    if (guard_one(call, type.sizes[axis])) v = with_axis(call, Op::squeeze, v, axis);
  try {
    return call.done(reshape_to(call, v, std::move(sizes)));
  } catch (const std::exception&) {
    guard_layout(call, call.value("self"));
    return call.decline(Reason::call_layout);
  }
}

// A view if the layout allows it for all sizes, else a copy; eager makes a view at some of them (choices.h). Where that is decided here, ATen
// does what is right at all sizes, but in replay mode, where results are known before they are made.
bool reshape_as_sizes(OpCall& call, std::vector<Dim> sizes) {
  const ValueId v = call.value("self");
  sizes = infer_sizes(call, call.table().product(call.type(v).sizes), std::move(sizes));
  const bool aliased = call.reals[0].storage().is_alias_of(call.real("self").storage());
  if (call.build.is_contiguous(call.type(v))) return call.done(reshape_to(call, v, std::move(sizes)));
  if (aliased) {
    try {
      return call.done(reshape_to(call, v, sizes));
    } catch (const std::exception&) {
      if (call.tape.host_looks) return view_of_these(call, v, std::move(sizes));  // not for all sizes
    }
  }
  call.as_library_may_share = true;
  call.result_sizes = sizes;
  const Dim copies = reshape_copies(call.table(), call.type(v), sizes);
  const Choice choice{.source = v, .copies = copies, .strays = reshape_strays(call.table(), call.type(v), copies)};
  if (!call.tape.host_looks) note_choice(call, choice);
  const bool is_other = call.type(v).dtype == DType::other;
  if (is_other && !call.tape.host_looks) return call.decline(Reason::call_dtype);
  if (call.tape.choices.decides_now()) return call.decline(Reason::call_layout);
  if (call.tape.host_looks && !decide_copy(call, v, copies)) return call.decline(Reason::call_layout);
  if (is_other) return call.decline(Reason::call_dtype);   // in replay mode a copy tells its inference mode before it is made
  call.may_share = !call.tape.host_looks;
  const ValueId copy = copied(call, v);
  return call.done(reshape_to(call, copy, std::move(sizes)));
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

bool lower_alias(OpCall& call) { return call.done(call.build.view(Op::alias, call.value("self"), {})); }
bool lower_detach(OpCall& call) { return call.done(call.build.view(Op::detach, call.value("self"), {})); }

namespace {

// Eager refuses elements of another size where the last axis has gaps, which is said of nothing, too, and whether the result is used or not.
void hold_last_stride(OpCall& call) {
  const at::Tensor real = call.real("self");
  if (real.dim() == 0 || real.element_size() == call.reals[0].element_size()) return;
  const int last = static_cast<int>(real.dim()) - 1;
  const Dim stride = call.tape.dim_of(asked_stride({call.tape, call.value("self"), real}, last));
  call.tape.guard_relation(Guard::Kind::equal, stride, call.table().constant(1), true, "elements of another size in the same memory");
}

}  // namespace

bool lower_view(OpCall& call) {
  if (!call.given("size")) return hold_last_stride(call), call.decline(Reason::call_attribute);  // view(dtype)
  return view_as_sizes(call, call.dims("size"));
}

bool lower_view_as(OpCall& call) { return view_as_sizes(call, call.type(call.value("other")).sizes); }

bool lower_reshape(OpCall& call) { return reshape_as_sizes(call, call.dims("shape")); }
bool lower_reshape_as(OpCall& call) { return reshape_as_sizes(call, call.type(call.value("other")).sizes); }

bool lower_flatten(OpCall& call) {
  if (!call.given("start_dim") || call.find("out_dim") >= 0) return call.decline(Reason::call_attribute);
  const ValueId v = call.value("self");
  const int rank = call.rank(v);
  const auto first = axis_in(call.integer("start_dim"), rank), last = axis_in(call.integer("end_dim", -1), rank);
  if (!first || !last || *last < *first) return false;
  if (rank > 0 && *first == *last) return call.done(call.reals[0].is_same(call.real("self")) ? v : call.build.view(Op::alias, v, {}));
  const std::vector<Dim>& old = call.type(v).sizes;
  std::vector<Dim> sizes;
  if (rank == 0) {
    sizes = {call.table().constant(1)};
  } else {
    sizes.assign(old.begin(), old.begin() + *first);
    sizes.push_back(call.table().product(std::span(old).subspan(*first, *last - *first + 1)));
    sizes.insert(sizes.end(), old.begin() + *last + 1, old.end());
  }
  return reshape_as_sizes(call, std::move(sizes));
}

bool lower_unflatten(OpCall& call) {
  const ValueId v = call.value("self");
  const auto axis = call.axis("dim", call.rank(v));
  if (!axis) return false;
  std::vector<Dim> sizes = call.type(v).sizes;
  const std::vector<Dim> parts = infer_sizes(call, sizes[*axis], call.dims("sizes"));
  call.tape.guard_relation(Guard::Kind::equal, call.table().product(parts), sizes[*axis], true, "unflattened sizes make up the axis");
  sizes.erase(sizes.begin() + *axis);
  sizes.insert(sizes.begin() + *axis, parts.begin(), parts.end());
  return view_as_sizes(call, std::move(sizes));
}

bool lower_permute(OpCall& call) {
  const ValueId v = call.value("self");
  std::vector<int32_t> order;
  for (const int64_t a : call.integers("dims")) {
    const auto axis = axis_in(a, call.rank(v));
    if (!axis) return false;
    order.push_back(*axis);
  }
  return call.done(permuted(call, v, std::move(order)));
}

bool lower_transpose(OpCall& call) {
  const ValueId v = call.value("self");
  const int rank = call.rank(v);
  const auto a = call.axis("dim0", rank), b = call.axis("dim1", rank);
  if (!a || !b) return call.decline(Reason::call_attribute);
  if (rank == 0) return call.done(call.build.view(Op::alias, v, {}));
  std::vector<int32_t> order = identity_order(rank);
  std::swap(order[*a], order[*b]);
  return call.done(permuted(call, v, std::move(order)));
}

bool lower_t(OpCall& call) {
  const ValueId v = call.value("self");
  std::vector<int32_t> order = identity_order(call.rank(v));
  std::reverse(order.begin(), order.end());
  if (order.size() < 2) return call.done(call.build.view(Op::alias, v, {}));
  return call.done(permuted(call, v, std::move(order)));
}

bool lower_movedim(OpCall& call) {
  const ValueId v = call.value("self");
  const int rank = call.rank(v);
  const std::vector<int64_t> from = call.integers("source"), to = call.integers("destination");
  std::vector<int32_t> order(rank, -1);
  std::vector<bool> moved(rank, false);
  for (size_t i = 0; i < from.size(); ++i) {
    const auto a = axis_in(from[i], rank), b = axis_in(to[i], rank);
    if (!a || !b || rank == 0) return false;
    order[*b] = *a;
    moved[*a] = true;
  }
  int next = 0;
  for (int32_t& place : order) {
    if (place >= 0) continue;
    while (moved[next]) ++next;
    place = next++;
  }
  if (call.reals[0].is_same(call.real("self"))) return call.done(v);
  return call.done(permuted(call, v, std::move(order)));
}

namespace {

bool expand_to(OpCall& call, std::vector<Dim> sizes) {
  const ValueId v = call.value("self");
  const std::vector<Dim>& old = call.type(v).sizes;
  const size_t added = sizes.size() - old.size();
  const Dim zero = call.table().constant(0), kept = call.table().constant(-1);
  for (size_t i = 0; i < added; ++i) call.tape.guard_relation(Guard::Kind::less_equal, zero, sizes[i], true, "expand: a size in front, never -1");
  for (size_t i = 0; i < old.size(); ++i) {
    const bool as_it_is = call.table().hint(sizes[added + i]) == std::optional<int64_t>(-1);
    if (as_it_is) call.tape.guard_relation(Guard::Kind::equal, sizes[added + i], kept, true, "expand: -1 is the size there is");
    else call.tape.guard_relation(Guard::Kind::less_equal, zero, sizes[added + i], true, "expand: a size, not -1");
    if (as_it_is) sizes[added + i] = old[i];
  }
  Attrs attrs;
  attrs.sizes = std::move(sizes);
  return call.done(call.build.view(Op::expand, v, std::move(attrs)));
}

}  // namespace

bool lower_expand(OpCall& call) { return expand_to(call, call.dims("size")); }
bool lower_expand_as(OpCall& call) { return expand_to(call, call.type(call.value("other")).sizes); }

bool lower_unsqueeze(OpCall& call) {
  const ValueId v = call.value("self");
  const auto axis = axis_in(call.integer("dim"), call.rank(v) + 1);
  return axis && call.done(with_axis(call, Op::unsqueeze, v, *axis));
}

// Which axes vanish is fixed by the sizes seen, guarded both ways.
bool lower_squeeze(OpCall& call) {
  ValueId v = call.value("self");
  std::vector<int32_t> axes = call.axes("dim", call.rank(v));
  if (!call.given("dim")) axes = identity_order(call.rank(v));
  const std::vector<Dim> sizes = call.type(v).sizes;
  const Dim one = call.table().constant(1);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const bool vanishes = call.table().hint(sizes[*axis]) == std::optional<int64_t>(1);
    call.tape.guard_relation(Guard::Kind::equal, sizes[*axis], one, vanishes, "squeeze");
    if (vanishes) v = with_axis(call, Op::squeeze, v, *axis);
  }
  if (v == call.value("self")) v = call.build.view(Op::alias, v, {});
  return call.done(v);
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

namespace {

// From the start of the memory to behind the last element; 0 without elements.
Dim elements_spanned(DimTable& dims, Dim start, std::span<const Dim> sizes, std::span<const Dim> strides) {
  const Dim one = dims.constant(1);
  Dim end = dims.add(start, one);
  for (size_t d = 0; d < sizes.size(); ++d) end = dims.add(end, dims.mul(dims.sub(sizes[d], one), strides[d]));
  return dims.mul(dims.min(one, dims.product(sizes)), end);
}

// That the elements, if there are any, lie in the root's memory, which eager asks of the storage. Of an argument's nothing is known but its
// address.
bool as_strided_fits(OpCall& call, ValueId root, Dim start, std::span<const Dim> sizes, std::span<const Dim> strides) {
  DimTable& dims = call.table();
  if (!call.tape.trace()[root].definition || sizes.size() != strides.size() || *dims.hint(start) < 0) return false;
  call.tape.guard_relation(Guard::Kind::less_equal, dims.constant(0), start, true, "as_strided within the memory");
  const Dim needed = elements_spanned(dims, start, sizes, strides);
  const TensorType& type = call.type(root);   // a call's result may have elements that share their memory
  const Dim extent = elements_spanned(dims, dims.constant(0), type.sizes, type.strides);
  if (*dims.hint(needed) > *dims.hint(extent)) return false;
  call.tape.guard_relation(Guard::Kind::less_equal, needed, extent, true, "as_strided within the memory");
  return true;
}

// ATen counts from the start of the storage, the trace from the root's first element. An empty part of a tensor may begin anywhere: a step over
// one element is none here.
Dim start_of_strided(OpCall& call, ValueId v, ValueId root) {
  DimTable& dims = call.table();
  const Dim begin = call.tape.storage_offset(root), own = call.type(v).offset;
  if (call.given("storage_offset")) return dims.sub(call.dim("storage_offset"), begin);
  if (dims.as_constant(own) == std::optional<int64_t>(0)) return own;
  const at::Tensor real = call.real("self");
  asked_offset({call.tape, v, real});
  if (call.tape.live() && dims.hint(dims.add(begin, own)) != std::optional(real.storage_offset()))
    call.tape.refuse(Reason::storage_access, call.plan.target + " of an empty part of a tensor");
  return own;
}

}  // namespace

bool lower_as_strided(OpCall& call) {
  const ValueId v = call.value("self");
  call.tape.choices.written(v);   // it reads any of the memory, whosever that is
  Attrs attrs;
  attrs.sizes = call.lengths("size");
  const std::vector<Dim> strides = call.lengths("stride");
  attrs.sizes.insert(attrs.sizes.end(), strides.begin(), strides.end());
  const ValueId root = call.type(v).root;
  attrs.start = start_of_strided(call, v, root);
  if (!call.tape.live()) return call.decline(Reason::call_attribute);
  const std::span<const Dim> all(attrs.sizes);
  const size_t rank = strides.size();
  if (!as_strided_fits(call, root, attrs.start, all.first(all.size() - rank), strides)) return call.decline(Reason::call_attribute);
  return call.done(call.build.view(Op::as_strided, v, std::move(attrs)));
}

namespace {

// Whether sizes and strides are all of `whole`, a contiguous tensor, in its order; guarded where the symbols do not say so.
bool is_all_of(OpCall& call, const TensorType& whole, std::span<const Dim> sizes, std::span<const Dim> strides) {
  DimTable& dims = call.table();
  const std::vector<Dim> dense = call.build.contiguous_strides(sizes);
  if (strides.size() != dense.size()) return false;
  std::vector<std::pair<Dim, Dim>> same{{dims.product(sizes), dims.product(whole.sizes)}};
  for (size_t i = 0; i < dense.size(); ++i) same.emplace_back(strides[i], dense[i]);
  if (std::ranges::any_of(same, [&](const auto& pair) { return dims.hint(pair.first) != dims.hint(pair.second); })) return false;
  for (const auto& [a, b] : same) call.tape.guard_relation(Guard::Kind::equal, a, b, true, "as_strided_scatter over all of a tensor");
  return true;
}

}  // namespace

// In the gradient of as_strided all that there is is written over, as a rule: a copy, then.
bool lower_as_strided_scatter(OpCall& call) {
  const ValueId self = call.value("self"), source = call.value("src");
  if (!self || !source || call.type(source).dtype == DType::other || call.result_type() == DType::other) return call.decline(Reason::call_dtype);
  const TensorType type = call.type(self);
  const std::vector<Dim> sizes = call.dims("size"), from = call.type(source).sizes;
  const bool whole = call.tape.trace()[type.root].definition && call.build.is_contiguous(type) &&
                     call.table().as_constant(start_of_strided(call, self, type.root)) == std::optional<int64_t>(0);
  if (!whole || from.size() != sizes.size() || !is_all_of(call, type, sizes, call.dims("stride"))) return call.decline(Reason::call_attribute);
  for (size_t i = 0; i < sizes.size(); ++i) call.tape.guard_relation(Guard::Kind::equal, from[i], sizes[i], true, "as_strided_scatter of as much");
  return call.done(reshape_to(call, copied(call, call.build.cast(source, call.result_type())), type.sizes));
}

bool lower_diagonal(OpCall& call) {
  if (call.find("dim1") < 0 || call.given("outdim")) return call.decline(Reason::call_attribute);
  const ValueId v = call.value("self");
  const int rank = call.rank(v);
  const auto a = axis_in(call.integer("dim1", 0), rank), b = axis_in(call.integer("dim2", 1), rank);
  if (!a || !b || call.integer("offset") != 0) return call.decline(Reason::call_attribute);
  DimTable& dims = call.table();
  const TensorType type = call.type(v);
  Attrs attrs;
  std::vector<Dim> strides;
  for (int d = 0; d < rank; ++d) {
    if (d == *a || d == *b) continue;
    attrs.sizes.push_back(type.sizes[d]);
    strides.push_back(type.strides[d]);
  }
  attrs.sizes.push_back(dims.min(type.sizes[*a], type.sizes[*b]));
  strides.push_back(dims.add(type.strides[*a], type.strides[*b]));
  attrs.sizes.insert(attrs.sizes.end(), strides.begin(), strides.end());
  attrs.start = type.offset;
  return call.done(call.build.view(Op::as_strided, v, std::move(attrs)));
}

}  // namespace escapement
