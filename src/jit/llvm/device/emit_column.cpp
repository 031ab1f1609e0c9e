// Columns on a device: a block of 8 warps takes 32 neighbouring columns, a warp's threads one each, so that a row of the operand is read together.
// Thread (warp w, lane x) has the accumulators w, w + 8, w + 16, w + 24 of column x. The halves 16 and 8 of the canonical order are its own; for 4, 2
// and 1 the warps exchange what they have through the block's memory, and every thread combines it, so that all of them know the column's result.
// Columns past the end keep to the barriers and touch no memory. Few columns, each long, are done in parts: partial takes a stretch of 32 columns a
// block, finish reads the stretches' results from scratch.
#include "jit/llvm/device/kernel.h"

namespace escapement {

namespace {

constexpr unsigned kAccumulators = kReduceLanes / kColumnWarps;   // of a thread
constexpr unsigned kPartialWords = 2;

struct ColumnEmitter {
  DeviceKernel& device;
  KernelEmitter& kernel = device.kernel;
  Ir& ir = device.ir;
  const bool fast = device.variant.fast;          // one reduced axis is longer than 1: the last
  const unsigned vector = kernel.axes() - 1;      // the vector axis
  Value *rows = nullptr, *length = nullptr;       // points of the other parallel axes; elements of a column
  Value *column = nullptr, *valid = nullptr;      // this thread's; whether there is one
  Value* number = nullptr;                        // of the column among all columns of the nest
  Odometer outer{kernel, device.axes(false)}, inside{kernel, device.axes(true)};
  Point row{}, element{};
  Hazards hazards{device.nest};
  std::vector<Var> row_values{};
  Var half = ir.var(ir.i64(0), "half");           // of the block's memory that is used next

