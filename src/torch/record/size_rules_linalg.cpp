// See size_rules.h: matrices, transforms and selections along an axis.
#include "torch/record/size_rules.h"

namespace escapement::size_rules {

namespace {

using Axes = std::vector<Dim>;

const Axes& sizes_of(const OpCall& call, int position) { return call.type(call.value_at(position)).sizes; }

Axes without_last(Axes sizes, size_t count) {
  sizes.resize(sizes.size() - std::min(count, sizes.size()));
  return sizes;
}

Axes joined(Axes front, std::initializer_list<Dim> back) {
  front.insert(front.end(), back);
  return front;
}

bool holds_matrices(const OpCall& call, int position) { return call.value_at(position) && sizes_of(call, position).size() >= 2; }

struct Shape {
  Axes batch;
  Dim rows, columns;
};

Shape shape_of(const OpCall& call, int position) {
  const Axes& sizes = sizes_of(call, position);
  return {without_last(sizes, 2), sizes[sizes.size() - 2], sizes.back()};
}

}  // namespace

Sizes same_matrix(OpCall& call) {
  if (!holds_matrices(call, 0)) return {};
  const Axes& sizes = sizes_of(call, 0);
  Sizes out{sizes};
  for (size_t i = 1; i < call.reals.size(); ++i) out.push_back(call.reals[i].dim() + 1 == call.reals[0].dim() ? without_last(sizes, 1) : without_last(sizes, 2));
  return out;
}

Sizes eigen(OpCall& call) {
  if (!holds_matrices(call, 0)) return {};
  return {without_last(sizes_of(call, 0), 1), sizes_of(call, 0)};
}

Sizes determinant(OpCall& call) {
  if (!holds_matrices(call, 0)) return {};
  const Axes& sizes = sizes_of(call, 0);
  Sizes out(call.reals.size() - std::min<size_t>(call.reals.size(), 2), without_last(sizes, 2));
  out.push_back(sizes);
  out.push_back(without_last(sizes, 1));
  return out;
}

// B is a matrix, or vectors as many as A has batches: which of them ATen takes by their ranks first.
Sizes solution(OpCall& call) {
  const int right = call.find("B");
  if (!holds_matrices(call, 0) || right < 0 || !call.value_at(right)) return {};
  const Axes& factors = sizes_of(call, 0);
  Sizes out;
  if (holds_matrices(call, right) && sizes_of(call, right).size() == factors.size()) {
    const Shape a = shape_of(call, 0), b = shape_of(call, right);
    out.push_back(joined(call.build.broadcast(a.batch, b.batch, call.plan.target.c_str()), {b.rows, b.columns}));
  } else {
    out.push_back(sizes_of(call, right));
  }
  for (const size_t dropped : {0, 1, 2}) out.push_back(without_last(factors, dropped));
  out.resize(std::min(out.size(), call.reals.size()));
  return out;
}

Sizes svd(OpCall& call) {
  if (!holds_matrices(call, 0)) return {};
  const Shape a = shape_of(call, 0);
  const Dim least = call.table().min(a.rows, a.columns);
  const bool full = call.flag("full_matrices");
  return {joined(a.batch, {a.rows, full ? a.rows : least}), joined(a.batch, {least}), joined(a.batch, {full ? a.columns : least, a.columns})};
}

Sizes qr(OpCall& call) {
  if (!holds_matrices(call, 0) || (call.find("mode") >= 0 && call.given("mode") && call.text("mode") != "reduced")) return {};
  const Shape a = shape_of(call, 0);
  const Dim least = call.table().min(a.rows, a.columns);
  return {joined(a.batch, {a.rows, least}), joined(a.batch, {least, a.columns})};
}

// Of n real numbers the first n / 2 + 1 frequencies tell all.
Sizes real_transform(OpCall& call) {
  Axes sizes = sizes_of(call, 0);
  if (call.varies("dim") || call.integers("dim").empty()) return {};
  const auto last = axis_in(call.integers("dim").back(), static_cast<int>(sizes.size()));
  if (!last) return {};
  DimTable& dims = call.table();
  if (call.flag("onesided")) sizes[*last] = dims.add(dims.floordiv(sizes[*last], dims.constant(2)), dims.constant(1));
  return {sizes};
}

Sizes inverse_transform(OpCall& call) {
  Axes sizes = sizes_of(call, 0);
  if (call.varies("dim") || call.integers("dim").empty()) return {};
  const auto last = axis_in(call.integers("dim").back(), static_cast<int>(sizes.size()));
  if (!last) return {};
  sizes[*last] = call.dim("last_dim_size");
  return {sizes};
}

// Vectors are lowered, or there is no rule.
Sizes product(OpCall& call) {
  if (!holds_matrices(call, 0) || !holds_matrices(call, 1)) return {};
  const Shape a = shape_of(call, 0), b = shape_of(call, 1);
  return {joined(call.build.broadcast(a.batch, b.batch, call.plan.target.c_str()), {a.rows, b.columns})};
}

Sizes real_view(OpCall& call) { return {joined(sizes_of(call, 0), {call.table().constant(2)})}; }

Sizes complex_view(OpCall& call) { return {without_last(sizes_of(call, 0), 1)}; }

// The larger or lesser of two tensors has the same names as that of one.
Sizes reduced(OpCall& call) {
  if (call.find("other") >= 0) return broadcast_pair(call);
  Axes sizes = sizes_of(call, 0);
  const int rank = static_cast<int>(sizes.size());
  const bool given = call.given("dim");
  if (given && !call.arg("dim").isInt() && !call.arg("dim").isIntList()) return {};   // axes may have names
  std::vector<int32_t> axes = given ? call.axes("dim", rank) : std::vector<int32_t>();
  if (axes.empty())
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (call.flag("keepdim")) sizes[*axis] = call.table().constant(1);
    else sizes.erase(sizes.begin() + *axis);
  }
  return Sizes(call.reals.size(), sizes);
}

Sizes broadcast_pair(OpCall& call) { return {call.build.broadcast(sizes_of(call, 0), sizes_of(call, 1), call.plan.target.c_str())}; }

Sizes as_index(OpCall& call) { return {call.type(call.value("index")).sizes}; }

}  // namespace escapement::size_rules
