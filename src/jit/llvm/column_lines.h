// Fewer columns than lanes, each row of them behind the other: rows are walked as one line of memory by full vectors. Element i of the line goes to
// place i % (32 * columns) of the accumulators, which are the 32 of the canonical order, lying as the columns do; the tree takes all columns at once.
// Where an index is asked for it is i until the end: of two elements of a column it is the lower one that stands first.
#pragma once

#include "jit/llvm/reducer.h"

namespace escapement {

class ColumnLines {
 public:
  // `axis`: the one reduced axis that has elements, `length` of them, of columns that chunks of so many lanes take.
  ColumnLines(KernelEmitter& kernel, const Stage& stage, unsigned axis, Value* length, unsigned lanes);

  static bool apply_to(const LoopNest& nest, const Stage& stage);   // whether a body says the same wherever its elements lie
  Value* holds();                                                   // i1: all columns are in hand, and they lie so
  // Of a body that has been entered at the first element. `array` has room for one vector more than the accumulators.
  void emit(StageBody& body, Reducer& reducer, AccumulatorArray& array, TotalVar total);

 private:
  void add_line(StageBody& body, Reducer& reducer, AccumulatorArray& array, Value* begin, Value* end);
  void fold(Reducer& reducer, AccumulatorArray& array);
  Value* element_of(Value* place);

  KernelEmitter& kernel_;
  Ir& ir_;
  const Stage& stage_;
  unsigned axis_, lanes_;
  Value *length_, *columns_;
};

}  // namespace escapement
