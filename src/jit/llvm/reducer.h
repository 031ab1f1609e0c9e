// Reductions in the canonical order of trace/reduce_order.h: its 32 lanes are 32 / L vectors of L lanes (row schedule), or 32 vectors
// on the stack (column schedule).
#pragma once

#include "jit/llvm/kernel.h"
#include "trace/reduce_order.h"

namespace escapement {

// An intermediate result. `index` only for argmax and argmin: where in the row (or, 32 bits wide, in the stretch) the value stood.
struct Partial {
  Value* value = nullptr;
  Value* index = nullptr;
};

// A pair of variables.
struct PartialVar {
  Var value, index;
};

// What the stretches so far come to, reduce::Total.
struct TotalVar {
  PartialVar sum;
  Var error;  // floating-point sums only
};

// One reduction's arithmetic, on any number of lanes.
class Reducer {
 public:
  Reducer(KernelEmitter& kernel, const Stage& stage, const LoopReduction& reduction);

  DType type() const { return type_; }
  bool has_index() const { return row_.gives_position(); }
  uint32_t row_value() const { return reduction_.row_value; }
  Partial identity(unsigned lanes, llvm::Type* index_type);
  Partial element(StageBody& body, const Chunk& chunk, Value* stretch_begin);   // along a row; unused lanes: identity
  Partial element_of_column(StageBody& body, unsigned lanes, Value* index);     // all lanes stand at `index` of the stretch
  Partial combine(Partial a, Partial b, unsigned lanes);                   // a stands before b
  Partial combine_later(Partial a, Partial b);   // with an index: the same where all indices of a are lower than b's
  Partial tree(std::vector<Partial> vectors, unsigned lanes);              // all 32 accumulators, L a vector, to one scalar
  Partial in_row(Partial stretch, Value* stretch_begin);                   // index within the stretch -> within the row
  TotalVar total(unsigned lanes);
  void reset(TotalVar total, unsigned lanes);
  void begin(TotalVar total, Partial stretch);   // after a reset: the same as add, as a sum is never -0
  void add(TotalVar total, Partial stretch, unsigned lanes);
  Value* result(TotalVar total, unsigned lanes);
  bool may_settle() const { return row_.accumulator == Accumulator::truth; }
  Value* is_settled(TotalVar total);   // i1, of one lane: what is left to add changes nothing

 private:
  Partial combine_with_index(Partial a, Partial b);
  bool compensated() const { return row_.combine == ScalarOp::add && is_float(type_); }

  KernelEmitter& kernel_;
  Ir& ir_;
  const LoopReduction& reduction_;
  DType type_;
  const ReductionInfo& row_;
};

// The 32 accumulators of one reduction, each `width` elements wide, as an array on the stack.
class AccumulatorArray {
 public:
  AccumulatorArray(KernelEmitter& kernel, Reducer& reducer, unsigned elements);
  Partial load(Value* first, unsigned lanes);       // elements first, first + 1, ...
  void store(Value* first, unsigned lanes, Partial partial);

 private:
  Ir& ir_;
  DType type_;
  Value *values_, *indices_ = nullptr;
};

PartialVar partial_var(Ir& ir, Partial initial);
Partial get(Ir& ir, PartialVar var);
void set(Ir& ir, PartialVar var, Partial partial);

}  // namespace escapement
