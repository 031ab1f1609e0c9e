// The block variant of row and column kernels: many short rows. The vector runs across the rows, kBlockRows of them at a time, along the last
// parallel axis; the reduced axis is walked element by element, element j in lane j % 32 of the canonical order, the lanes being vectors
// on the stack. Strides may be any.
//
// The last block of a line is a whole one, too, where it may have rows of the one before it: where the operands are still there, since no result
// stands where one stood that nobody needs any more.
//
// A parameter whose rows lie one element apart is used where it is; any other is transposed into a block on the stack before the
// stages (if they read it) and back after them (if they write it), by the precompiled routines of jit/run/row_block.h. So nothing
// may be read through one parameter that was written through another: the launcher sees to that. What all rows of a line share
// (stride 0) is transposed once.
#include <algorithm>
#include <cstdint>

#include "jit/llvm/orc.h"
#include "jit/llvm/reducer.h"
#include "jit/run/row_block.h"
#include "kernels/computed_again.h"

namespace escapement {

namespace {

constexpr unsigned kSomeRowsFrom = 48, kFewRowsFrom = 120;  // nodes of the largest body

struct BlockEmitter {
  // How the stages use a parameter, and where the elements of the block at hand are.
  struct Param {
    bool along = false;    // element by element along the row; else only the row's first element counts
    bool read = false;     // what the stages read before they write it, or do not write, must be there before them
    bool written = false;
    Value* stride = nullptr;                  // bytes from row to row
    Value* memory = nullptr;                  // the transposed block
    Value *base = nullptr, *pitch = nullptr;  // base: of row 0 of the line, element 0; bytes from element to element, ...
    Value* apart = nullptr;                   // ... in memory
    Value *copied = nullptr, *rows = nullptr;   // i1: through `memory`; address of the first row
  };

  KernelEmitter& kernel;
  Ir& ir = kernel.ir;
  unsigned lanes = rows_at_once();
  unsigned row_axis = 0, element_axis = 0;
  Odometer* outer = nullptr;     // over the parallel axes around the rows
  Value *length = nullptr, *line = nullptr;   // elements of a row; where the first block of this line begins
  Value* may_overlap = nullptr;  // i1: rows may be done twice
  std::vector<Param> params{};
  std::vector<Value*> row_values{};
  std::optional<ComputedAgain> again = computed_again(kernel.nest);
  Value* kept = nullptr;   // what that is between its stages: an element's for all rows of a chunk, then the next element's

