// An element stage with reductions, along one row: its stretches and how they combine. Used by all variants of the row schedule.
#pragma once

#include <memory>

#include "jit/llvm/reducer.h"

namespace escapement {

class RowReduction {
 public:
  static constexpr unsigned kRegistersBelow = 24;  // nodes of the body

  // The general variant's: lists where the elements of a chunk lie, ...
  using Place = llvm::function_ref<void(const Chunk&)>;
  // ... or enters the body at the run in which `element` lies and returns that run's end.
  using EnterRun = llvm::function_ref<Value*(Value* element)>;

  RowReduction(KernelEmitter& kernel, StageBody& body, bool contiguous);

  void reset();                                      // totals of a row that has no elements
  void add_all(Value* length);               // every stretch of [0, length)
  void add_listed(Value* length, Place place);
  void add_runs(Value* length, EnterRun enter);
  std::vector<Partial> stretch(Value* begin, Value* end);
  void add(size_t reduction, Partial partial);       // the next stretch's result, index within the row
  void write_results(std::vector<Value*>& row_values);
  std::vector<Reducer>& reducers() { return reducers_; }

 private:
  void add_stretches(Value* length, llvm::function_ref<void(Value* begin, Value* end)> add_elements);
  bool may_settle() const;
  Value* is_settled();
  void each_stretch(Value* length, llvm::function_ref<void(Value*)> add_stretch);
  void clear();
  std::vector<Partial> folded(Value* begin);
  void add_to_register(unsigned vector, const Chunk& chunk, Value* stretch_begin);
  void add_to_arrays(const Chunk& chunk, Value* stretch_begin);
  void add_flat(Value* begin, Value* end);
  void accumulate(Value* from, Value* to, Value* stretch_begin, bool masked, Place place);
  void add_run(Value* from, Value* to, Value* stretch_begin);
  void add_masked(Value* begin, Value* from, Value* to, Value* stretch_begin);
  void main_in_registers(Value* begin, Value* end, Value* stretch_begin);
  void tail_in_registers(Value* from, Value* to, Value* stretch_begin, unsigned vector);
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
