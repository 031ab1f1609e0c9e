// Views by strides: as_strided, what its gradient writes, diagonals.
#include <algorithm>
#include <utility>

#include "torch/record/layout_questions.h"
#include "torch/record/lower_families.h"

namespace escapement {

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
  return call.done(reshape_to(call, contiguous_copy(call, call.build.cast(source, call.result_type())), type.sizes));
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
