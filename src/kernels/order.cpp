// Order: which group runs when, and which reads and writes of one storage may be in one kernel.
#include <algorithm>
#include <numeric>
#include <queue>
#include <span>

#include "kernels/fuse.h"
#include "support/error.h"

namespace escapement {
namespace {

struct Access {
  ValueId root;
  Dim offset;
  std::vector<Dim> strides;  // along the axes
};

bool same_address(const DimTable& dims, const Access& a, const Access& b) {
  if (a.root != b.root || !dims.same(a.offset, b.offset)) return false;
  for (size_t i = 0; i < a.strides.size(); ++i) {
    if (!dims.same(a.strides[i], b.strides[i])) return false;
  }
  return true;
}

Access write_access(FuseGraph& graph, const GraphNode& node, std::span<const Dim> extents) {
  const Place place = place_of(graph, node);
  return {graph.trace.type(place.value).root, place.offset, strides_along(graph.trace.dims, extents, node.iter, place.strides)};
}

bool reads_in_place(FuseGraph& graph, const GraphNode& node, uint32_t k, const Access& write, std::span<const Dim> extents) {
  AxisMap map;
  if ((node.role == Role::index && k == 0) || !node.crop.empty()) return false;
  if (!operand_map(graph, node, k, node.iter, map)) return false;
  const TensorType& type = graph.trace.type(graph.instr(node).operands[k]);
  const Dim offset = type.offset ? type.offset : graph.trace.dims.constant(0);
  return same_address(graph.trace.dims, {type.root, offset, strides_along(graph.trace.dims, extents, map, type.strides)}, write);
}

bool is_in_place(FuseGraph& graph, const std::vector<uint32_t>& members, const GraphNode& write, std::span<const Dim> extents) {
  const Storage storage = graph.trace.type(graph.instr(write).operands[0]).storage;
  const Access access = write_access(graph, write, extents);
  for (uint32_t m : members) {
    const GraphNode& node = graph.nodes[m];
    const size_t first = &node == &write ? 1 : 0;  // the destination itself is not read
    const auto& operands = graph.instr(node).operands;
    for (size_t k = first; k < operands.size(); ++k) {
      if (node.role == Role::part && k != node.part) continue;
      if (graph.trace.type(operands[k]).storage != storage) continue;
      if (!reads_in_place(graph, node, static_cast<uint32_t>(k), access, extents)) return false;
    }
  }
  return true;
}

}  // namespace

bool writes_are_in_place(FuseGraph& graph, const std::vector<uint32_t>& members, std::span<const Dim> extents) {
  for (uint32_t m : members) {
    if (graph.nodes[m].role == Role::write && !is_in_place(graph, members, graph.nodes[m], extents)) return false;
  }
  return true;
}

namespace {

// f(from, to) for the groups of all dependencies between nodes, repeated as often as nodes say so.
template <class F>
void for_each_dependency(const FuseGraph& graph, F&& f) {
  for (const GraphNode& node : graph.nodes) {
    const auto depend = [&](uint32_t p) {
      if (graph.nodes[p].group != node.group) f(graph.nodes[p].group, node.group);
    };
    for (const Edge& e : node.inputs) depend(e.producer);
    for (uint32_t p : node.after) depend(p);
    for (uint32_t p : node.before_write) depend(p);
  }
}

// In one piece: hundreds of kernels that wait for hundreds of sizes make many edges.
class Successors {
 public:
  Successors(const FuseGraph& graph, size_t groups) : begin_(groups + 2, 0) {
    for_each_dependency(graph, [&](uint32_t from, uint32_t) { ++begin_[from + 2]; });
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    all_.resize(begin_.back());
    for_each_dependency(graph, [&](uint32_t from, uint32_t to) { all_[begin_[from + 1]++] = to; });
  }
  std::span<const uint32_t> of(uint32_t g) const { return std::span<const uint32_t>(all_).subspan(begin_[g], begin_[g + 1] - begin_[g]); }