  void emit();
  void emit_partials();
  void start_columns(Value* number, Value* groups);
  void emit_stage(const Stage& stage, bool from_scratch);
  void emit_row_stage(const Stage& stage);
  void emit_plain_stage(const Stage& stage);
  void reduce(const Stage& stage, bool from_scratch);
  void run_row(const Stage& stage, bool stores);
  void read_row_values(Point& point);
  void keep(uint32_t number, Value* value) { ir.set(row_values[number], value); }
  Chunk at(StageBody& body, Value* position);
  std::vector<Partial> stretch(StageBody& body, std::vector<Reducer>& reducers, Value* begin);
  void add_from_scratch(std::vector<Reducer>& reducers, std::vector<TotalVar>& totals);
  Value* stretches() { return device.quotient_up(length, ir.i64(kReduceStretch)); }
  Value* scratch_word(Value* stretch, size_t reduction, size_t count);
  Partial exchange(Reducer& reducer, Partial mine);
  Value* word(Value* warp, unsigned end);
};

void ColumnEmitter::emit() {
  rows = device.product(device.axes(false));
  length = device.product(device.axes(true));
  for (const DType type : device.nest.row_values) row_values.push_back(ir.var(ir.constant(type, 0, 1), "row_value"));
  if (device.variant.team == Team::partial) return emit_partials();
  const bool in_parts = device.variant.team == Team::finish;
  Value* groups = device.quotient_up(kernel.extent(vector), ir.i64(kWarp));
  device.stride_loop("columns", device.block(), ir.b.CreateMul(rows, groups), device.blocks(), [&](Value* group) {
    start_columns(group, groups);
    for (const Stage& stage : device.nest.stages) emit_stage(stage, in_parts && &stage == &device.nest.stages[0]);
    hazards.barrier();   // columns do not meet
  });
}

void ColumnEmitter::emit_partials() {
  const Stage& stage = device.nest.stages[0];
  Value *groups = device.quotient_up(kernel.extent(vector), ir.i64(kWarp)), *count = stretches();
  Value* pieces = ir.b.CreateMul(ir.b.CreateMul(rows, groups), count);
  device.stride_loop("piece", device.block(), pieces, device.blocks(), [&](Value* piece) {
    start_columns(ir.b.CreateUDiv(piece, count), groups);
    Value* part = ir.b.CreateURem(piece, count);
    StageBody body(kernel, stage, 1);
    std::vector<Reducer> reducers;
    for (const LoopReduction& r : stage.reductions) reducers.emplace_back(kernel, stage, r);
    const std::vector<Partial> results = stretch(body, reducers, ir.b.CreateMul(part, ir.i64(kReduceStretch)));
    ir.if_then(ir.b.CreateAnd(valid, ir.b.CreateICmpEQ(device.warp(), ir.i64(0))), [&] {
      for (size_t r = 0; r < results.size(); ++r) device.store_partial(scratch_word(part, r, results.size()), reducers[r], results[r]);
    });
  });
}

// Group number `group`: 32 columns of a point of the other axes.
void ColumnEmitter::start_columns(Value* group, Value* groups) {
  Value* point = ir.b.CreateUDiv(group, groups);
  start_at(device, outer, point, rows);
  column = ir.b.CreateAdd(ir.b.CreateMul(ir.b.CreateURem(group, groups), ir.i64(kWarp)), device.lane());
  number = ir.b.CreateAdd(ir.b.CreateMul(point, kernel.extent(vector)), column);
  valid = ir.b.CreateICmpSLT(column, kernel.extent(vector));
  const std::vector<unsigned> reduced = device.axes(true);
  row = element = Point{};
  for (unsigned p = 0; p < kernel.params(); ++p) {
    Value* offset = ir.b.CreateAdd(outer.offset(p), ir.b.CreateMul(column, kernel.stride(p, vector)));
    Value* base = ir.at(kernel.data(p), offset);
    row.params.push_back({Access::Kind::zero, base});
    if (fast && !reduced.empty()) element.params.push_back({Access::Kind::strided, base, kernel.stride(p, reduced.back())});
    else element.params.push_back({Access::Kind::zero, base});
  }
  for (unsigned a = 0; a < vector; ++a) {
    const bool is_reduced = device.nest.axes[a].reduced;
    const IndexSource scalar{IndexSource::Kind::scalar, is_reduced ? ir.i64(0) : outer.index(a)};
    row.axes.push_back(scalar);
    element.axes.push_back(is_reduced && a == reduced.back() ? IndexSource{IndexSource::Kind::lanes, nullptr} : scalar);
  }
  row.axes.push_back({IndexSource::Kind::scalar, column});
  element.axes.push_back({IndexSource::Kind::scalar, column});
}

void ColumnEmitter::read_row_values(Point& point) {
  point.row_values.clear();
  for (const Var v : row_values) point.row_values.push_back(ir.get(v));
}

// The body at one element of the column, under `valid`.
Chunk ColumnEmitter::at(StageBody& body, Value* position) {
  const Chunk chunk = full_chunk(position, 1);
  Point point = element;
  if (!fast) {
    inside.start(position);
    for (unsigned p = 0; p < kernel.params(); ++p) point.params[p].base = ir.at(element.params[p].base, inside.offset(p));
    for (const unsigned a : inside.axes()) point.axes[a] = {IndexSource::Kind::scalar, inside.index(a)};
  }
  read_row_values(point);
  body.enter(point);
  body.begin(chunk);
  return chunk;
}

// --- stages

void ColumnEmitter::emit_stage(const Stage& stage, bool from_scratch) {
  if (hazards.needs_barrier(stage)) {
    device.barrier();
    hazards.barrier();
  }
  if (stage.kind == Stage::Kind::each_row) emit_row_stage(stage);
  else if (stage.reductions.empty()) emit_plain_stage(stage);
  else reduce(stage, from_scratch);
  if (stage.reductions.empty()) hazards.passed(stage);   // else the barrier of the last stretch lies behind its accesses
}

void ColumnEmitter::run_row(const Stage& stage, bool stores) {
  StageBody body(kernel, stage, 1);
  ir.if_then(valid, [&] {
    read_row_values(row);
    body.enter(row);
    body.begin(full_chunk(ir.i64(0), 1));
    for (const RowKeep& k : stage.keeps) keep(k.row_value, body.value(k.value));
    if (stores) ir.if_then(ir.b.CreateICmpEQ(device.warp(), ir.i64(0)), [&] { body.store(); });
  });
}

// Every thread computes it, so that every thread knows the column's values; one stores. What it reads and writes is read by all threads first, and
// computed once more by the one that writes.
void ColumnEmitter::emit_row_stage(const Stage& stage) {
  const bool apart = loads_memory(stage) && !stage.stores.empty();
  if (!apart) return run_row(stage, true);
  if (!stage.keeps.empty()) {
    run_row(stage, false);
    device.barrier();
  }
  StageBody body(kernel, stage, 1);
  ir.if_then(ir.b.CreateAnd(valid, ir.b.CreateICmpEQ(device.warp(), ir.i64(0))), [&] {
    Point point = row;
    read_row_values(point);
    body.enter(point);
    body.begin(full_chunk(ir.i64(0), 1));
    body.store();
  });
}

void ColumnEmitter::emit_plain_stage(const Stage& stage) {
  StageBody body(kernel, stage, 1);
  ir.if_then(valid, [&] {
    ir.loop("element", device.warp(), length, kColumnWarps, [&](Value* position) {
      at(body, position);
      body.store();
    });
  });
}

// --- reductions

void ColumnEmitter::reduce(const Stage& stage, bool from_scratch) {
  StageBody body(kernel, stage, 1);
  std::vector<Reducer> reducers;
  std::vector<TotalVar> totals;
  for (const LoopReduction& r : stage.reductions) {
    reducers.emplace_back(kernel, stage, r);
    totals.push_back(reducers.back().total(1));
    reducers.back().reset(totals.back(), 1);
  }
  if (from_scratch) {
    add_from_scratch(reducers, totals);
  } else {
    ir.loop("stretch", ir.i64(0), length, kReduceStretch, [&](Value* begin) {
      const std::vector<Partial> results = stretch(body, reducers, begin);
      for (size_t r = 0; r < results.size(); ++r) reducers[r].add(totals[r], results[r], 1);
    });
  }
  for (size_t r = 0; r < reducers.size(); ++r) keep(reducers[r].row_value(), reducers[r].result(totals[r], 1));
}

void ColumnEmitter::add_from_scratch(std::vector<Reducer>& reducers, std::vector<TotalVar>& totals) {
  ir.if_then(valid, [&] {
    ir.loop("part", ir.i64(0), stretches(), 1, [&](Value* part) {
      for (size_t r = 0; r < reducers.size(); ++r)
        reducers[r].add(totals[r], device.load_partial(scratch_word(part, r, reducers.size()), reducers[r]), 1);
    });
  });
}

Value* ColumnEmitter::scratch_word(Value* stretch, size_t reduction, size_t count) {
  Value* place = ir.b.CreateAdd(ir.b.CreateMul(number, stretches()), stretch);
  place = ir.b.CreateAdd(ir.b.CreateMul(place, ir.i64(static_cast<int64_t>(count))), ir.i64(static_cast<int64_t>(reduction)));
  return ir.slot_i64(kernel.scratch, ir.b.CreateMul(place, ir.i64(kPartialWords)));
}

// One stretch's results, known to all threads of the column.
std::vector<Partial> ColumnEmitter::stretch(StageBody& body, std::vector<Reducer>& reducers, Value* begin) {
  std::vector<std::vector<PartialVar>> sums(reducers.size());
  for (size_t r = 0; r < reducers.size(); ++r)
    for (unsigned k = 0; k < kAccumulators; ++k) sums[r].push_back(partial_var(ir, reducers[r].identity(1, ir.b.getInt32Ty())));
  Value* end = ir.min(ir.b.CreateAdd(begin, ir.i64(kReduceStretch)), length);
  const auto take = [&](Value* position, unsigned k) {
    const Chunk chunk = at(body, position);
    for (size_t r = 0; r < reducers.size(); ++r)
      set(ir, sums[r][k], reducers[r].combine(get(ir, sums[r][k]), reducers[r].element(body, chunk, begin), 1));
    body.store();
  };
  const auto place = [&](Value* i, unsigned k) { return ir.b.CreateAdd(i, ir.b.CreateAdd(device.warp(), ir.i64(k * kColumnWarps))); };
  ir.if_then(valid, [&] {
    Value* main_end = ir.b.CreateAdd(begin, ir.b.CreateAnd(ir.b.CreateSub(end, begin), ir.i64(-int64_t{kReduceLanes})));
    ir.loop("main", begin, main_end, kReduceLanes, [&](Value* i) {
      for (unsigned k = 0; k < kAccumulators; ++k) take(place(i, k), k);
    });
    for (unsigned k = 0; k < kAccumulators; ++k) {
      Value* position = place(main_end, k);
      ir.if_then(ir.b.CreateICmpSLT(position, end), [&] { take(position, k); });
    }
  });
  std::vector<Partial> results;
  for (size_t r = 0; r < reducers.size(); ++r) {
    std::vector<Partial> mine;
    for (const PartialVar v : sums[r]) mine.push_back(get(ir, v));
    results.push_back(exchange(reducers[r], reducers[r].in_row(reducers[r].tree(mine, 1), begin)));
  }
  return results;
}

Value* ColumnEmitter::word(Value* warp, unsigned end) {
  Value* number = ir.b.CreateAdd(ir.b.CreateMul(ir.get(half), ir.i64(kColumnWarps)), warp);
  number = ir.b.CreateAdd(ir.b.CreateMul(number, ir.i64(kWarp)), device.lane());
  return device.shared_word(ir.b.CreateMul(number, ir.i64(kPartialWords)), end);
}

// Two halves of the block's memory in turn, as for rows: a late reader of one is past before it is written again.
Partial ColumnEmitter::exchange(Reducer& reducer, Partial mine) {
  constexpr unsigned kWords = 2 * kColumnWarps * kWarp * kPartialWords;
  device.store_partial(word(device.warp(), kWords), reducer, mine);
  device.barrier();
  std::vector<Partial> all;
  for (unsigned w = 0; w < kColumnWarps; ++w) all.push_back(device.load_partial(word(ir.i64(w), kWords), reducer));
  ir.set(half, ir.b.CreateXor(ir.get(half), ir.i64(1)));
  return reducer.tree(all, 1);
}

}  // namespace

void emit_device_column(DeviceKernel& device) { ColumnEmitter{device}.emit(); }

}  // namespace escapement
