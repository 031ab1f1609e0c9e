// Joining two iteration domains: unify axes through every value that one group reads from the other, then check that the
// result has one set of parallel axes and at most one sequence of reduced axes.
#include <algorithm>

#include "kernels/fuse.h"

namespace escapement {
namespace {

// Reductions over everything are split over threads only up to the reduction itself; a later pass over all elements would run on
// one thread. Joining is worth it only where the whole is provably small.
constexpr int64_t kSmallTotal = 4096;

struct Sides {
  AxisList all, parallel, reduced;
};

class Join {
 public:
  Join(const FuseGraph& graph, const Group& first, const Group& second)
      : graph_(graph), first_(first), second_(second), space_(graph.trace.dims) {}

  JoinedDomain run() {
    if (first_.extents.size() + second_.extents.size() > 2 * AxisList::kMax) return fail(Reason::apart_domain);
    for (Dim d : first_.extents) ids_first_.push_back(space_.add(d, AxisSpace::kFirst));
    for (Dim d : second_.extents) ids_second_.push_back(space_.add(d, AxisSpace::kSecond));
    if (!unify_edges() || !unify_reduced()) return fail(why_);
    return result();
  }

 private:
  JoinedDomain fail(Reason why) const {
    JoinedDomain none;
    none.why = why;
    return none;
  }
  bool refuse(Reason why) {
    why_ = why;
    return false;
  }

  AxisMap translate(const AxisMap& map, const std::vector<Axis>& ids) const {
    AxisMap moved(map.size());
    for (size_t d = 0; d < map.size(); ++d) {
      for (Axis a : map[d]) moved[d].append(space_.expand(ids[a]));
    }
    return moved;
  }

  bool unify_edges() {
    const uint32_t id = graph_.nodes[first_.members[0]].group;
    for (uint32_t m : second_.members) {
      for (const Edge& e : graph_.nodes[m].inputs) {
        const bool between = !e.inlined && graph_.nodes[e.producer].group == id;
        if (between && !unify_edge(graph_.nodes[m], e)) return false;
      }
    }
    return !space_.overflowed();
  }

  bool unify_edge(const GraphNode& consumer, const Edge& e) {
    AxisMap wanted;
    if (!operand_map(graph_, consumer, e.operand, translate(consumer.iter, ids_second_), wanted)) return refuse(Reason::apart_domain);
    Reason why = Reason::apart_reshape;
    if (!to_root(graph_.trace, space_, e.value, wanted, why)) return refuse(why);
    const GraphNode& producer = graph_.nodes[e.producer];
    AxisMap has = result_map(graph_, producer);
    if (has.size() != wanted.size()) return refuse(Reason::apart_reshape);
    has = translate(has, ids_first_);
    for (size_t d = 0; d < has.size(); ++d) {
      if (!space_.unify(has[d], wanted[d])) return refuse(is_permuted(e.value) ? Reason::apart_axis_order : Reason::apart_reshape);
    }
    return true;
  }

  bool is_permuted(ValueId v) const {
    const Trace& trace = graph_.trace;
    while (v != trace.type(v).root && trace[v].definition) {
      const Instr& instr = trace[trace[v].definition];
      if (instr.op == Op::permute) return true;
      if (info(instr.op).kind != OpKind::view) break;
      v = instr.operands[0];
    }
    return false;
  }

  Sides side(const Group& group, const std::vector<Axis>& ids) const {
    Sides s;
    for (size_t a = 0; a < ids.size(); ++a) {
      const AxisList list = space_.expand(ids[a]);
      s.all.append(list);
      if (!group.is_reduced(static_cast<Axis>(a))) s.parallel.append(list);
    }
    for (Axis a : group.reduced) s.reduced.append(space_.expand(ids[a]));
    return s;
  }

  static bool same_set(const AxisList& a, const AxisList& b) {
    return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](Axis x) { return b.contains(x); });
  }
  static AxisList without(const AxisList& a, const AxisList& b) {
    AxisList rest;
    for (Axis x : a) {
      if (!b.contains(x)) rest.push_back(x);
    }
    return rest;
  }

  // Nothing but their extents relates the axes that `a` reduces to axes of the other group: run them in one loop.
  bool pair_up(const AxisList& a, const AxisList& b) {
    if (a.size() != b.size()) return false;
    for (int i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      if (!graph_.trace.dims.same(space_.extent(a[i]), space_.extent(b[i])) || !space_.alias(a[i], b[i])) return false;
    }
    return true;
  }

