// How the dims of operands, results and viewed values follow from the dims that a node iterates over; where results are stored.
#include <algorithm>

#include "kernels/graph.h"
#include "support/error.h"

namespace escapement {
namespace {

// Right-aligned broadcasting of an operand against the consumer's shape.
bool broadcast_map(const FuseGraph& graph, const GraphNode& node, ValueId v, const AxisMap& iter, AxisMap& map) {
  const auto& sizes = graph.trace.type(v).sizes;
  const size_t lead = node.shape.size() - sizes.size();
  bool proved = true;
  map.assign(sizes.size(), {});
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (is_one(graph.trace.dims, sizes[d])) continue;
    map[d] = iter[lead + d];
    proved = proved && graph.trace.dims.same(sizes[d], node.shape[lead + d]);
  }
  return proved;
}

void positions_map(const FuseGraph& graph, const GraphNode& node, ValueId v, const AxisMap& iter, AxisMap& map) {
  const Instr& instr = graph.instr(node);
  if (instr.op == Op::index_select) {
    map.assign(graph.trace.type(v).sizes.size(), {});
    if (!map.empty()) map[0] = iter[instr.attrs.axis];
  } else {
    map.assign(iter.begin(), iter.begin() + graph.trace.type(v).sizes.size());
  }
}

bool expand_to_operand(const Trace& trace, const Instr& instr, AxisMap& map) {
  const auto& from = trace.type(instr.operands[0]).sizes;
  const auto& to = trace.type(instr.results[0]).sizes;
  const size_t lead = to.size() - from.size();
  AxisMap shorter(from.size());
  for (size_t d = 0; d < from.size(); ++d) {
    if (is_one(trace.dims, from[d])) continue;
    if (!trace.dims.same(from[d], to[lead + d])) return false;
    shorter[d] = map[lead + d];
  }
  map = std::move(shorter);
  return true;
}

bool reshape_to_operand(const Trace& trace, AxisSpace& space, const Instr& instr, AxisMap& map) {
  const auto& from = trace.type(instr.operands[0]).sizes;
  AxisList all;
  for (const AxisList& list : map) all.append(list);
  if (all.overflowed()) return false;
  map.assign(from.size(), {});
  for (size_t d = from.size(); d-- > 0;) {
    if (!space.take(all, from[d], map[d])) return false;
  }
  return space.expand(all).empty();
}

bool slice_is_whole(const Trace& trace, const Instr& instr) {
  const DimTable& dims = trace.dims;
  const auto& from = trace.type(instr.operands[0]).sizes;
  const auto& to = trace.type(instr.results[0]).sizes;
  const int32_t axis = instr.attrs.axis;
  const bool from_start = !instr.attrs.start || dims.as_constant(instr.attrs.start) == 0;
  const bool each = !instr.attrs.step || dims.as_constant(instr.attrs.step) == 1;
  return from_start && each && dims.same(from[axis], to[axis]);
}

bool view_to_operand(const Trace& trace, AxisSpace& space, const Instr& instr, AxisMap& map, Reason& why) {
  switch (instr.op) {
    case Op::alias: case Op::detach: return true;
    case Op::permute: {
      AxisMap before(map.size());
      for (size_t i = 0; i < map.size(); ++i) before[instr.attrs.axes[i]] = map[i];
      map = std::move(before);
      return true;
    }
    case Op::expand:
      why = Reason::apart_domain;
      return expand_to_operand(trace, instr, map);
    case Op::unsqueeze:
      map.erase(map.begin() + instr.attrs.axis);
      return true;
    case Op::squeeze:  // of no axes: itself
      if (trace.type(instr.operands[0]).rank() > 0) map.insert(map.begin() + instr.attrs.axis, AxisList());
      return true;
    case Op::slice:
      why = Reason::apart_slice;
      return slice_is_whole(trace, instr);
    case Op::select:
      why = Reason::apart_slice;
      return false;
    case Op::reshape:
      why = Reason::apart_reshape;
      return reshape_to_operand(trace, space, instr, map);
    default:
      why = Reason::apart_reshape;
      return false;
  }
}

// Where each part of a cat starts: the sum of the parts before it, made once for all of them.
const std::vector<Dim>& starts_of(FuseGraph& graph, const GraphNode& node) {
  const auto [known, fresh] = graph.part_starts.try_emplace(node.instr.index);
  if (!fresh) return known->second;
  const Instr& cat = graph.instr(node);
  Dim start = graph.trace.dims.constant(0);
  for (const ValueId part : cat.operands) {
    known->second.push_back(start);
    start = graph.trace.dims.add(start, graph.trace.type(part).sizes[cat.attrs.axis]);
  }
  return known->second;
}

Place cat_place(FuseGraph& graph, const GraphNode& node, Place place) {
  DimTable& dims = graph.trace.dims;
  const Instr& instr = graph.instr(node);
  const int32_t axis = instr.attrs.axis;
  const Dim start = starts_of(graph, node)[node.part];
  place.offset = dims.add(place.offset, dims.mul(start, place.strides[axis]));
  return place;
}

Place pad_place(FuseGraph& graph, const GraphNode& node, Place place) {
  DimTable& dims = graph.trace.dims;
  const auto& pairs = graph.instr(node).attrs.sizes;  // (before, after) pairs, last axis first
  for (size_t i = 0; 2 * i < pairs.size(); ++i) {
    const size_t axis = place.strides.size() - 1 - i;
    place.offset = dims.add(place.offset, dims.mul(dims.max(pairs[2 * i], dims.constant(0)), place.strides[axis]));
  }
  return place;
}

}  // namespace

