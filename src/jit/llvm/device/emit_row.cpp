// Rows on a device. The canonical order's 32 lanes are the threads of a warp: element i of a stretch is taken by thread i % 32, so neighbours are
// read together; the halves 16, 8, 4, 2, 1 are shuffles.
//   warp      a warp takes a row: its stretches one after the other
//   block     a block takes a row: its warps take stretches in turn, one each a round; then each thread adds up the round's results in the stretches'
//             order, so that every thread has the row's result
//   partial   a warp takes one stretch of one row, for the first stage
//   finish    as block, but the first stage's stretches come from scratch
// Stages that reduce nothing are as fast maps: several elements of a thread at a time where they are aligned.
// Row values are known to every thread of the team. Stages that write what another thread may read or write wait for each other (Hazards).
#include <algorithm>

#include "jit/llvm/device/kernel.h"

namespace escapement {

namespace {

constexpr unsigned kSmallBelow = 24;       // nodes of a body: as many elements of a thread at once as are 16 bytes, all read before the first is used
constexpr unsigned kPartialWords = 2;      // a stretch's result in the block's memory: value, index

struct RowEmitter {
  DeviceKernel& device;
  KernelEmitter& kernel = device.kernel;
  Ir& ir = device.ir;
  const Team team = device.variant.team;
  const bool one_warp = team == Team::warp || team == Team::partial;   // is the team
  const bool fast = device.variant.fast;
  Value *rows = nullptr, *length = nullptr;   // points of the parallel axes; elements of a row
  Odometer outer{kernel, device.axes(false)}, inside{kernel, device.axes(true)};
  Point row{}, element{};                     // for each_row and each_element bodies
  Hazards hazards{device.nest};
  Var round = ir.var(ir.i64(0), "round");     // block: 0 or 1, the half of the block's memory that the next round uses

