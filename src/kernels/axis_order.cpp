// The order of a nest's axes follows the layout of the largest result (else of the largest operand): innermost is the axis along
// which its elements are adjacent. Strides are symbols, so the order is read off the chain 1, extent, extent*extent, ...
#include <algorithm>

#include "kernels/lower.h"

namespace escapement {
namespace {

int axes_used(const AxisMap& map) {
  int used = 0;
  for (const AxisList& list : map) used += list.size();
  return used;
}

struct Reference {
  AxisMap map;
  std::vector<Dim> strides;
  int used = -1;
  void offer(const AxisMap& other, const std::vector<Dim>& other_strides) {
    const int count = axes_used(other);
    if (count <= used) return;
    map = other;
    strides = other_strides;
    used = count;
  }
};

Reference reference_of(Grouping& grouping, const Group& group) {
  FuseGraph& graph = grouping.graph;
  Reference best;
  for (uint32_t m : group.members) {
    const GraphNode& node = graph.nodes[m];
    if (node.stored) best.offer(node.role == Role::reduce ? result_map(graph, node) : node.iter, place_of(graph, node).strides);
  }
  if (best.used == static_cast<int>(group.extents.size())) return best;
  for (uint32_t m : group.members) {
    const GraphNode& node = graph.nodes[m];
    for (uint32_t k = first_read_operand(node); k < end_read_operand(graph, node); ++k) {
      AxisMap map;
      operand_map(graph, node, k, node.iter, map);
      best.offer(map, graph.trace.type(graph.instr(node).operands[k]).strides);
    }
  }
  return best;
}

// Innermost first: the axis whose stride continues the chain; if none does, the last one in logical order.
std::vector<Axis> by_stride(DimTable& dims, const Group& group, const Reference& ref) {
  std::vector<Axis> left;  // logical order
  for (const AxisList& list : ref.map) left.insert(left.end(), list.begin(), list.end());
  const std::vector<Dim> strides = strides_along(dims, group.extents, ref.map, ref.strides);
  std::vector<Axis> inner_first;
  Dim next = dims.constant(1);
  while (!left.empty()) {
    auto found = std::find_if(left.rbegin(), left.rend(), [&](Axis a) { return dims.same(strides[a], next); });
    if (found == left.rend()) found = left.rbegin();
    const Axis a = *found;
    next = dims.mul(strides[a], group.extents[a]);
    inner_first.push_back(a);
    left.erase(std::next(found).base());
  }
  return inner_first;
}

}  // namespace

AxisOrder choose_axis_order(Grouping& grouping, const Group& group) {
  const std::vector<Axis> inner_first = by_stride(grouping.graph.trace.dims, group, reference_of(grouping, group));
  std::vector<Axis> parallel;
  for (size_t a = 0; a < group.extents.size(); ++a) {  // axes that the reference lacks: outermost
    const bool ordered = std::find(inner_first.begin(), inner_first.end(), a) != inner_first.end();
    if (!ordered && !group.is_reduced(static_cast<Axis>(a))) parallel.push_back(static_cast<Axis>(a));
  }
  for (size_t i = inner_first.size(); i-- > 0;) {
    if (!group.is_reduced(inner_first[i])) parallel.push_back(inner_first[i]);
  }
  AxisOrder order;
  order.axes = parallel;
  if (group.reduced.empty()) return order;
  const bool column = !parallel.empty() && !inner_first.empty() && inner_first[0] == parallel.back();
  order.schedule = column ? Schedule::column : Schedule::row;
  order.axes.insert(column ? order.axes.end() - 1 : order.axes.end(), group.reduced.begin(), group.reduced.end());
  return order;
}

}  // namespace escapement
