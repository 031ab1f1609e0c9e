// Merging of axes and the choice between fast and general: see launch.h.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "jit/run/launch.h"
#include "jit/run/row_block.h"

namespace escapement {
namespace {

int64_t expected_stride(const LoopParam& param) { return param.inner == InnerStride::unit ? size_of(param.dtype) : 0; }

class Axes {
 public:
  Axes(const LoopNest& nest, Geometry& geometry)
      : nest_(nest), geometry_(geometry), columns_(nest.axes.size() + 1) {}

  int64_t& extent(size_t axis) { return geometry_.extents[axis]; }
  int64_t& stride(size_t param, size_t axis) { return geometry_.strides[param * columns_ + axis]; }
  size_t params() const { return nest_.params.size(); }

  bool may_merge(size_t outer, size_t inner) const {
    const LoopAxis &a = nest_.axes[outer], &b = nest_.axes[inner];
    return a.reduced == b.reduced && !a.indexed && !b.indexed;
  }

  // The reduced axes of a column nest stand between its vector axis and the others, which may be one with it all the same.
  bool stands_between(size_t outer, size_t inner) const {
    return nest_.schedule == Schedule::column && inner + 1 == nest_.axes.size() && nest_.axes[outer].reduced;
  }

  // Whether `inner`, of one element, is as good for vectors with the elements of `outer`.
  bool may_take_over(size_t outer, size_t inner) {
    if (nest_.schedule != Schedule::column || inner + 1 != nest_.axes.size()) return true;
    for (size_t p = 0; p < params(); ++p) {
      if (stride(p, outer) != expected_stride(nest_.params[p])) return false;
    }
    return true;
  }

  bool consistent(size_t outer, size_t inner) {
    for (size_t p = 0; p < params(); ++p) {
      if (stride(p, outer) != stride(p, inner) * extent(inner)) return false;
    }
    return true;
  }

  // `inner` takes over the points of `outer`.
  void merge(size_t outer, size_t inner) {
    if (extent(inner) == 1) {
      for (size_t p = 0; p < params(); ++p) stride(p, inner) = stride(p, outer);
    }
    extent(inner) *= extent(outer);
    extent(outer) = 1;
    for (size_t p = 0; p < params(); ++p) stride(p, outer) = 0;
  }

  void swap(size_t a, size_t b) {
    std::swap(extent(a), extent(b));
    for (size_t p = 0; p < params(); ++p) std::swap(stride(p, a), stride(p, b));
  }