  void emit();
  void emit_partials();
  void start_row(Value* number);
  void emit_stage(const Stage& stage, bool from_scratch);
  void emit_row_stage(const Stage& stage);
  void emit_plain_stage(const Stage& stage);
  Value* emit_aligned_part(const Stage& stage, Value* first, Value* step);
  std::vector<Value*> bases_of(const Stage& stage);
  void wait();
  void wait_before(const Stage& stage);
  void enter(StageBody& body);
  Chunk at(StageBody& body, Value* position);
  std::vector<Partial> stretch(StageBody& body, std::vector<Reducer>& reducers, Value* begin);
  void take(StageBody& body, std::vector<Reducer>& reducers, std::vector<PartialVar>& sums, Value* position, Value* begin);
  void add_stretches_of_warp(StageBody& body, std::vector<Reducer>& reducers, std::vector<TotalVar>& totals);
  void add_stretches_of_block(StageBody& body, std::vector<Reducer>& reducers, std::vector<TotalVar>& totals);
  void add_from_scratch(std::vector<Reducer>& reducers, std::vector<TotalVar>& totals);
  void add_round(Reducer& reducer, TotalVar total, Value* count, PartialVar mine, Value* has_one);
  void reduce(const Stage& stage, bool from_scratch);
  Value* stretches() { return device.quotient_up(length, ir.i64(kReduceStretch)); }
  Value* scratch_word(Value* stretch, size_t reduction, size_t count);
  Value* row_number = nullptr;
};

// --- rows

void RowEmitter::emit() {
  rows = device.product(device.axes(false));
  length = device.product(device.axes(true));
  if (team == Team::partial) return emit_partials();
  Value *first = device.block(), *step = device.blocks();
  if (one_warp) {
    first = ir.b.CreateAdd(ir.b.CreateMul(first, device.warps()), device.warp());
    step = ir.b.CreateMul(step, device.warps());
  }
  device.stride_loop("row", first, rows, step, [&](Value* number) {
    start_row(number);
    for (const Stage& stage : device.nest.stages) emit_stage(stage, team == Team::finish && &stage == &device.nest.stages[0]);
    hazards.barrier();   // rows do not meet
  });
}

void RowEmitter::emit_partials() {
  Value* warp = ir.b.CreateAdd(ir.b.CreateMul(device.block(), device.warps()), device.warp());
  Value* count = stretches();
  device.stride_loop("part", warp, ir.b.CreateMul(rows, count), ir.b.CreateMul(device.blocks(), device.warps()), [&](Value* number) {
    start_row(ir.b.CreateUDiv(number, count));
    Value* part = ir.b.CreateURem(number, count);
    const Stage& stage = device.nest.stages[0];
    StageBody body(kernel, stage, 1);
    std::vector<Reducer> reducers;
    for (const LoopReduction& r : stage.reductions) reducers.emplace_back(kernel, stage, r);
    enter(body);
    const std::vector<Partial> results = stretch(body, reducers, ir.b.CreateMul(part, ir.i64(kReduceStretch)));
    ir.if_then(device.is_first_of(team), [&] {
      for (size_t r = 0; r < results.size(); ++r) device.store_partial(scratch_word(part, r, results.size()), reducers[r], results[r]);
    });
  });
}

void RowEmitter::start_row(Value* number) {
  row_number = number;
  start_at(device, outer, number, rows);
  row = element = Point{};
  for (unsigned p = 0; p < kernel.params(); ++p) {
    Value* base = ir.at(kernel.data(p), outer.offset(p));
    const bool unit = fast && device.nest.params[p].inner == InnerStride::unit;
    row.params.push_back({Access::Kind::zero, base});
    element.params.push_back({unit ? Access::Kind::unit : Access::Kind::zero, base});
  }
  for (unsigned a = 0; a < kernel.axes(); ++a) {
    const bool reduced = device.nest.axes[a].reduced;
    const IndexSource scalar{IndexSource::Kind::scalar, reduced ? ir.i64(0) : outer.index(a)};
    row.axes.push_back(scalar);
    element.axes.push_back(reduced && a + 1 == kernel.axes() ? IndexSource{IndexSource::Kind::lanes, nullptr} : scalar);
  }
  row.row_values.assign(device.nest.row_values.size(), nullptr);
}

// --- elements

void RowEmitter::enter(StageBody& body) {
  element.row_values = row.row_values;
  if (!fast) return;   // each element is a point of its own
  body.enter(element);
}

// The body at one element of the row.
Chunk RowEmitter::at(StageBody& body, Value* position) {
  const Chunk chunk = full_chunk(position, 1);
  if (!fast) {
    inside.start(position);
    Point point = element;
    for (unsigned p = 0; p < kernel.params(); ++p) point.params[p].base = ir.at(element.params[p].base, inside.offset(p));
    for (const unsigned a : inside.axes()) point.axes[a] = {IndexSource::Kind::scalar, inside.index(a)};
    body.enter(point);
  }
  body.begin(chunk);
  return chunk;
}

void RowEmitter::wait() {
  one_warp ? device.warp_barrier() : device.barrier();
  hazards.barrier();
}

void RowEmitter::wait_before(const Stage& stage) {
  if (hazards.needs_barrier(stage)) wait();
}

// --- stages

void RowEmitter::emit_stage(const Stage& stage, bool from_scratch) {
  wait_before(stage);
  if (stage.kind == Stage::Kind::each_row) emit_row_stage(stage);
  else if (stage.reductions.empty()) emit_plain_stage(stage);
  else reduce(stage, from_scratch);
  // What a block reads or writes beside a reduction comes before the barrier of its last round.
  if (stage.reductions.empty() || one_warp) hazards.passed(stage);
}

// Every thread computes it, so that every thread knows the row's values; one stores.
void RowEmitter::emit_row_stage(const Stage& stage) {
  StageBody body(kernel, stage, 1);
  body.enter(row);
  body.begin(full_chunk(ir.i64(0), 1));
  for (const RowKeep& keep : stage.keeps) row.row_values[keep.row_value] = body.value(keep.value);
  if (stage.stores.empty()) return;
  if (loads_memory(stage)) wait();
  ir.if_then(device.is_first_of(team), [&] { body.store(); });
}

void RowEmitter::emit_plain_stage(const Stage& stage) {
  StageBody body(kernel, stage, 1);
  Value* first = one_warp ? device.lane() : device.thread();
  Value* step = one_warp ? ir.i64(kWarp) : device.threads();
  ir.if_then(ir.b.CreateICmpSGT(length, ir.i64(0)), [&] {
    Value* begin = fast ? emit_aligned_part(stage, first, step) : ir.i64(0);
    enter(body);
    device.stride_loop("element", ir.b.CreateAdd(begin, first), length, step, [&](Value* position) {
      at(body, position);
      body.store();
    });
  });
}

// Up to 16 bytes an access where the row's elements lie at multiples of that, the same for all threads of the team; where it ends.
Value* RowEmitter::emit_aligned_part(const Stage& stage, Value* first, Value* step) {
  const unsigned together = device_vector(device.nest);
  Var end = ir.var(ir.i64(0), "aligned_end");
  if (together == 1) return ir.get(end);
  ir.if_then(all_aligned(device, bases_of(stage), together), [&] {
    ir.set(end, ir.b.CreateAnd(length, ir.i64(-int64_t{together})));
    StageBody body(kernel, stage, together);
    Point point = element;
    point.row_values = row.row_values;
    for (Access& access : point.params) access.aligned = true;
    ir.if_then(ir.b.CreateICmpSGT(ir.get(end), ir.i64(0)), [&] {
      body.enter(point);
      const auto times = [&](Value* count) { return ir.b.CreateMul(count, ir.i64(together)); };
      device.stride_loop("aligned", times(first), ir.get(end), times(step), [&](Value* position) {
        body.begin(full_chunk(position, together));
        body.store();
      });
    });
  });
  return ir.get(end);
}

// Of what the stage reads and writes; null for the other parameters.
std::vector<Value*> RowEmitter::bases_of(const Stage& stage) {
  std::vector<Value*> bases(kernel.params());
  const auto use = [&](uint32_t param) { bases[param] = element.params[param].base; };
  for (const LoopInput& input : stage.inputs)
    if (input.kind == LoopInput::Kind::load || input.kind == LoopInput::Kind::gather) use(input.number);
  for (const LoopStore& store : stage.stores) use(store.param);
  return bases;
}

// --- reductions

void RowEmitter::reduce(const Stage& stage, bool from_scratch) {
  StageBody body(kernel, stage, 1);
  std::vector<Reducer> reducers;
  std::vector<TotalVar> totals;
  for (const LoopReduction& r : stage.reductions) {
    reducers.emplace_back(kernel, stage, r);
    totals.push_back(reducers.back().total(1));
    reducers.back().reset(totals.back(), 1);
  }
  ir.if_then(ir.b.CreateICmpSGT(length, ir.i64(0)), [&] {
    if (from_scratch) return add_from_scratch(reducers, totals);
    enter(body);
    one_warp ? add_stretches_of_warp(body, reducers, totals) : add_stretches_of_block(body, reducers, totals);
  });
  for (size_t r = 0; r < reducers.size(); ++r) row.row_values[reducers[r].row_value()] = reducers[r].result(totals[r], 1);
}

void RowEmitter::add_stretches_of_warp(StageBody& body, std::vector<Reducer>& reducers, std::vector<TotalVar>& totals) {
  ir.loop("stretch", ir.i64(0), length, kReduceStretch, [&](Value* begin) {
    const std::vector<Partial> results = stretch(body, reducers, begin);
    for (size_t r = 0; r < reducers.size(); ++r) reducers[r].add(totals[r], results[r], 1);
  });
}

void RowEmitter::add_stretches_of_block(StageBody& body, std::vector<Reducer>& reducers, std::vector<TotalVar>& totals) {
  Value* count = stretches();
  device.stride_loop("round", ir.i64(0), count, device.warps(), [&](Value* first) {
    Value* number = ir.b.CreateAdd(first, device.warp());
    Value* has_one = ir.b.CreateICmpSLT(number, count);
    std::vector<PartialVar> mine;
    for (Reducer& reducer : reducers) mine.push_back(partial_var(ir, reducer.identity(1, ir.b.getInt64Ty())));
    ir.if_then(has_one, [&] {
      const std::vector<Partial> results = stretch(body, reducers, ir.b.CreateMul(number, ir.i64(kReduceStretch)));
      for (size_t r = 0; r < results.size(); ++r) set(ir, mine[r], results[r]);
    });
    Value* of_round = ir.min(device.warps(), ir.b.CreateSub(count, first));
    for (size_t r = 0; r < reducers.size(); ++r) add_round(reducers[r], totals[r], of_round, mine[r], has_one);
  });
}

// The results of a round's stretches, in their order. The half of the memory that was used last may still be read by a thread that is late; the other
// one is not, as that thread has passed the last barrier.
void RowEmitter::add_round(Reducer& reducer, TotalVar total, Value* count, PartialVar mine, Value* has_one) {
  const unsigned half = kPartialWords * kMostWarps;
  Value* start = ir.b.CreateMul(ir.get(round), ir.i64(half));
  const auto word = [&](Value* number) {
    return device.shared_word(ir.b.CreateAdd(start, ir.b.CreateMul(number, ir.i64(kPartialWords))), 2 * half);
  };
  Value* writes = ir.b.CreateAnd(has_one, ir.b.CreateICmpEQ(device.lane(), ir.i64(0)));
  ir.if_then(writes, [&] { device.store_partial(word(device.warp()), reducer, get(ir, mine)); });
  device.barrier();
  ir.loop("result", ir.i64(0), count, 1, [&](Value* number) { reducer.add(total, device.load_partial(word(number), reducer), 1); });
  ir.set(round, ir.b.CreateXor(ir.get(round), ir.i64(1)));
}

void RowEmitter::add_from_scratch(std::vector<Reducer>& reducers, std::vector<TotalVar>& totals) {
  ir.loop("part", ir.i64(0), stretches(), 1, [&](Value* number) {
    for (size_t r = 0; r < reducers.size(); ++r)
      reducers[r].add(totals[r], device.load_partial(scratch_word(number, r, reducers.size()), reducers[r]), 1);
  });
}

Value* RowEmitter::scratch_word(Value* stretch, size_t reduction, size_t count) {
  Value* place = ir.b.CreateAdd(ir.b.CreateMul(row_number, stretches()), stretch);
  place = ir.b.CreateAdd(ir.b.CreateMul(place, ir.i64(static_cast<int64_t>(count))), ir.i64(static_cast<int64_t>(reduction)));
  return ir.slot_i64(kernel.scratch, ir.b.CreateMul(place, ir.i64(kPartialWords)));
}

// --- one stretch: all threads of a warp

std::vector<Partial> RowEmitter::stretch(StageBody& body, std::vector<Reducer>& reducers, Value* begin) {
  std::vector<PartialVar> sums;
  for (Reducer& reducer : reducers) sums.push_back(partial_var(ir, reducer.identity(1, ir.b.getInt32Ty())));
  Value* end = ir.min(ir.b.CreateAdd(begin, ir.i64(kReduceStretch)), length);
  const unsigned together = fast && body.size() < kSmallBelow ? device_vector(device.nest) : 1, step = together * kWarp;
  Value* main_end = ir.b.CreateAdd(begin, ir.b.CreateAnd(ir.b.CreateSub(end, begin), ir.i64(-int64_t{step})));
  ir.loop("main", begin, main_end, step, [&](Value* i) {
    for (unsigned k = 0; k < together; ++k) take(body, reducers, sums, ir.b.CreateAdd(i, ir.b.CreateAdd(device.lane(), ir.i64(k * kWarp))), begin);
  });
  device.stride_loop("tail", ir.b.CreateAdd(main_end, device.lane()), end, ir.i64(kWarp),
                     [&](Value* position) { take(body, reducers, sums, position, begin); });
  std::vector<Partial> results;
  for (size_t r = 0; r < reducers.size(); ++r) results.push_back(combine_warp(device, reducers[r], get(ir, sums[r]), begin));
  return results;
}

void RowEmitter::take(StageBody& body, std::vector<Reducer>& reducers, std::vector<PartialVar>& sums, Value* position, Value* begin) {
  const Chunk chunk = at(body, position);
  for (size_t r = 0; r < reducers.size(); ++r) set(ir, sums[r], reducers[r].combine(get(ir, sums[r]), reducers[r].element(body, chunk, begin), 1));
  body.store();
}

}  // namespace

void emit_device_row(DeviceKernel& device) { RowEmitter{device}.emit(); }

}  // namespace escapement
