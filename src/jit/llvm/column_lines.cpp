// See column_lines.h.
#include "jit/llvm/column_lines.h"

#include <algorithm>

namespace escapement {

ColumnLines::ColumnLines(KernelEmitter& kernel, const Stage& stage, unsigned axis, Value* length, unsigned lanes)
    : kernel_(kernel), ir_(kernel.ir), stage_(stage), axis_(axis), lanes_(lanes), length_(length), columns_(kernel.extent(kernel.axes() - 1)) {}

bool ColumnLines::apply_to(const LoopNest& nest, const Stage& stage) {
  return std::all_of(stage.inputs.begin(), stage.inputs.end(), [&](const LoopInput& input) {
    return input.kind == LoopInput::Kind::load && nest.params[input.number].inner == InnerStride::unit;
  });
}

Value* ColumnLines::holds() {
  auto& b = ir_.b;
  Value* all = b.CreateAnd(b.CreateICmpEQ(kernel_.inner_begin, ir_.i64(0)), b.CreateICmpEQ(kernel_.inner_end, columns_));
  all = b.CreateAnd(all, b.CreateAnd(b.CreateICmpSLE(columns_, ir_.i64(lanes_)), b.CreateICmpEQ(kernel_.extent(axis_), length_)));
  for (const LoopInput& input : stage_.inputs) {
    Value* row = b.CreateMul(columns_, ir_.i64(size_of(kernel_.nest.params[input.number].dtype)));
    all = b.CreateAnd(all, b.CreateICmpEQ(kernel_.stride(input.number, axis_), row));
  }
  return all;
}

void ColumnLines::emit(StageBody& body, Reducer& reducer, AccumulatorArray& array, TotalVar total) {
  ir_.loop("stretch", ir_.i64(0), length_, kReduceStretch, [&](Value* begin) {
    Value* end = ir_.min(ir_.b.CreateAdd(begin, ir_.i64(kReduceStretch)), length_);
    add_line(body, reducer, array, ir_.b.CreateMul(begin, columns_), ir_.b.CreateMul(end, columns_));
    fold(reducer, array);
    Partial part = array.load(ir_.i64(0), lanes_);
    if (reducer.has_index()) part.index = element_of(part.index);
    reducer.add(total, reducer.in_row(part, begin), lanes_);
  });
}

// place / columns, of places below 2^23: a rounded quotient of such does not reach the next integer.
Value* ColumnLines::element_of(Value* place) {
  llvm::Type* real = place->getType()->getWithNewType(ir_.b.getFloatTy());
  Value* columns = ir_.splat(ir_.b.CreateUIToFP(columns_, ir_.b.getFloatTy()), lanes_);
  return ir_.b.CreateFPToSI(ir_.b.CreateFDiv(ir_.b.CreateSIToFP(place, real), columns), place->getType());
}

void ColumnLines::add_line(StageBody& body, Reducer& reducer, AccumulatorArray& array, Value* begin, Value* end) {
  Value* places = ir_.b.CreateMul(columns_, ir_.i64(kReduceLanes));   // a multiple of the lanes
  ir_.loop("clear", ir_.i64(0), places, lanes_, [&](Value* place) { array.store(place, lanes_, reducer.identity(lanes_, ir_.b.getInt32Ty())); });
  Var place = ir_.var(ir_.i64(0), "place");
  const auto add = [&](const Chunk& chunk) {
    body.begin(chunk);
    Value *at = ir_.get(place), *next = ir_.b.CreateAdd(at, ir_.i64(lanes_));
    array.store(at, lanes_, reducer.combine(array.load(at, lanes_), reducer.element(body, chunk, begin), lanes_));
    ir_.set(place, ir_.b.CreateSelect(ir_.b.CreateICmpEQ(next, places), ir_.i64(0), next));
  };
  Value* whole = ir_.b.CreateAdd(begin, ir_.b.CreateAnd(ir_.b.CreateSub(end, begin), ir_.i64(-int64_t{lanes_})));
  ir_.loop("line", begin, whole, lanes_, [&](Value* i) { add(full_chunk(i, lanes_)); });
  ir_.loop("tail", whole, end, lanes_, [&](Value* i) { add(masked_chunk(ir_, i, end, lanes_)); });
}

// What a vector holds behind the last of the lower half is of no meaning, and nothing is made of it.
void ColumnLines::fold(Reducer& reducer, AccumulatorArray& array) {
  Var distance = ir_.var(ir_.b.CreateMul(columns_, ir_.i64(kReduceLanes / 2)), "distance");
  ir_.while_loop("tree", [&] { return ir_.b.CreateICmpSGE(ir_.get(distance), columns_); }, [&] {
    Value* apart = ir_.get(distance);
    ir_.loop("level", ir_.i64(0), apart, lanes_, [&](Value* low) {
      array.store(low, lanes_, reducer.combine(array.load(low, lanes_), array.load(ir_.b.CreateAdd(low, apart), lanes_), lanes_));
    });
    ir_.set(distance, ir_.b.CreateLShr(apart, 1));
  });
}

}  // namespace escapement
