// Emission of stage bodies: pulls the values that a stage has to produce out of the group, into one ScalarProgram per stage.
// Private to lowering (lower.cpp drives it).
#pragma once

#include <unordered_map>

#include "kernels/lower.h"

namespace escapement {

// Tables of one kernel that all its stages share.
class KernelTables {
 public:
  KernelTables(LoweredKernel& kernel, DimTable& dims) : kernel_(kernel), dims_(dims) {}
  uint32_t param(RootOperand operand, bool written);
  uint32_t scalar(DType type, Number value);
  uint32_t row_value(DType type);
  DimTable& dims() { return dims_; }
  LoopNest& nest() { return kernel_.nest; }

 private:
  LoweredKernel& kernel_;
  DimTable& dims_;
};

class StageEmitter {
 public:
  // `order`: position in the nest -> axis of the group. `row_of`: per member, the row value that holds its result, if any.
  struct Context {
    FuseGraph& graph;
    const Group& group;
    const StagePlan& plan;
    const AxisOrder& order;
    KernelTables& tables;
    CheckedVector<uint32_t>& row_of;
    LoweredKernel& kernel;
  };
  StageEmitter(Context& context, Stage& stage, int time) : c_(context), stage_(stage), time_(time), id_(context.graph.nodes[context.group.members[0]].group), memo_(context.group.members.size(), -1) {}

  Reg member(size_t i);                      // the value of a member, in compute form of its result type
  Reg operand(const GraphNode& node, uint32_t k, const AxisMap& iter);
  void store(size_t i);                      // to its own place
  void keep_in(size_t i, size_t host);       // to the place of another member
  void reduce(size_t i);
  void keep_row(size_t i);

 private:
  Reg compute(const GraphNode& node, const AxisMap& iter);
  Reg pointwise(const GraphNode& node, const AxisMap& iter);
  Reg create(const GraphNode& node, const AxisMap& iter);
  Reg arange(const Instr& instr, const AxisMap& iter);
  Reg gather(const GraphNode& node, const AxisMap& iter);
  Reg inlined(const GraphNode& node, const AxisMap& iter);
  Reg number(const Number& value, DType type);
  Reg index_of(const AxisList& list);
  Reg load(ValueId v, const AxisMap& map, std::span<const Dim> start = {});  // start: index per dim where reading begins
  Reg input(LoopInput description, DType type);
  Reg row_input(size_t i);
  Reg finish(Reg value, DType type);         // to the compute form of `type`, rounded to it
  RootOperand place_operand(const GraphNode& node);
  std::vector<Dim> nest_strides(const std::vector<Dim>& group_strides) const;
  size_t position(uint32_t node) const;
  ScalarProgram& body() { return stage_.body; }

  struct Inlined {
    const GraphNode* node;
    AxisMap iter;
    Reg value;
  };
  Context& c_;
  Stage& stage_;
  int time_;
  uint32_t id_;  // of the group
  CheckedVector<int> memo_;
  std::vector<Inlined> inlined_;
};

}  // namespace escapement