  bool unify_reduced() {
    const Sides a = side(first_, ids_first_), b = side(second_, ids_second_);
    if (a.all.overflowed() || b.all.overflowed()) return false;
    if (!a.reduced.empty() && !b.reduced.empty()) return both_reduce(a, b);
    if (!a.reduced.empty()) return producer_reduces(a, b);
    if (!b.reduced.empty()) return same_set(a.all, b.all) || same_set(a.all, b.parallel) || refuse(Reason::apart_domain);
    return same_set(a.all, b.all) || refuse(Reason::apart_domain);
  }

  bool both_reduce(const Sides& a, const Sides& b) {
    if (!(a.reduced == b.reduced)) {
      const bool apart = without(a.all, b.reduced).size() == a.all.size() && without(b.all, a.reduced).size() == b.all.size();
      if (!apart || !pair_up(a.reduced, b.reduced)) return refuse(Reason::apart_reduced_axes);
      if (a.parallel.empty() && !is_small(a.reduced)) return refuse(Reason::apart_domain);
    }
    return same_set(a.parallel, b.parallel) || refuse(Reason::apart_reduced_axes);
  }

  bool producer_reduces(const Sides& a, const Sides& b) {
    const AxisList extra = without(b.all, a.all);
    if (!extra.empty()) {
      const bool disjoint = without(b.all, a.reduced).size() == b.all.size();
      const AxisList reduced = without(a.all, a.parallel);   // as `extra`: in no order but that of the dims
      if (!disjoint || !same_set(without(b.all, extra), a.parallel) || !pair_up(reduced, extra)) return refuse(Reason::apart_domain);
    } else if (same_set(b.all, a.parallel)) {
      return true;
    } else if (!same_set(b.all, a.all)) {
      return refuse(Reason::apart_domain);
    }
    if (a.parallel.empty() && !is_small(a.reduced) && after_reduction()) return refuse(Reason::apart_domain);
    return true;
  }

  bool is_small(const AxisList& axes) const {
    int64_t total = 1;
    for (Axis a : axes) {
      const auto extent = graph_.trace.dims.as_constant(space_.extent(a));
      if (!extent || *extent > kSmallTotal) return false;
      total *= std::max<int64_t>(*extent, 1);
      if (total > kSmallTotal) return false;
    }
    return true;
  }

  // `second` has a member over the whole domain that needs the result of a reduction of `first`, directly or through a row value.
  bool after_reduction() const {
    for (uint32_t m : second_.members) {
      for (const Edge& e : graph_.nodes[m].inputs) {
        const GraphNode& p = graph_.nodes[e.producer];
        if (e.inlined || p.group != graph_.nodes[first_.members[0]].group) continue;
        if (p.role == Role::reduce || uses_axes(p) == 0) return true;
      }
    }
    return false;
  }
  static int uses_axes(const GraphNode& n) {
    int used = 0;
    for (const AxisList& list : n.iter) used += list.size();
    return used;
  }

  JoinedDomain result() const {
    JoinedDomain domain;
    domain.joined = true;
    std::vector<int> number(256, -1);
    const auto place = [&](const std::vector<Axis>& ids, std::vector<AxisList>& maps) {
      for (Axis id : ids) {
        AxisList list;
        for (Axis a : space_.expand(id)) {
          if (number[a] < 0) {
            number[a] = static_cast<int>(domain.extents.size());
            domain.extents.push_back(space_.extent(a));
          }
          list.push_back(static_cast<Axis>(number[a]));
        }
        maps.push_back(list);
      }
    };
    place(ids_first_, domain.maps_first);
    place(ids_second_, domain.maps_second);
    const bool from_first = !first_.reduced.empty();
    for (Axis a : from_first ? first_.reduced : second_.reduced) {
      for (Axis x : (from_first ? domain.maps_first : domain.maps_second)[a]) domain.reduced.push_back(x);
    }
    return domain;
  }

  const FuseGraph& graph_;
  const Group& first_;
  const Group& second_;
  AxisSpace space_;
  std::vector<Axis> ids_first_, ids_second_;
  Reason why_ = Reason::apart_domain;
};

}  // namespace

bool Group::is_reduced(Axis a) const { return std::find(reduced.begin(), reduced.end(), a) != reduced.end(); }

JoinedDomain join_domains(const FuseGraph& graph, const Group& first, const Group& second) { return Join(graph, first, second).run(); }

}  // namespace escapement
