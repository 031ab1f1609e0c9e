// Fusion: which nodes of the graph become one kernel.
//
// A group has one iteration domain: axes with symbolic extents, some of them reduced. Every member iterates over all axes, or
// over the parallel ones only (a row value). Groups are joined greedily in program order: each node tries the groups of its
// producers, the latest first. A join unifies the two domains through every edge between them (axes.h) and must not make a cycle,
// exceed the size limit, reduce over other axes, or put a read and a write of one storage at different addresses into one kernel.
// Values that are cheap to compute again (constants, iota, short exact expressions of inputs) are computed by each consumer that
// has another domain. Nothing depends on hints: the same trace gives the same groups whatever sizes it was recorded with.
#pragma once

#include "kernels/graph.h"
#include "kernels/plan.h"

namespace escapement {

struct Group {
  CheckedVector<Dim> extents;     // of the axes
  std::vector<Axis> reduced;      // in canonical order: row-major over the reduced dims, in the order of the attribute
  std::vector<uint32_t> members;  // nodes, ascending
  bool alive = true;              // false: joined to another, or nothing of it is stored
  bool is_call = false;

  bool is_reduced(Axis a) const;
};

struct Grouping {
  FuseGraph graph;
  CheckedVector<Group> groups;      // by id; a node's `group` is such an id
  std::vector<uint32_t> order;    // ids of those that are alive, in an order that respects all edges
  std::vector<Apart> apart;
};

Grouping fuse(Trace& trace, const FusionLimits& limits);

// --- parts of it
// One domain from two groups, if there is one. `maps_first`, `maps_second`: what each group's axes become.
struct JoinedDomain {
  bool joined = false;
  Reason why = Reason::apart_domain;
  std::vector<Dim> extents;
  std::vector<Axis> reduced;
  std::vector<AxisList> maps_first, maps_second;
};
JoinedDomain join_domains(const FuseGraph& graph, const Group& first, const Group& second);  // `second` reads `first`

// Whether each node may be computed again by consumers outside its group.
std::vector<bool> recomputable(const FuseGraph& graph);
bool is_expensive(Op op);  // takes long enough that it should not be computed twice per element

// The reads and writes of one storage inside `members` (ascending) are at equal addresses and in a legal order.
bool writes_are_in_place(FuseGraph& graph, const std::vector<uint32_t>& members, std::span<const Dim> extents);

// By instruction: whether a check reads its result.
CheckedVector<bool> checked_instrs(const Trace& trace);

// The order of execution: ids of groups that are alive.
std::vector<uint32_t> order_groups(const FuseGraph& graph, const CheckedVector<Group>& groups);

// Strides along the axes (of these extents) of an element whose dims are mapped by `map` and have strides `strides`.
std::vector<Dim> strides_along(DimTable& dims, std::span<const Dim> extents, const AxisMap& map, std::span<const Dim> strides);
// The stride of a dim of `size` that is read at an index below `shape`: 0 where the size turns out to be 1 and the shape does not.
Dim broadcast_stride(DimTable& dims, Dim stride, Dim size, Dim shape);

}  // namespace escapement