 private:
  const LoopNest& nest_;
  Geometry& geometry_;
  size_t columns_;
};

// The axis that the vector runs along, or none.
size_t vector_axis(const LoopNest& nest) { return nest.axes.empty() ? SIZE_MAX : nest.axes.size() - 1; }

size_t first_written(const LoopNest& nest) {
  const auto it = std::find_if(nest.params.begin(), nest.params.end(), [](const LoopParam& p) { return p.written; });
  return static_cast<size_t>(it - nest.params.begin());
}

}  // namespace

void order_axes(const LoopNest& nest, Geometry& geometry) {
  const auto indexed = [](const LoopAxis& axis) { return axis.indexed; };
  if (nest.schedule != Schedule::map || nest.axes.size() < 2) return;
  if (std::any_of(nest.axes.begin(), nest.axes.end(), indexed)) return;
  const size_t written = first_written(nest);
  if (written == nest.params.size()) return;
  Axes axes(nest, geometry);
  // Insertion sort, stable, few axes: a larger stride goes outwards; axes of extent 1 have no say.
  for (size_t i = 1; i < nest.axes.size(); ++i) {
    for (size_t j = i; j > 0; --j) {
      const bool matters = axes.extent(j) != 1 && axes.extent(j - 1) != 1;
      if (!matters ? axes.extent(j) != 1 || axes.extent(j - 1) == 1
                   : axes.stride(written, j - 1) >= axes.stride(written, j)) break;
      axes.swap(j - 1, j);
    }
  }
}

namespace {

// What the general variant of a map pays for a point with `axis` as the vector axis, in strided loads: starting a vector loop, shared by the points of
// one, and an access for each operand, which is dearer the more memory lies between two, and where it is written.
double cost_along(const LoopNest& nest, const Geometry& geometry, size_t axis) {
  constexpr double kStart = 40, kExpected = 0.25, kLine = 64;
  double cost = kStart / static_cast<double>(geometry.extents[axis]);
  for (size_t p = 0; p < nest.params.size(); ++p) {
    const int64_t stride = std::abs(geometry.strides[p * (nest.axes.size() + 1) + axis]);
    const double distance = std::min(static_cast<double>(stride), kLine) / kLine;
    const double apart = (nest.params[p].written ? 2 : 1) * (1 + 3 * distance);
    cost += stride == expected_stride(nest.params[p]) ? kExpected : apart;
  }
  return cost;
}

}  // namespace

// Another axis is taken only where it is a good deal better: how the costs compare, machines see differently.
void choose_vector_axis(const LoopNest& nest, Geometry& geometry) {
  const auto indexed = [](const LoopAxis& axis) { return axis.indexed; };
  if (nest.schedule != Schedule::map || nest.axes.size() < 2 || std::any_of(nest.axes.begin(), nest.axes.end(), indexed)) return;
  if (std::any_of(geometry.extents.begin(), geometry.extents.end(), [](int64_t extent) { return extent == 0; })) return;
  const size_t last = nest.axes.size() - 1;
  size_t best = last;
  double least = 0.7 * cost_along(nest, geometry, last);
  for (size_t axis = 0; axis < last; ++axis) {
    const double cost = geometry.extents[axis] == 1 ? least : cost_along(nest, geometry, axis);
    if (cost < least) best = axis, least = cost;
  }
  Axes axes(nest, geometry);
  for (size_t axis = best; axis < last; ++axis) axes.swap(axis, axis + 1);
}

namespace {

// Nothing to reduce: one empty axis says it as well as several.
void flatten_empty_reduction(const LoopNest& nest, Geometry& geometry) {
  size_t last = 0;
  bool empty = false;
  for (size_t axis = 0; axis < nest.axes.size(); ++axis) {
    if (!nest.axes[axis].reduced) continue;
    empty |= geometry.extents[axis] == 0;
    last = axis;
  }
  for (size_t axis = 0; empty && axis <= last; ++axis) {
    if (nest.axes[axis].reduced) geometry.extents[axis] = axis == last ? 0 : 1;
  }
}

}  // namespace

void merge_axes(const LoopNest& nest, Geometry& geometry) {
  flatten_empty_reduction(nest, geometry);
  Axes axes(nest, geometry);
  for (size_t inner = nest.axes.size(); inner-- > 1;) {
    for (size_t outer = inner; outer-- > 0;) {
      if (axes.extent(outer) == 1 || axes.stands_between(outer, inner)) continue;  // nothing to take over; look further out
      if (!axes.may_merge(outer, inner)) break;
      if (axes.extent(inner) != 1 ? !axes.consistent(outer, inner) : !axes.may_take_over(outer, inner)) break;
      axes.merge(outer, inner);
    }
  }
  const size_t vector = vector_axis(nest);
  if (vector == SIZE_MAX || axes.extent(vector) > 1) return;
  for (size_t p = 0; p < nest.params.size(); ++p) axes.stride(p, vector) = expected_stride(nest.params[p]);
}

bool is_fast(const LoopNest& nest, const Geometry& geometry) {
  const size_t columns = nest.axes.size() + 1, vector = vector_axis(nest);
  if (vector == SIZE_MAX) return false;
  for (size_t p = 0; p < nest.params.size(); ++p) {
    if (geometry.strides[p * columns + vector] != expected_stride(nest.params[p])) return false;
  }
  if (nest.schedule != Schedule::row) return true;
  for (size_t axis = 0; axis < vector; ++axis) {
    if (nest.axes[axis].reduced && geometry.extents[axis] != 1) return false;
  }
  return true;
}

namespace {

// Of nests that reduce: the parallel axes outside the reduced ones.
size_t row_axes(const LoopNest& nest) {
  const auto reduced = std::find_if(nest.axes.begin(), nest.axes.end(), [](const LoopAxis& axis) { return axis.reduced; });
  return static_cast<size_t>(reduced - nest.axes.begin());
}

size_t element_axis(const LoopNest& nest) { return nest.axes.size() - (nest.schedule == Schedule::column ? 2 : 1); }

// What the block variant pays for an element with `axis` as that of the rows: nothing but the access where neighbours are adjacent, a copy where the elements of a
// row are, a slow one elsewhere; and all of that for the places of a block that stay empty.
double cost_of_rows(const LoopNest& nest, const Geometry& geometry, size_t axis) {
  const size_t columns = nest.axes.size() + 1, last = element_axis(nest);
  double cost = 1;
  for (size_t p = 0; p < nest.params.size(); ++p) {
    const int64_t size = size_of(nest.params[p].dtype), *strides = &geometry.strides[p * columns];
    cost += strides[axis] == size ? 1 : strides[last] == size || strides[last] == 0 ? 2 : 4;
  }
  const int64_t extent = geometry.extents[axis], places = (extent + kBlockRows - 1) / kBlockRows * kBlockRows;
  return cost * static_cast<double>(places) / static_cast<double>(extent);
}

}  // namespace

size_t row_axis(const LoopNest& nest) { return nest.schedule == Schedule::column ? nest.axes.size() - 1 : row_axes(nest) - 1; }

bool is_block(const LoopNest& nest, const Geometry& geometry) {
  const size_t rows = row_axes(nest), columns = nest.axes.size() + 1, last = element_axis(nest);
  if (nest.schedule == Schedule::map || rows == nest.axes.size() || (rows == 0 && nest.schedule == Schedule::row)) return false;
  for (size_t axis = rows; axis < last; ++axis) {
    if (geometry.extents[axis] != 1) return false;
  }
  if (nest.schedule == Schedule::column) return true;
  for (size_t p = 0; p < nest.params.size(); ++p) {
    if (nest.params[p].inner == InnerStride::zero && geometry.strides[p * columns + last] != 0) return false;
  }
  return true;
}

void choose_row_axis(const LoopNest& nest, Geometry& geometry) {
  if (std::any_of(nest.axes.begin(), nest.axes.end(), [](const LoopAxis& axis) { return axis.indexed; })) return;
  if (std::any_of(geometry.extents.begin(), geometry.extents.end(), [](int64_t extent) { return extent == 0; })) return;
  const size_t rows = row_axis(nest);
  size_t best = rows;
  for (size_t axis = rows; axis-- > 0;) {
    if (!nest.axes[axis].reduced && cost_of_rows(nest, geometry, axis) < cost_of_rows(nest, geometry, best)) best = axis;
  }
  if (best != rows) Axes(nest, geometry).swap(best, rows);
}

namespace {

// Whether the general variant can see how what the stage reads and writes lies (jit/llvm/row_layout.h), and it lies so.
bool is_in_runs(const LoopNest& nest, const Geometry& geometry, const Stage& stage) {
  const size_t columns = nest.axes.size() + 1, innermost = nest.axes.size() - 1;
  const auto lies = [&](uint32_t p) { return geometry.strides[p * columns + innermost] == expected_stride(nest.params[p]); };
  const auto reads = [&](const LoopInput& input) {
    if (input.kind == LoopInput::Kind::index) return !nest.axes[input.number].reduced;
    return input.kind != LoopInput::Kind::gather && (input.kind != LoopInput::Kind::load || lies(input.number));
  };
  return std::all_of(stage.inputs.begin(), stage.inputs.end(), reads) &&
         std::all_of(stage.stores.begin(), stage.stores.end(), [&](const LoopStore& store) { return lies(store.param); });
}

}  // namespace

bool is_in_long_runs(const LoopNest& nest, const Geometry& geometry) {
  constexpr int64_t kWorthRun = 48;   // elements: shorter runs are mostly beginnings and ends; copies do better
  if (nest.schedule != Schedule::row || nest.axes.empty() || !nest.axes.back().reduced || geometry.extents.back() < kWorthRun) return false;
  return std::all_of(nest.stages.begin(), nest.stages.end(), [&](const Stage& stage) {
    return stage.kind == Stage::Kind::each_row || is_in_runs(nest, geometry, stage);
  });
}

bool is_alone(const LoopNest& nest, const Geometry& geometry) {
  if (nest.schedule != Schedule::column || nest.axes.size() < 2 || geometry.extents.back() != 1) return false;
  const size_t columns = nest.axes.size() + 1, last = element_axis(nest);
  for (size_t axis = 0; axis < last; ++axis) {
    if (nest.axes[axis].reduced && geometry.extents[axis] != 1) return false;
  }
  const auto adjacent = [&](uint32_t p) { return geometry.strides[p * columns + last] == size_of(nest.params[p].dtype); };
  return std::all_of(nest.stages.begin(), nest.stages.end(), [&](const Stage& stage) {
    const auto reads = [&](const LoopInput& input) { return input.kind != LoopInput::Kind::load || adjacent(input.number); };
    return stage.kind == Stage::Kind::each_row || (std::all_of(stage.inputs.begin(), stage.inputs.end(), reads) &&
           std::all_of(stage.stores.begin(), stage.stores.end(), [&](const LoopStore& store) { return adjacent(store.param); }));
  });
}

bool is_strided(const LoopNest& nest, const Geometry& geometry) {
  bool some = false;
  for (size_t p = 0; p < nest.params.size() && nest.schedule == Schedule::map; ++p) {
    if (nest.params[p].inner == InnerStride::unit) continue;
    if (geometry.strides[p * (nest.axes.size() + 1) + nest.axes.size() - 1] != 0) return false;
    some = true;
  }
  return some;
}

bool is_tile(const LoopNest& nest, const Geometry& geometry) {
  if (nest.schedule != Schedule::map || nest.axes.size() < 2) return false;
  const size_t columns = nest.axes.size() + 1, vector = vector_axis(nest);
  for (size_t p = 0; p < nest.params.size(); ++p) {
    const int64_t* strides = &geometry.strides[p * columns];
    const int64_t expected = expected_stride(nest.params[p]);
    const bool transposed = nest.params[p].inner == InnerStride::unit && strides[vector - 1] == expected;
    if (strides[vector] != expected && !transposed) return false;
  }
  return true;
}

}  // namespace escapement
