// Lowering: decides the stages' contents and lets StageEmitter fill them.
#include "kernels/lower.h"

#include <algorithm>

#include "kernels/emit.h"
#include "support/error.h"

namespace escapement {
namespace {

class Lowering {
 public:
  Lowering(Grouping& grouping, uint32_t id)
      : graph_(grouping.graph),
        group_(grouping.groups[id]),
        plan_(plan_stages(grouping, group_)),
        order_(choose_axis_order(grouping, group_)),
        tables_(kernel_, graph_.trace.dims),
        row_of_(group_.members.size(), kNoIndex),
        context_{graph_, group_, plan_, order_, tables_, row_of_, kernel_} {}

  LoweredKernel run() {
    make_axes();
    find_kept_rows();
    for (int time = 0; time <= plan_.last + 1; ++time) {
      row_stage(time);
      if (time <= plan_.last) element_stage(time);
    }
    name_results();
    return std::move(kernel_);
  }

 private:
  const GraphNode& node(size_t i) const { return graph_.nodes[group_.members[i]]; }

  void make_axes() {
    kernel_.nest.schedule = order_.schedule;
    for (Axis a : order_.axes) {
      kernel_.extents.push_back(group_.extents[a]);
      kernel_.nest.axes.push_back({group_.is_reduced(a), false});
    }
    if (!order_.axes.empty()) return;
    order_.axes.push_back(static_cast<Axis>(255));  // a scalar: one axis of one point, along which nothing has a stride
    kernel_.extents.push_back(graph_.trace.dims.constant(1));
    kernel_.nest.axes.push_back({});
  }

  // Row values (not results of reductions) that someone reads outside the row stage that computes them.
  void find_kept_rows() {
    kept_.assign(group_.members.size(), false);
    for (size_t i = 0; i < group_.members.size(); ++i) {
      for (const Edge& e : node(i).inputs) {
        if (e.inlined || e.memory || graph_.nodes[e.producer].group != node(i).group) continue;
        const size_t p = std::lower_bound(group_.members.begin(), group_.members.end(), e.producer) - group_.members.begin();
        if (!plan_.full[p] && (plan_.full[i] || row_time(i) > row_time(p))) kept_[p] = true;
      }
    }
  }

  int row_time(size_t i) const { return node(i).role == Role::write ? plan_.last + 1 : plan_.time[i]; }
  int store_time(size_t i) const { return node(i).role == Role::write ? plan_.last : plan_.time[i]; }

  void row_stage(int time) {
    Stage stage;
    stage.kind = Stage::Kind::each_row;
    StageEmitter emit(context_, stage, time);
    for (size_t i = 0; i < group_.members.size(); ++i) {
      const bool reduce = node(i).role == Role::reduce;
      const bool here = reduce ? plan_.time[i] + 1 == time : !plan_.full[i] && row_time(i) == time;
      if (here && node(i).stored) emit.store(i);
    }
    for (size_t i = 0; i < group_.members.size(); ++i) {
      if (kept_[i] && row_time(i) == time) emit.keep_row(i);
    }
    if (!stage.stores.empty() || !stage.keeps.empty()) kernel_.nest.stages.push_back(std::move(stage));
  }

  void element_stage(int time) {
    Stage stage;
    StageEmitter emit(context_, stage, time);
    for (size_t i = 0; i < group_.members.size(); ++i) {
      if (!plan_.full[i]) continue;
      if (node(i).role == Role::reduce) {
        if (plan_.time[i] == time) emit.reduce(i);
      } else if (node(i).stored && store_time(i) == time) {
        emit.store(i);
      } else if (plan_.kept_in[i] != kNoIndex && plan_.time[i] == time) {
        emit.keep_in(i, plan_.kept_in[i]);
      }
    }
    if (!stage.stores.empty() || !stage.reductions.empty()) kernel_.nest.stages.push_back(std::move(stage));
  }

  void name_results() {
    for (size_t i = 0; i < group_.members.size(); ++i) {
      const Instr& instr = graph_.instr(node(i));
      kernel_.ops.push_back(instr.op);
      if (!node(i).stored) continue;
      const ValueId v = node(i).role == Role::write ? instr.operands[0] : instr.results[0];
      if (std::find(kernel_.writes.begin(), kernel_.writes.end(), v) == kernel_.writes.end()) kernel_.writes.push_back(v);
    }
  }

  FuseGraph& graph_;
  const Group& group_;
  StagePlan plan_;
  AxisOrder order_;
  LoweredKernel kernel_;
  KernelTables tables_;
  CheckedVector<uint32_t> row_of_;
  CheckedVector<bool> kept_;
  StageEmitter::Context context_;
};

}  // namespace

LoweredKernel lower(Grouping& grouping, uint32_t group) { return Lowering(grouping, group).run(); }

}  // namespace escapement
