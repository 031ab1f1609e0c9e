// An element stage with reductions, along one row: its segments and how they combine. Used by all variants of the row schedule.
#pragma once

#include <memory>

#include "jit/llvm/reducer.h"

namespace escapement {

class RowReduction {
 public:
  static constexpr unsigned kRegistersBelow = 24;  // nodes of the body

  // The general variant's: where the elements of a chunk lie. Calls `use` with a body that stands there, and the chunk; twice, if there are two ways.
  using Use = llvm::function_ref<void(StageBody&, const Chunk&)>;
  using Place = llvm::function_ref<void(const Chunk&, Use)>;

  RowReduction(KernelEmitter& kernel, StageBody& body, bool contiguous);

  void reset();                                      // totals of a row that has no elements
  void add_all(Value* length, Place place);   // every segment of [0, length)
  std::vector<Partial> segment(Value* begin, Value* end, Place place);
  void add(size_t reduction, Partial partial);       // the next segment's result, index within the row
  void write_results(std::vector<Value*>& row_values);
  std::vector<Reducer>& reducers() { return reducers_; }

 private:
  bool may_settle() const;
  Value* is_settled();
  void each_segment(Value* length, llvm::function_ref<void(Value*)> add_segment);
  void accumulate(Value* from, Value* to, Value* segment_begin, bool masked, Place place);
  void main_in_registers(Value* begin, Value* end);
  void tail_in_registers(Value* from, Value* to, Value* segment_begin, unsigned vector);
  void registers_to_arrays();
  void arrays_to_registers();
  unsigned vectors() const { return kReduceLanes / lanes_; }

  KernelEmitter& kernel_;
  Ir& ir_;
  StageBody& body_;
  unsigned lanes_;
  bool contiguous_, in_registers_;
  std::vector<Reducer> reducers_;
  std::vector<AccumulatorArray> arrays_;                 // per reduction
  std::vector<std::vector<PartialVar>> registers_;       // per reduction, per vector of lanes
  std::vector<TotalVar> totals_;
};

}  // namespace escapement