 private:
  CheckedVector<uint32_t> begin_;  // after construction: where the successors of a group begin
  CheckedVector<uint32_t> all_;
};

// The groups in some order in which each comes behind those it waits for.
std::vector<uint32_t> some_order(const Successors& successors, CheckedVector<uint32_t> waiting) {
  std::vector<uint32_t> order;
  for (uint32_t g = 0; g < waiting.size(); ++g)
    if (waiting[g] == 0) order.push_back(g);
  for (size_t i = 0; i < order.size(); ++i)
    for (const uint32_t next : successors.of(order[i]))
      if (--waiting[next] == 0) order.push_back(next);
  return order;
}

// By group: the first node that a check reads, if there is one among its members or among those of the groups that wait for it.
CheckedVector<uint32_t> first_checked(const FuseGraph& graph, const Successors& successors, const CheckedVector<uint32_t>& waiting) {
  CheckedVector<uint32_t> first(waiting.size(), UINT32_MAX);
  const CheckedVector<bool> checked = checked_instrs(graph.trace);
  for (uint32_t i = static_cast<uint32_t>(graph.nodes.size()); i-- > 0;)
    if (const GraphNode& node = graph.nodes[i]; checked[node.instr.index] && node.group != kNoIndex) first[node.group] = i;
  const std::vector<uint32_t> order = some_order(successors, waiting);
  for (size_t i = order.size(); i-- > 0;)
    for (const uint32_t next : successors.of(order[i])) first[order[i]] = std::min(first[order[i]], first[next]);
  return first;
}

}  // namespace

CheckedVector<bool> checked_instrs(const Trace& trace) {
  CheckedVector<bool> checked(trace.instrs.size(), false);
  for (const Guard& guard : trace.guards)
    for (const Dim side : {guard.left, guard.right})
      for (const Symbol symbol : trace.dims.symbols(side)) {
        const ValueId source = trace.dims.info(symbol).source.value;
        if (source && trace[source].definition) checked[trace[source].definition.index] = true;
      }
  return checked;
}

std::vector<uint32_t> order_groups(const FuseGraph& graph, const CheckedVector<Group>& groups) {
  const Successors successors(graph, groups.size());
  CheckedVector<uint32_t> waiting(groups.size(), 0);
  for_each_dependency(graph, [&](uint32_t, uint32_t to) { ++waiting[to]; });
  // Of those that are ready the one whose last member comes first in the program: values die early. Where a check waits for it, the node that the
  // check reads counts, whatever was joined to it: behind an effect it would come too late.
  const CheckedVector<uint32_t> checked = first_checked(graph, successors, waiting);
  using Entry = std::pair<uint32_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  const auto push = [&](uint32_t g) { ready.push({std::min(groups[g].members.back(), checked[g]), g}); };
  size_t left = 0;
  for (uint32_t g = 0; g < groups.size(); ++g) {
    if (groups[g].members.empty()) continue;
    ++left;
    if (waiting[g] == 0) push(g);
  }
  std::vector<uint32_t> order;
  for (; !ready.empty(); --left) {
    const uint32_t g = ready.top().second;
    ready.pop();
    if (groups[g].alive) order.push_back(g);
    for (uint32_t next : successors.of(g)) {
      if (--waiting[next] == 0) push(next);
    }
  }
  ESCAPEMENT_CHECK(left == 0, "the groups have no cycle");
  return order;
}

std::vector<Dim> strides_along(DimTable& dims, std::span<const Dim> extents, const AxisMap& map, std::span<const Dim> strides) {
  CheckedVector<Dim> along(extents.size(), dims.constant(0));
  for (size_t d = 0; d < map.size(); ++d) {
    Dim stride = strides[d];
    for (int i = map[d].size(); i-- > 0;) {
      const Axis a = map[d][i];
      along[a] = dims.add(along[a], stride);
      if (i > 0) stride = dims.mul(stride, extents[a]);
    }
  }
  return along;
}

Dim broadcast_stride(DimTable& dims, Dim stride, Dim size, Dim shape) {
  if (dims.same(size, shape)) return stride;
  const Dim one = dims.constant(1);
  return dims.mul(stride, dims.min(dims.sub(size, one), one));  // size 0: nothing is read
}

}  // namespace escapement
