// Views: the same memory under other sizes and strides.
#include <algorithm>
#include <utility>

#include "torch/record/copies.h"
#include "torch/record/layout_questions.h"
#include "torch/record/lower_families.h"

namespace escapement {

ValueId reshape_to(OpCall& call, ValueId v, std::vector<Dim> sizes) {
  Attrs attrs;
  attrs.sizes = std::move(sizes);
  return call.build.view(Op::reshape, v, std::move(attrs));
}

ValueId contiguous_copy(OpCall& call, ValueId v) {
  return call.build.pointwise(Op::copy, std::vector<ValueId>{v}, {}, call.build.contiguous_strides(call.type(v).sizes));
}

namespace {

ValueId permuted(OpCall& call, ValueId v, std::vector<int32_t> order) {
  Attrs attrs;
  attrs.axes = std::move(order);
  return call.build.view(Op::permute, v, std::move(attrs));
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
  const ValueId copy = contiguous_copy(call, v);
  return call.done(reshape_to(call, copy, std::move(sizes)));
}

}  // namespace

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

}  // namespace escapement