std::vector<size_t> reduced_dims(const Attrs& attrs, size_t rank) {
  std::vector<size_t> dims;
  for (const int32_t axis : attrs.axes) {
    if (static_cast<size_t>(axis) < rank) dims.push_back(static_cast<size_t>(axis));   // a scalar has axis 0, too
  }
  for (size_t d = 0; attrs.axes.empty() && d < rank; ++d) dims.push_back(d);
  return dims;
}

bool is_reduced_dim(const Attrs& attrs, size_t d) {
  return attrs.axes.empty() || std::find(attrs.axes.begin(), attrs.axes.end(), static_cast<int32_t>(d)) != attrs.axes.end();
}

AxisMap result_map(const FuseGraph& graph, const GraphNode& node) {
  if (node.role != Role::reduce) return node.iter;
  const Attrs& attrs = graph.instr(node).attrs;
  AxisMap map;
  for (size_t d = 0; d < node.iter.size(); ++d) {
    const bool reduced = is_reduced_dim(attrs, d);
    if (!reduced) map.push_back(node.iter[d]);
    if (reduced && attrs.keepdim) map.emplace_back();
  }
  return map;
}

bool operand_map(const FuseGraph& graph, const GraphNode& node, uint32_t k, const AxisMap& iter, AxisMap& map) {
  const ValueId v = graph.instr(node).operands[k];
  if (node.role == Role::index) {
    positions_map(graph, node, v, iter, map);
    return true;
  }
  if (node.role == Role::reduce || node.role == Role::part) {
    map = iter;
    return true;
  }
  return broadcast_map(graph, node, v, iter, map);
}

bool to_root(const Trace& trace, AxisSpace& space, ValueId v, AxisMap& map, Reason& why) {
  const ValueId root = trace.type(v).root;
  while (v != root && trace[v].definition) {
    const Instr& instr = trace[trace[v].definition];
    if (info(instr.op).kind != OpKind::view) break;
    if (!view_to_operand(trace, space, instr, map, why)) return false;
    v = instr.operands[0];
  }
  return true;
}

bool is_simple_view(const Trace& trace, ValueId v) {
  const ValueId root = trace.type(v).root;
  while (v != root && trace[v].definition) {
    const Instr& instr = trace[trace[v].definition];
    const bool simple = instr.op == Op::alias || instr.op == Op::detach || instr.op == Op::permute || instr.op == Op::expand ||
                        instr.op == Op::unsqueeze || instr.op == Op::squeeze;
    if (!simple) return false;
    AxisMap map(trace.type(v).sizes.size());
    if (instr.op == Op::expand && !expand_to_operand(trace, instr, map)) return false;
    v = instr.operands[0];
  }
  return true;
}

Place place_of(FuseGraph& graph, const GraphNode& node) {
  const Instr& instr = graph.instr(node);
  const ValueId v = node.role == Role::write ? instr.operands[0] : instr.results[0];
  const TensorType& type = graph.trace.type(v);
  Place place{v, type.dtype, type.offset ? type.offset : graph.trace.dims.constant(0), type.strides};
  if (node.role != Role::part) return place;
  return instr.op == Op::pad ? pad_place(graph, node, std::move(place)) : cat_place(graph, node, std::move(place));
}

uint32_t first_read_operand(const GraphNode& node) {
  if (node.role == Role::part) return node.part;
  return node.role == Role::index || node.role == Role::write ? 1 : 0;
}

uint32_t end_read_operand(const FuseGraph& graph, const GraphNode& node) {
  if (node.role == Role::part) return node.part + 1;
  if (node.role == Role::fill || node.role == Role::create) return 0;
  return static_cast<uint32_t>(graph.instr(node).operands.size());
}

}  // namespace escapement
