// Times of members, and which values later stages read back instead of computing them again.
#include <algorithm>

#include "kernels/lower.h"

namespace escapement {
namespace {

class StagePlanner {
 public:
  StagePlanner(const Grouping& grouping, const Group& group) : graph_(grouping.graph), group_(group) {}

  StagePlan run() {
    const size_t count = group_.members.size();
    plan_.time.assign(count, 0);
    plan_.full.assign(count, true);
    plan_.read_back.assign(count, false);
    plan_.kept_in.assign(count, kNoIndex);
    for (size_t i = 0; i < count; ++i) set_time(i);
    for (size_t i = 0; i < count; ++i) {
      if (plan_.full[i]) plan_.last = std::max(plan_.last, plan_.time[i]);
    }
    for (int stage = 1; stage <= plan_.last; ++stage) visit_stage(stage);
    return std::move(plan_);
  }

 private:
  const GraphNode& node(size_t i) const { return graph_.nodes[group_.members[i]]; }

  size_t position(uint32_t n) const {
    return std::lower_bound(group_.members.begin(), group_.members.end(), n) - group_.members.begin();
  }

  template <class F>
  void for_each_operand(size_t i, F&& f) const {
    const uint32_t self = node(i).group;
    for (const Edge& e : node(i).inputs) {
      if (!e.inlined && graph_.nodes[e.producer].group == self) f(position(e.producer));
    }
  }

  bool is_full(const GraphNode& n) const {
    if (group_.reduced.empty() || n.role == Role::reduce) return true;
    for (const AxisList& list : n.iter) {
      for (Axis a : list) {
        if (group_.is_reduced(a)) return true;
      }
    }
    return false;
  }

  void set_time(size_t i) {
    plan_.full[i] = is_full(node(i));
    for_each_operand(i, [&](size_t p) { plan_.time[i] = std::max(plan_.time[i], plan_.time[p] + (node(p).role == Role::reduce ? 1 : 0)); });
  }

  bool in_stage(size_t i, int stage) const {  // a sink of this element stage
    if (!plan_.full[i]) return false;
    const bool sink = node(i).stored || node(i).role == Role::reduce;
    const int at = node(i).role == Role::write ? plan_.last : plan_.time[i];
    return sink && at == stage;
  }

  void visit_stage(int stage) {
    visited_.assign(group_.members.size(), false);
    for (size_t i = 0; i < group_.members.size(); ++i) {
      if (in_stage(i, stage)) visit_operands(i, stage);
    }
  }

  void visit_operands(size_t i, int stage) {
    for_each_operand(i, [&](size_t p) { visit(p, stage); });
  }

  void visit(size_t i, int stage) {
    if (visited_[i] || !plan_.full[i] || node(i).role == Role::reduce) return;
    visited_[i] = true;
    if (plan_.time[i] < stage && (plan_.read_back[i] || can_read_back(i))) {
      plan_.read_back[i] = true;
    } else {
      visit_operands(i, stage);
    }
  }

  bool can_read_back(size_t i) {
    if (node(i).stored && node(i).role != Role::write) return is_worth_it(i);
    if (node(i).role == Role::write || !is_expensive(graph_.instr(node(i)).op)) return false;
    plan_.kept_in[i] = find_host(i);
    return plan_.kept_in[i] != kNoIndex;
  }

  bool is_worth_it(size_t i) {
    cone_.assign(group_.members.size(), false);
    int loads = 0;
    return has_expensive_cone(i, loads) || loads > 1;
  }

  bool has_expensive_cone(size_t i, int& loads) {
    if (cone_[i]) return false;
    cone_[i] = true;
    if (is_expensive(graph_.instr(node(i)).op)) return true;
    loads += static_cast<int>(end_read_operand(graph_, node(i)) - first_read_operand(node(i)));
    bool expensive = false;
    for_each_operand(i, [&](size_t p) {
      --loads;
      if (plan_.full[p] && node(p).role != Role::reduce) expensive = expensive || has_expensive_cone(p, loads);
    });
    return expensive;
  }

  // An output that the last stage completes, of the same type and as large.
  uint32_t find_host(size_t i) const {
    const DType type = graph_.trace.type(graph_.instr(node(i)).results[0]).dtype;
    if (!is_float(type)) return kNoIndex;
    for (size_t o = 0; o < group_.members.size(); ++o) {
      const GraphNode& host = node(o);
      const bool whole = host.stored && plan_.full[o] && (host.role == Role::pointwise || host.role == Role::index);
      if (!whole || plan_.time[o] != plan_.last || plan_.time[o] == plan_.time[i]) continue;
      if (graph_.trace.type(graph_.instr(host).results[0]).dtype != type) continue;
      const auto index = static_cast<uint32_t>(o);
      if (std::find(plan_.kept_in.begin(), plan_.kept_in.end(), index) == plan_.kept_in.end()) return index;
    }
    return kNoIndex;
  }

  const FuseGraph& graph_;
  const Group& group_;
  StagePlan plan_;
  CheckedVector<bool> visited_, cone_;
};

}  // namespace

StagePlan plan_stages(const Grouping& grouping, const Group& group) { return StagePlanner(grouping, group).run(); }

}  // namespace escapement
