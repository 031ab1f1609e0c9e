// From a fusion group to a loop nest with its operands: the order of axes, the schedule, the stages and their bodies.
//
// Stages. A member's time is the element stage in which its value first exists: an element-wise value as late as its operands, a
// reduction's result one stage after its operand, a row value as late as its operands. Members are emitted by pulling from what
// each stage has to produce (stores, reductions, row values), so a value that a later stage needs is computed there again from
// loads. What is expensive to compute again is read back instead, from the output it was stored to or, if it is not an output, from
// an output of the same type that is not complete yet (softmax keeps exp(x - max) in its result until it divides).
#pragma once

#include "kernels/fuse.h"

namespace escapement {

// A kernel operand before buffers are known: named by the root of its memory.
struct RootOperand {
  ValueId root;
  DType dtype = DType::f32;
  Dim offset;
  std::vector<Dim> strides;  // along the nest's axes
  Dim gathered;
  friend bool operator==(const RootOperand&, const RootOperand&) = default;
};

struct LoweredKernel {
  LoopNest nest;
  std::vector<Dim> extents;
  std::vector<RootOperand> operands;
  std::vector<Number> scalars;
  std::vector<ValueId> writes;
  std::string failure;
  std::vector<Op> ops;
};

LoweredKernel lower(Grouping& grouping, uint32_t group);

// --- parts of it
struct AxisOrder {
  Schedule schedule = Schedule::map;
  std::vector<Axis> axes;  // the nest's axes, outermost first, as axes of the group
};
AxisOrder choose_axis_order(Grouping& grouping, const Group& group);

// When each member's value exists and where later stages get it from. Vectors are indexed like group.members.
struct StagePlan {
  std::vector<int> time;
  std::vector<bool> full;            // computed per element (in groups that reduce: over the reduced axes too)
  std::vector<bool> read_back;       // element-wise value: stages after `time` load it
  std::vector<uint32_t> kept_in;     // not stored itself: the member whose output holds it until then; else none
  int last = 0;                      // the last element stage
};
StagePlan plan_stages(const Grouping& grouping, const Group& group);

}  // namespace escapement
