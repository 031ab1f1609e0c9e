// The greedy joining of groups in program order, and the record of who stayed apart and why.
//
// Cycles: `deps_` of a group is the set of nodes that run before it, transitively, as bits. Joining A and B would make a cycle iff a
// direct predecessor of B other than A depends on A, or the other way round.
#include <algorithm>
#include <set>

#include "kernels/fuse.h"
#include "kernels/given_memory.h"
#include "support/error.h"

namespace escapement {
namespace {

// What one kernel stores at most, where that is known beforehand: the code generator orders stores in time that grows with the cube of their number,
// and a kernel that writes so much gains nothing by being one.
constexpr int kMostStores = 32;
constexpr int kExpensiveWeight = 4;  // a mathematical function is tens of operations: keeps bodies below 2^16 registers

// As long as its last member asks: hundreds of nodes wait for hundreds that wait for nothing.
class Bits {
 public:
  void set(size_t i) {
    if (words_.size() <= i / 64) words_.resize(i / 64 + 1, 0);
    words_[i / 64] |= uint64_t{1} << (i % 64);
  }
  void clear(size_t i) {
    if (i / 64 < words_.size()) words_[i / 64] &= ~(uint64_t{1} << (i % 64));
  }
  bool meets(const Bits& other) const {
    for (size_t i = 0; i < words_.size() && i < other.words_.size(); ++i)
      if ((words_[i] & other.words_[i]) != 0) return true;
    return false;
  }
  bool test(size_t i) const { return i / 64 < words_.size() && ((words_[i / 64] >> (i % 64)) & 1); }
  void add(const Bits& other) {
    if (words_.size() < other.words_.size()) words_.resize(other.words_.size(), 0);
    for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  }

 private:
  std::vector<uint64_t> words_;
};

class Grouper {
 public:
  Grouper(Trace& trace, const FusionLimits& limits) : limits_(limits), given_(trace), made_{make_graph(trace), {}, {}, {}}, graph_(made_.graph) {}

  Grouping run() {
    find_checks();
    find_stored();
    again_ = limits_.fuse ? recomputable(graph_) : std::vector<bool>(graph_.nodes.size(), false);
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      make_group(n);
      if (limits_.fuse && !made_.groups[n].is_call) join_producers(n);
    }
    decide_stores();
    for (Group& g : made_.groups) g.alive = g.alive && (g.is_call || stores_something(g));
    made_.order = order_groups(graph_, made_.groups);
    record_apart();
    return std::move(made_);
  }

 private:
  // --- what must not be delayed: behind an act that others see a check that fails comes too late
  void find_checks() {
    const CheckedVector<bool> checked = checked_instrs(graph_.trace);
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const GraphNode& node = graph_.nodes[n];
      if (checked[node.instr.index]) checks_.set(n);
      if (acts(node)) acts_.set(n);
    }
    for (uint32_t n = static_cast<uint32_t>(graph_.nodes.size()); n-- > 0;)   // and what it is computed from
      if (checks_.test(n)) for_each_predecessor(graph_.nodes[n], [&](uint32_t p) { checks_.set(p); });
  }

  // A concatenation stores each of its parts, by who makes them where it is in their kernel.
  int parts_of(uint32_t n) const {
    const Instr& instr = graph_.instr(graph_.nodes[n]);
    return instr.op == Op::cat ? static_cast<int>(instr.operands.size()) : 0;
  }

