// The graph that fusion works on: one node per computation of a trace (a cat has one per part), edges for values and for the
// order that the memory model demands. Views are not nodes: an edge names the viewed value, and `to_root` translates positions
// in a view to positions in the value it views.
//
// An edge is `memory` if the consumer can only read the producer's result from memory: library calls, the data operand of an index
// op, results that are assembled from parts, reads after a write. Producer and consumer of such an edge, and of an `after` edge,
// are never in one kernel. A `before_write` edge (write after read) may be inside a kernel if the addresses are equal.
#pragma once

#include <unordered_map>

#include "kernels/axes.h"
#include "trace/trace.h"

namespace escapement {

inline constexpr uint32_t kNoIndex = 0xffffffffu;

enum class Role : uint8_t {
  pointwise,
  reduce,
  create,  // full, arange
  index,   // embedding, index_select, gather
  part,    // one operand of a cat, or the interior of a pad
  fill,    // the constant of a pad
  write,
  call,    // library call or contraction: a step of its own
};

struct Edge {
  uint32_t producer = kNoIndex;  // node
  uint32_t operand = 0;          // of the consumer's instruction
  ValueId value;                 // that operand: the producer's result or a view of it
  bool memory = false;
  bool inlined = false;          // the consumer computes the producer's value itself
  Reason why = Reason::apart_domain;  // why they are apart, if they are
};

// Where a node's result is stored: strides in elements along its iteration dims.
struct Place {
  ValueId value;
  DType dtype = DType::f32;
  Dim offset;
  std::vector<Dim> strides;
};

struct GraphNode {
  InstrId instr;
  Role role = Role::pointwise;
  uint32_t part = 0;                   // cat: number of the operand
  std::vector<Dim> shape;              // what the node iterates over: result sizes; reduce: operand sizes; part: the part's sizes
  std::vector<Edge> inputs;
  std::vector<uint32_t> after;         // nodes that run before, in another kernel
  std::vector<uint32_t> before_write;  // nodes whose reads this node's write must not overtake
  std::vector<Dim> crop;               // pad that also cuts off: where reading starts, per dim
  bool must_store = false;             // its result is needed in memory whatever is fused
  bool stored = false;                 // set by grouping
  uint32_t group = kNoIndex;
  AxisMap iter;                        // per dim of `shape`: the group's axes
};

struct FuseGraph {
  Trace& trace;                        // sizes are derived on the way, so its dims grow
  CheckedVector<GraphNode> nodes;
  IdMap<InstrId, uint32_t> first;         // per instruction: its first node, or none (views, dead code)
  IdMap<InstrId, uint32_t> count;
  IdMap<Storage, bool> written;           // per storage: some instruction writes it
  std::unordered_map<uint32_t, std::vector<Dim>> part_starts = {};  // per cat that was asked for: where each part starts along the axis

  const Instr& instr(const GraphNode& n) const { return trace[n.instr]; }
};

FuseGraph make_graph(Trace& trace);

bool is_reduced_dim(const Attrs& attrs, size_t d);  // of a reduce instruction; no axes means all
std::vector<size_t> reduced_dims(const Attrs& attrs, size_t rank);   // in the order in which they are walked

// --- maps between dims (each AxisMap is over the same axes)
AxisMap result_map(const FuseGraph& graph, const GraphNode& node);  // dims of the node's result, from node.iter
// Dims of operand `k`, given the map of the consumer's iteration dims. False: a broadcast that is only known at run time.
bool operand_map(const FuseGraph& graph, const GraphNode& node, uint32_t k, const AxisMap& iter, AxisMap& map);
// Turns a map of the dims of `v` into one of the dims of its root. False: no such map; `why` says what stands between.
bool to_root(const Trace& trace, AxisSpace& space, ValueId v, AxisMap& map, Reason& why);
// Every view between `v` and its root only permutes, inserts, removes or provably repeats dims.
bool is_simple_view(const Trace& trace, ValueId v);

Place place_of(FuseGraph& graph, const GraphNode& node);  // of nodes that are stored

// Operand numbers whose elements are read, other than the data of an index op.
uint32_t first_read_operand(const GraphNode& node);
uint32_t end_read_operand(const FuseGraph& graph, const GraphNode& node);

}  // namespace escapement