  unsigned rows_at_once() const;
  void emit();
  void find_axes();
  void find_uses();
  Value* operands_stay();
  std::vector<unsigned> axes_around();
  void emit_lines();
  void emit_columns(Odometer& around);
  void emit_line(Value* begin, Value* end);
  void emit_block(Value* row, Value* count);
  void place(Param& param, unsigned number, Value* row, Value* count);
  void copy(const Param& param, const std::string& symbol, Value* to, Value* from, Value* count);
  Value* length_of(const Param& param) { return param.along ? length : ir.i64(1); }
  void emit_chunk(const Chunk& chunk);
  Point point(Value* element);
  DType kept_type() const { return kernel.nest.stages[again->first].body.type(again->first_reg); }
  Access kept_place(Value* element, const Chunk& chunk);
  void emit_row_stage(const Stage& stage, const Chunk& chunk);
  void emit_plain_stage(const Stage& stage, const Chunk& chunk);
  void emit_reducing_stage(const Stage& stage, const Chunk& chunk);
  void clear(Reducer& reducer, AccumulatorArray& array, Value* used);
  void emit_tree(std::vector<Reducer>& reducers, std::vector<AccumulatorArray>& arrays, Value* used);
};

// Several registers' worth if the bodies are small, so that there is something to do in a tree of few steps; LLVM does badly at
// logic on masks wider than one register.
unsigned BlockEmitter::rows_at_once() const {
  unsigned size = 0;
  bool logic = false;
  for (const Stage& stage : kernel.nest.stages) {
    size = std::max(size, StageBody(kernel, stage, 1).size());
    for (const LoopReduction& r : stage.reductions) logic |= gives_position(r.op);
  }
  const unsigned registers = logic || size >= kFewRowsFrom ? 1 : size >= kSomeRowsFrom ? 2 : 4;
  return std::min(registers * vector_lanes(kernel.nest, kernel.target), static_cast<unsigned>(kBlockRows));
}

void BlockEmitter::emit() {
  ir.leave_if(ir.b.CreateICmpSGE(kernel.outer_begin, kernel.outer_end), [] {});
  if (kernel.nest.schedule == Schedule::column) ir.leave_if(ir.b.CreateICmpSGE(kernel.inner_begin, kernel.inner_end), [] {});
  find_axes();
  find_uses();
  length = kernel.extent(element_axis);
  may_overlap = operands_stay();
  for (unsigned p = 0; p < kernel.params(); ++p) {
    DType type = kernel.nest.params[p].dtype;
    params[p].stride = kernel.stride(p, row_axis);
    params[p].memory = ir.array(ir.storage_type(type), static_cast<unsigned>((params[p].along ? kBlockLength : 1) * kBlockRows), "block");
  }
  if (again) kept = ir.array(ir.storage_type(kept_type()), static_cast<unsigned>(kBlockLength) * lanes, "kept");
  emit_lines();
}

std::vector<unsigned> BlockEmitter::axes_around() {
  std::vector<unsigned> result;
  for (unsigned a = 0; a < row_axis; ++a)
    if (!kernel.nest.axes[a].reduced) result.push_back(a);
  return result;
}

// A line: the rows along the innermost parallel axis. The range may begin and end anywhere in one.
void BlockEmitter::emit_lines() {
  Odometer around(kernel, axes_around());
  outer = &around;
  if (kernel.nest.schedule == Schedule::column) return emit_columns(around);
  Value* width = kernel.extent(row_axis);
  around.start(ir.b.CreateUDiv(kernel.outer_begin, width));
  Var left = ir.var(ir.b.CreateSub(kernel.outer_end, kernel.outer_begin), "left"), first = ir.var(ir.b.CreateURem(kernel.outer_begin, width), "first");
  ir.while_loop("line", [&] { return ir.b.CreateICmpSGT(ir.get(left), ir.i64(0)); }, [&] {
    Value *begin = ir.get(first), *end = ir.min(width, ir.b.CreateAdd(begin, ir.get(left)));
    emit_line(begin, end);
    ir.set(left, ir.b.CreateSub(ir.get(left), ir.b.CreateSub(end, begin)));
    ir.set(first, ir.i64(0));
    around.advance();
  });
}

// The range along the lines is one of its own.
void BlockEmitter::emit_columns(Odometer& around) {
  around.start(kernel.outer_begin);
  ir.loop("line", kernel.outer_begin, kernel.outer_end, 1, [&](Value*) {
    emit_line(kernel.inner_begin, kernel.inner_end);
    around.advance();
  });
}

void BlockEmitter::emit_line(Value* begin, Value* end) {
  line = begin;
  Value* last = ir.b.CreateSub(end, ir.i64(kBlockRows));
  Value* overlaps = ir.b.CreateAnd(may_overlap, ir.b.CreateICmpSGE(last, begin));
  ir.loop("block", begin, end, kBlockRows, [&](Value* next) {
    Value* row = ir.b.CreateSelect(overlaps, ir.min(next, last), next);
    emit_block(row, ir.min(ir.b.CreateSub(end, row), ir.i64(kBlockRows)));
  });
}

void BlockEmitter::find_axes() {
  for (unsigned a = 0; a < kernel.axes(); ++a) (kernel.nest.axes[a].reduced ? element_axis : row_axis) = a;
}

void BlockEmitter::find_uses() {
  params.resize(kernel.params());
  std::vector<bool> covered(kernel.params());  // written as a whole by the stages so far: what was there is not needed
  for (const Stage& stage : kernel.nest.stages) {
    const bool elements = stage.kind == Stage::Kind::each_element;
    const bool column = kernel.nest.schedule == Schedule::column;   // what is expected of a row's parameters is no matter of its elements
    auto use = [&](uint32_t p) { params[p].along |= elements && (column || kernel.nest.params[p].inner == InnerStride::unit); };
    for (const LoopInput& input : stage.inputs)
      if (input.kind == LoopInput::Kind::load) use(input.number), params[input.number].read |= !covered[input.number];
    for (const LoopStore& store : stage.stores) {
      use(store.param), params[store.param].written = true;
      if (elements) covered[store.param] = true;
    }
  }
  for (unsigned p = 0; p < kernel.params(); ++p) params[p].read |= params[p].along && !covered[p];
}

// A plan that writes a result over an operand gives both one address.
Value* BlockEmitter::operands_stay() {
  Value* stay = ir.b.getTrue();
  for (unsigned w = 0; w < kernel.params(); ++w) {
    if (!params[w].written) continue;
    if (params[w].read) return ir.b.getFalse();
    for (unsigned p = 0; p < kernel.params(); ++p)
      if (p != w) stay = ir.b.CreateAnd(stay, ir.b.CreateICmpNE(kernel.data(w), kernel.data(p)));
  }
  return stay;
}

// --- blocks

void BlockEmitter::emit_block(Value* row, Value* count) {
  for (unsigned p = 0; p < kernel.params(); ++p) place(params[p], p, row, count);
  Value* end = ir.b.CreateAdd(row, ir.i64(kBlockRows));
  ir.loop("rows", row, end, lanes, [&](Value* position) { emit_chunk(full_chunk(position, lanes)); });
  for (unsigned p = 0; p < kernel.params(); ++p) {
    const Param& param = params[p];
    if (!param.written) continue;
    DType type = kernel.nest.params[p].dtype;
    ir.if_then(param.copied, [&] { copy(param, scatter_rows_symbol(size_of(type)), param.rows, param.memory, count); });
  }
}

void BlockEmitter::place(Param& param, unsigned number, Value* row, Value* count) {
  DType type = kernel.nest.params[number].dtype;
  Value *size = ir.i64(size_of(type)), *whole = ir.b.CreateICmpEQ(count, ir.i64(kBlockRows));
  param.copied = ir.b.CreateNot(ir.b.CreateAnd(whole, ir.b.CreateICmpEQ(param.stride, size)));
  Value* line_at = ir.at(kernel.data(number), outer->offset(number));
  param.rows = ir.at(line_at, ir.b.CreateMul(row, param.stride));
  param.pitch = ir.i64(0);
  param.apart = param.along ? kernel.stride(number, element_axis) : size;
  if (param.read) {
    Value* first = ir.b.CreateICmpEQ(row, line);
    Value* changes = ir.b.CreateOr(first, ir.b.CreateICmpNE(param.stride, ir.i64(0)));
    ir.if_then(ir.b.CreateAnd(param.copied, changes),
               [&] { copy(param, gather_rows_symbol(size_of(type)), param.memory, param.rows, count); });
  }
  Value* row_bytes = ir.b.CreateMul(row, size);
  Value* block = ir.at(param.memory, ir.b.CreateSub(ir.i64(0), row_bytes));
  param.base = ir.b.CreateSelect(param.copied, block, line_at);
  if (param.along) param.pitch = ir.b.CreateSelect(param.copied, ir.b.CreateMul(size, ir.i64(kBlockRows)), param.apart);
}

void BlockEmitter::copy(const Param& param, const std::string& symbol, Value* to, Value* from, Value* count) {
  llvm::Type *pointer = ir.b.getPtrTy(), *i64 = ir.b.getInt64Ty();
  auto* type = llvm::FunctionType::get(ir.b.getVoidTy(), {pointer, pointer, i64, i64, i64, i64}, false);
  llvm::Module* module = ir.b.GetInsertBlock()->getModule();
  ir.b.CreateCall(module->getOrInsertFunction(symbol, type), {to, from, param.stride, count, length_of(param), param.apart});
}

// --- chunks of rows

void BlockEmitter::emit_chunk(const Chunk& chunk) {
  row_values.assign(kernel.nest.row_values.size(), nullptr);
  for (const Stage& stage : kernel.nest.stages) {
    if (stage.kind == Stage::Kind::each_row) emit_row_stage(stage, chunk);
    else if (stage.reductions.empty()) emit_plain_stage(stage, chunk);
    else emit_reducing_stage(stage, chunk);
  }
}

Point BlockEmitter::point(Value* element) {
  Point result;
  for (const Param& param : params) {
    Value* base = param.along ? ir.at(param.base, ir.b.CreateMul(element, param.pitch)) : param.base;
    result.params.push_back({Access::Kind::unit, base, nullptr, nullptr});
  }
  for (unsigned a = 0; a < kernel.axes(); ++a) result.axes.push_back({IndexSource::Kind::scalar, ir.i64(0)});
  for (unsigned a : outer->axes()) result.axes[a].value = outer->index(a);
  result.axes[row_axis].kind = IndexSource::Kind::lanes;
  result.axes[element_axis].value = element;
  result.row_values = row_values;
  result.row_values_are_vectors = true;
  return result;
}

Access BlockEmitter::kept_place(Value* element, const Chunk& chunk) {
  Value* place = ir.b.CreateSub(ir.b.CreateMul(element, ir.i64(lanes)), chunk.position);
  return {Access::Kind::unit, ir.at(kept, ir.b.CreateMul(place, ir.i64(size_of(kept_type())))), nullptr, nullptr};
}

void BlockEmitter::emit_row_stage(const Stage& stage, const Chunk& chunk) {
  StageBody body(kernel, stage, lanes);
  body.enter(point(ir.i64(0)));
  body.begin(chunk);
  body.store();
  for (const RowKeep& keep : stage.keeps) row_values[keep.row_value] = body.value(keep.value);
}

void BlockEmitter::emit_plain_stage(const Stage& stage, const Chunk& chunk) {
  StageBody body(kernel, stage, lanes);
  ir.loop("element", ir.i64(0), length, 1, [&](Value* j) {
    if (again && &stage == &kernel.nest.stages[again->later]) body.take(again->later_reg, kept_place(j, chunk));
    body.enter(point(j));
    body.begin(chunk);
    body.store();
  });
}

void BlockEmitter::emit_reducing_stage(const Stage& stage, const Chunk& chunk) {
  StageBody body(kernel, stage, lanes);
  std::vector<Reducer> reducers;
  std::vector<AccumulatorArray> arrays;
  for (const LoopReduction& r : stage.reductions) {
    reducers.emplace_back(kernel, stage, r);
    arrays.emplace_back(kernel, reducers.back(), kReduceLanes * lanes);
  }
  Value* used = ir.min(length, ir.i64(kReduceLanes));
  for (size_t r = 0; r < reducers.size(); ++r) clear(reducers[r], arrays[r], used);
  ir.loop("element", ir.i64(0), length, 1, [&](Value* j) {
    if (again && &stage == &kernel.nest.stages[again->first]) body.keep(again->first_reg, kept_place(j, chunk));
    body.enter(point(j));
    body.begin(chunk);
    Value* slot = ir.b.CreateMul(ir.b.CreateAnd(j, ir.i64(kReduceLanes - 1)), ir.i64(lanes));
    for (size_t r = 0; r < reducers.size(); ++r) {
      Partial sum = reducers[r].combine(arrays[r].load(slot, lanes), reducers[r].element_of_column(body, lanes, j), lanes);
      arrays[r].store(slot, lanes, sum);
    }
    body.store();
  });
  emit_tree(reducers, arrays, used);
  for (size_t r = 0; r < reducers.size(); ++r) {
    const Partial only = reducers[r].in_row(arrays[r].load(ir.i64(0), lanes), ir.i64(0));
    row_values[reducers[r].row_value()] = only.index ? only.index : only.value;   // one stretch is its own total
  }
}

void BlockEmitter::clear(Reducer& reducer, AccumulatorArray& array, Value* used) {
  ir.loop("clear", ir.i64(0), used, 1, [&](Value* i) {
    array.store(ir.b.CreateMul(i, ir.i64(lanes)), lanes, reducer.identity(lanes, ir.b.getInt32Ty()));
  });
}

// Accumulators that no element reached are left out: combining with the identity changes nothing (a sum that began at +0 is never -0).
void BlockEmitter::emit_tree(std::vector<Reducer>& reducers, std::vector<AccumulatorArray>& arrays, Value* used) {
  Value* last = ir.b.CreateSub(used, ir.i64(1));
  Value* zeros = ir.b.CreateIntrinsic(llvm::Intrinsic::ctlz, {ir.b.getInt64Ty()}, {last, ir.b.getFalse()});
  Value* half = ir.b.CreateLShr(ir.i64(INT64_MIN), zeros);  // the highest bit of `last`; of 0 it is shifted out: not used
  Value* first = ir.b.CreateSelect(ir.b.CreateICmpEQ(last, ir.i64(0)), ir.i64(0), half);
  Var live = ir.var(used, "live"), step = ir.var(first, "step");
  ir.while_loop("tree", [&] { return ir.b.CreateICmpSGT(ir.get(step), ir.i64(0)); }, [&] {
    Value* distance = ir.get(step);
    ir.loop("level", ir.i64(0), ir.b.CreateSub(ir.get(live), distance), 1, [&](Value* i) {
      Value* low = ir.b.CreateMul(i, ir.i64(lanes));
      Value* high = ir.b.CreateMul(ir.b.CreateAdd(i, distance), ir.i64(lanes));
      for (size_t r = 0; r < reducers.size(); ++r)
        arrays[r].store(low, lanes, reducers[r].combine(arrays[r].load(low, lanes), arrays[r].load(high, lanes), lanes));
    });
    ir.set(live, distance);
    ir.set(step, ir.b.CreateLShr(distance, 1));
  });
}

}  // namespace

void emit_block(KernelEmitter& kernel) { BlockEmitter{kernel}.emit(); }

bool has_block(const LoopNest& nest) {
  if (nest.schedule == Schedule::map) return false;
  auto is = [](bool reduced) { return [=](const LoopAxis& axis) { return axis.reduced == reduced; }; };
  if (std::none_of(nest.axes.begin(), nest.axes.end(), is(true)) || std::none_of(nest.axes.begin(), nest.axes.end(), is(false))) return false;
  for (const Stage& stage : nest.stages)
    for (const LoopInput& input : stage.inputs)
      if (input.kind == LoopInput::Kind::gather) return false;
  return true;
}

}  // namespace escapement