  // --- what is stored whatever is joined: results, what library calls read, writes
  void find_stored() {
    stored_.assign(graph_.nodes.size(), false);
    std::set<uint32_t> results;
    for (const Output& output : graph_.trace.outputs) {
      if (output.value) results.insert(graph_.trace.type(output.value).root.index);
    }
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const GraphNode& node = graph_.nodes[n];
      for (const Edge& e : node.inputs) stored_[e.producer] = stored_[e.producer] || e.memory || node.role == Role::call || parts_of(n) > kMostStores;
      if (node.role == Role::write) stored_[n] = true;
      for (const ValueId value : graph_.instr(node).results) stored_[n] = stored_[n] || results.contains(graph_.trace.type(value).root.index);
    }
  }

  bool acts(const GraphNode& node) const {
    const Instr& instr = graph_.instr(node);
    const auto is_given = [&](uint32_t operand) { return given_.holds(instr.operands[operand]); };
    return (instr.op == Op::call && instr.effect) || std::any_of(instr.writes.begin(), instr.writes.end(), is_given);
  }

  // One holds a check's value, which need not wait for any act, and the other is one or waits for one.
  bool delays_check(uint32_t a, uint32_t b) const {
    const auto waits = [&](uint32_t g) { return deps_[g].meets(acts_) || meets(g, acts_); };
    return (meets(a, checks_) && !waits(a) && waits(b)) || (meets(b, checks_) && !waits(b) && waits(a));
  }

  bool meets(uint32_t group, const Bits& nodes) const {
    const auto& members = made_.groups[group].members;
    return std::any_of(members.begin(), members.end(), [&](uint32_t m) { return nodes.test(m); });
  }

  // --- one group per node to begin with: its id is the node's number
  void make_group(uint32_t n) {
    GraphNode& node = graph_.nodes[n];
    node.group = n;
    alive_.push_back(n);
    Group& group = made_.groups.emplace_back();
    group.members = {n};
    group.is_call = node.role == Role::call;
    weight_.push_back(is_expensive(graph_.instr(node).op) ? kExpensiveWeight : 1);
    stores_.push_back(std::max(parts_of(n), stored_[n] && !group.is_call ? 1 : 0));
    node.iter.assign(node.shape.size(), {});
    for (size_t d = 0; d < node.shape.size(); ++d) {
      if (is_one(graph_.trace.dims, node.shape[d])) continue;
      const auto axis = static_cast<Axis>(group.extents.size());
      ESCAPEMENT_CHECK(axis < AxisList::kMax, "a tensor of so many dims is not fused");
      node.iter[d].push_back(axis);
      group.extents.push_back(node.shape[d]);
    }
    if (node.role == Role::reduce) {
      for (const size_t d : reduced_dims(graph_.instr(node).attrs, node.shape.size())) {
        for (const Axis axis : node.iter[d]) group.reduced.push_back(axis);
      }
    }
    if (node.role == Role::reduce && group.reduced.empty()) {  // over dims of size 1: still a reduction, of one element
      group.reduced.push_back(static_cast<Axis>(group.extents.size()));
      group.extents.push_back(graph_.trace.dims.constant(1));
    }
    Bits deps;
    for_each_predecessor(node, [&](uint32_t p) {
      deps.set(p);
      const uint32_t g = graph_.nodes[p].group;
      deps.add(deps_[g]);
      for (uint32_t m : made_.groups[g].members) deps.set(m);
    });
    deps_.push_back(std::move(deps));
  }

  template <class F>
  void for_each_predecessor(const GraphNode& node, F&& f) const {
    for (const Edge& e : node.inputs) f(e.producer);
    for (uint32_t p : node.after) f(p);
    for (uint32_t p : node.before_write) f(p);
  }

  // --- joining
  void join_producers(uint32_t n) {
    inline_creates(n);
    for (uint32_t producer : candidates(n)) {
      const uint32_t a = graph_.nodes[producer].group, b = graph_.nodes[n].group;
      if (a == b) continue;
      Reason why = Reason::apart_domain;
      if (!join(a, b, why)) leave_apart(n, a, why);
    }
  }

  // Constants and iota are never worth a load.
  void inline_creates(uint32_t n) {
    for (Edge& e : graph_.nodes[n].inputs) {
      if (graph_.nodes[e.producer].role == Role::create && again_[e.producer] && !e.memory) e.inlined = is_simple_view(graph_.trace, e.value);
    }
  }

  std::vector<uint32_t> candidates(uint32_t n) const {  // producers of values, those of the latest group first
    std::vector<uint32_t> found;
    for (const Edge& e : graph_.nodes[n].inputs) {
      if (!e.memory && !e.inlined && !made_.groups[graph_.nodes[e.producer].group].is_call) found.push_back(e.producer);
    }
    const auto last = [&](uint32_t p) { return made_.groups[graph_.nodes[p].group].members.back(); };
    std::sort(found.begin(), found.end(), [&](uint32_t x, uint32_t y) { return std::pair(last(x), x) > std::pair(last(y), y); });
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  void leave_apart(uint32_t n, uint32_t a, Reason why) {
    for (Edge& e : graph_.nodes[n].inputs) {
      if (graph_.nodes[e.producer].group != a || e.memory || e.inlined) continue;
      e.why = why;
      const bool another_domain = why == Reason::apart_domain || why == Reason::apart_cycle || why == Reason::apart_size_limit;
      e.inlined = another_domain && again_[e.producer] && is_simple_view(graph_.trace, e.value) && provably_broadcast(n, e);
    }
  }

  bool provably_broadcast(uint32_t n, const Edge& e) const {
    AxisMap map;
    return operand_map(graph_, graph_.nodes[n], e.operand, graph_.nodes[n].iter, map);
  }

  bool join(uint32_t a, uint32_t b, Reason& why) {
    const Group& first = made_.groups[a];
    const Group& second = made_.groups[b];
    const auto refuse = [&](Reason reason) { return why = reason, false; };
    if (weight_[a] + weight_[b] > limits_.max_ops || stores_[a] + stores_[b] > kMostStores) return refuse(Reason::apart_size_limit);
    if (!may_share_kernel(a, b, why)) return false;
    if (makes_cycle(a, b) || makes_cycle(b, a)) return refuse(Reason::apart_cycle);
    if (delays_check(a, b)) return refuse(Reason::apart_write_order);
    const JoinedDomain domain = join_domains(graph_, first, second);
    if (!domain.joined) return refuse(domain.why);
    return commit(a, b, domain) || refuse(Reason::apart_write_order);
  }

  bool may_share_kernel(uint32_t a, uint32_t b, Reason& why) const {
    for (uint32_t m : made_.groups[b].members) {
      for (const Edge& e : graph_.nodes[m].inputs) {
        if (e.memory && graph_.nodes[e.producer].group == a) return why = e.why, false;
      }
      for (uint32_t p : graph_.nodes[m].after) {
        if (graph_.nodes[p].group == a) return why = Reason::apart_write_order, false;
      }
    }
    return true;
  }

  bool makes_cycle(uint32_t a, uint32_t b) const {  // a -> another -> b
    const uint32_t member = made_.groups[a].members[0];
    if (!deps_[b].test(member)) return false;
    for (uint32_t m : made_.groups[b].members) {
      bool found = false;
      for_each_predecessor(graph_.nodes[m], [&](uint32_t p) {
        const uint32_t g = graph_.nodes[p].group;
        found = found || (g != a && g != b && deps_[g].test(member));
      });
      if (found) return true;
    }
    return false;
  }

  // --- the joined group takes the id of the first
  bool commit(uint32_t a, uint32_t b, const JoinedDomain& domain) {
    std::vector<uint32_t> members;
    std::merge(made_.groups[a].members.begin(), made_.groups[a].members.end(), made_.groups[b].members.begin(),
               made_.groups[b].members.end(), std::back_inserter(members));
    const bool has_write = std::any_of(members.begin(), members.end(), [&](uint32_t m) { return graph_.nodes[m].role == Role::write; });
    std::vector<AxisMap> saved;
    if (has_write) {
      for (uint32_t m : members) saved.push_back(graph_.nodes[m].iter);
    }
    remap(made_.groups[a], domain.maps_first);
    remap(made_.groups[b], domain.maps_second);
    if (has_write && !writes_are_in_place(graph_, members, domain.extents)) {
      for (size_t i = 0; i < members.size(); ++i) graph_.nodes[members[i]].iter = saved[i];
      return false;
    }
    for (uint32_t m : made_.groups[b].members) graph_.nodes[m].group = a;
    Group& joined = made_.groups[a];
    joined.members = std::move(members);
    joined.extents = domain.extents;
    joined.reduced = domain.reduced;
    made_.groups[b].alive = false;
    weight_[a] += weight_[b];
    stores_[a] += stores_[b];
    made_.groups[b].members.clear();
    update_deps(a, b);
    return true;
  }

  void remap(const Group& group, const std::vector<AxisList>& maps) {
    bool same = true;
    for (size_t i = 0; i < maps.size(); ++i) same = same && maps[i].size() == 1 && maps[i][0] == i;
    if (same) return;
    for (uint32_t m : group.members) {
      for (AxisList& list : graph_.nodes[m].iter) {
        AxisList moved;
        for (Axis x : list) moved.append(maps[x]);
        list = moved;
      }
    }
  }

  void update_deps(uint32_t a, uint32_t b) {
    Bits joined = deps_[a];  // a group's id is the number of one of its members
    joined.add(deps_[b]);
    for (uint32_t m : made_.groups[a].members) joined.clear(m);
    deps_[a] = joined;
    for (uint32_t m : made_.groups[a].members) joined.set(m);
    alive_.erase(std::lower_bound(alive_.begin(), alive_.end(), b));
    for (uint32_t g : alive_) {
      if (g != a && (deps_[g].test(a) || deps_[g].test(b))) deps_[g].add(joined);
    }
  }

  // --- what is kept in memory
  void decide_stores() {
    for (GraphNode& node : graph_.nodes) {
      for (Edge& e : node.inputs) {
        if (!e.inlined && graph_.nodes[e.producer].group != node.group) graph_.nodes[e.producer].must_store = true;
      }
    }
    for (GraphNode& node : graph_.nodes) {
      node.stored = node.must_store && node.role != Role::call;
      for (Edge& e : node.inputs) load_what_is_stored(node, e);
    }
  }

  // A value that is in memory anyway is read from there, unless it costs nothing to make.
  void load_what_is_stored(const GraphNode& node, Edge& e) const {
    const GraphNode& p = graph_.nodes[e.producer];
    if (e.inlined && p.must_store && p.role != Role::create && p.group != node.group) e.inlined = false;
  }

  bool stores_something(const Group& g) const {
    return std::any_of(g.members.begin(), g.members.end(), [&](uint32_t m) { return graph_.nodes[m].stored; });
  }

  // --- the record
  ValueId name_of_result(const GraphNode& node) const {
    const Instr& instr = graph_.instr(node);
    if (!instr.results.empty()) return instr.results[0];
    return instr.operands.empty() ? ValueId() : instr.operands[0];
  }

  void record_apart() {
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (const GraphNode& node : graph_.nodes) {
      for (const Edge& e : node.inputs) {
        const GraphNode& p = graph_.nodes[e.producer];
        if (e.inlined || p.group == node.group || (p.role == Role::call && node.role == Role::call)) continue;
        const ValueId from = name_of_result(p), to = name_of_result(node);
        if (from && to && seen.insert({from.index, to.index}).second) made_.apart.push_back({from, to, e.why});
      }
    }
  }

  FusionLimits limits_;
  const GivenMemory given_;
  Grouping made_;
  FuseGraph& graph_;
  Bits checks_, acts_;             // nodes: what checks wait for, what others see
  CheckedVector<bool> again_;
  CheckedVector<Bits> deps_;
  CheckedVector<bool> stored_;        // nodes
  CheckedVector<int> weight_, stores_;  // per group
  std::vector<uint32_t> alive_;   // ids of groups, ascending
};

}  // namespace

Grouping fuse(Trace& trace, const FusionLimits& limits) { return Grouper(trace, limits).run(); }

}  // namespace escapement
