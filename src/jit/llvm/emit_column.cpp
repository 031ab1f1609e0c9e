// The column schedule: the vector runs along the last axis, which is parallel; for each chunk of it the reduced axes are
// walked from outside to inside. The 32 accumulators of the canonical order are vectors on the stack (a few KiB: L1). A
// chunk is two registers wide, so that a row of the operand is read a cache line at a time; four if the bodies are small, as
// each step of the walk has its price. What is left over is taken by one register where bodies are large: few columns may be all there are.
//
// What a later stage would compute again (computed_again.h) is kept on the stack, for the first elements of each column of a chunk.
//
// A small body that only reduces takes its elements in another order: those of a few accumulators, which stay in registers, from the first to
// the last of a stretch, then those of the next few. Accumulators that are G apart are taken together (G of them, 32 / G at a time), since
// these are what the tree combines first: it is done in registers but for the last steps. Such a body takes wider chunks where there are
// columns enough: memory that is walked across is reached sooner the more is taken of it at each place. Of a few elements none goes through
// memory. Few columns are walked as lines (column_lines.h).
//
// Where an index is kept the order of combining does not matter (reducer.cpp): a few accumulators stay in registers and take the elements in turn.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>

#include "jit/llvm/column_lines.h"
#include "jit/llvm/reducer.h"
#include "kernels/computed_again.h"

namespace escapement {

namespace {

constexpr unsigned kSmallBelow = 12;  // nodes of a body
constexpr unsigned kInRegistersBelow = 3;
constexpr unsigned kFewElements = 4;     // a power of two
constexpr unsigned kWideRegisters = 8;   // of 512 bits
constexpr unsigned kKeptBytes = 32 << 10;
constexpr unsigned kInTurn = 4;          // accumulators with an index, on 32 registers

struct ColumnEmitter {
  KernelEmitter& kernel;
  Ir& ir = kernel.ir;
  unsigned lanes = chunk_lanes();
  Value* length = nullptr;                // elements of a column
  Odometer *outer = nullptr, *inside = nullptr;
  std::vector<Value*> strides{};          // general: per param, along the vector axis
  std::vector<Value*> row_values{};
  std::vector<AccumulatorArray> arrays{};
  std::optional<ComputedAgain> again = computed_again(kernel.nest);
  Value* kept = nullptr;                  // what that is between its stages: an element's for all columns, then the next one's
  std::vector<Value*> steps{};            // per param: bytes from element to element, if there is one reduced axis; else ...
  std::vector<Value*> lists{};            // ... per param that is read in registers: where the elements of a stretch lie

  bool all_small() const;
  unsigned chunk_lanes() const;
  unsigned wide_lanes() const;
  Value* emit_columns(Value* begin, unsigned chunk);
  unsigned vector_axis() const { return kernel.axes() - 1; }
  std::vector<unsigned> axes(bool reduced) const;
  void emit();
  void emit_chunk(const Chunk& chunk);
  Point row_point();
  Point element_point();
  DType kept_type() const { return kernel.nest.stages[again->first].body.type(again->first_reg); }
  unsigned kept_elements() const { return kKeptBytes / (lanes * static_cast<unsigned>(size_of(kept_type()))); }
  Access kept_place(Value* element, const Chunk& chunk);
  Access access_of(unsigned param, Value* base);
  void emit_row_stage(const Stage& stage, const Chunk& chunk);
  void emit_plain_stage(const Stage& stage, const Chunk& chunk);
  void emit_elements(StageBody& body, const Chunk& chunk, Value* begin, Value* end);
  void emit_reducing_stage(const Stage& stage, const Chunk& chunk);
  void emit_stretches(StageBody& body, std::vector<Reducer>& reducers, std::vector<TotalVar>& totals, const Chunk& chunk, bool in_registers);
  void emit_few_elements(StageBody& body, Reducer& reducer, TotalVar total, const Chunk& chunk);
  Partial add_element(StageBody& body, Reducer& reducer, const Chunk& chunk, Value* element, Value* stretch_begin, Partial sum);
  static Partial tree(Reducer& reducer, std::vector<Partial> parts, unsigned lanes);
  void emit_stretch(StageBody& body, std::vector<Reducer>& reducers, const Chunk& chunk, Value* begin, Value* end);
  void emit_stretch_in_turn(StageBody& body, std::vector<Reducer>& reducers, const Chunk& chunk, Value* begin, Value* end);
  bool takes_in_turn(const Stage& stage, const std::vector<Reducer>& reducers) const;
  bool may_be_lines(const StageBody& body) const;
  bool is_plain(const StageBody& body) const;
  bool stays_in_registers(const StageBody& body) const;
  unsigned taken_together(const Chunk& chunk) const;
  void prepare_places(const Stage& stage);
  void list_places(Value* begin, Value* end);
  Point point_of(Value* element, Value* stretch_begin);
  void emit_stretch_in_registers(StageBody& body, Reducer& reducer, AccumulatorArray& array, const Chunk& chunk, Value* begin, Value* end);
  Value* first_step(Value* elements);
  void clear(Reducer& reducer, AccumulatorArray& array, Value* begin, Value* end);
  void emit_tree(Reducer& reducer, AccumulatorArray& array, Value* step);
};

bool ColumnEmitter::all_small() const {
  const auto is_small = [&](const Stage& stage) { return StageBody(kernel, stage, 1).size() < kSmallBelow; };
  return std::all_of(kernel.nest.stages.begin(), kernel.nest.stages.end(), is_small);
}

unsigned ColumnEmitter::chunk_lanes() const {
  bool small = kernel.variant != Variant::general && all_small();
  for (const Stage& stage : kernel.nest.stages)
    for (const LoopReduction& r : stage.reductions) small = small && !gives_position(r.op);
  return std::min((small ? 4 : 2) * vector_lanes(kernel.nest, kernel.target), 32u);
}

std::vector<unsigned> ColumnEmitter::axes(bool reduced) const {
  std::vector<unsigned> result;
  for (unsigned a = 0; a < vector_axis(); ++a)
    if (kernel.nest.axes[a].reduced == reduced) result.push_back(a);
  return result;
}

void ColumnEmitter::emit() {
  ir.leave_if(ir.b.CreateOr(ir.b.CreateICmpSGE(kernel.outer_begin, kernel.outer_end),
                            ir.b.CreateICmpSGE(kernel.inner_begin, kernel.inner_end)), [] {});
  length = ir.i64(1);
  for (unsigned a : axes(true)) length = ir.b.CreateMul(length, kernel.extent(a));
  for (unsigned p = 0; p < kernel.params(); ++p) strides.push_back(kernel.stride(p, vector_axis()));
  Odometer parallel(kernel, axes(false)), reduced(kernel, axes(true));
  if (again) kept = ir.array(ir.storage_type(kept_type()), (kept_elements() + 1) * lanes, "kept");
  outer = &parallel;
  inside = &reduced;
  parallel.start(kernel.outer_begin);
  const unsigned narrow = lanes, wide = wide_lanes();
  ir.loop("outer", kernel.outer_begin, kernel.outer_end, 1, [&](Value*) {
    Value* done = wide > narrow ? emit_columns(kernel.inner_begin, wide) : kernel.inner_begin;
    done = emit_columns(done, narrow);
    if (!all_small()) lanes = vector_lanes(kernel.nest, kernel.target);
    ir.loop("tail", done, kernel.inner_end, lanes, [&](Value* i) { emit_chunk(masked_chunk(ir, i, kernel.inner_end, lanes)); });
    parallel.advance();
  });
}

// From `begin` on, so many whole chunks as there are; where they end.
Value* ColumnEmitter::emit_columns(Value* begin, unsigned chunk) {
  lanes = chunk;
  Value* width = ir.b.CreateSub(kernel.inner_end, begin);
  Value* end = ir.b.CreateAdd(begin, ir.b.CreateAnd(width, ir.i64(-int64_t{lanes})));
  ir.loop("columns", begin, end, lanes, [&](Value* i) { emit_chunk(full_chunk(i, lanes)); });
  return end;
}

// Of a nest whose only walk stays in registers; else 0.
unsigned ColumnEmitter::wide_lanes() const {
  const auto stays = [&](const Stage& stage) { return !stage.reductions.empty() && stays_in_registers(StageBody(kernel, stage, 1)); };
  const bool all = std::any_of(kernel.nest.stages.begin(), kernel.nest.stages.end(), stays);
  return all && kernel.target.vector_bits >= 512 ? kWideRegisters * vector_lanes(kernel.nest, kernel.target) : 0;
}

void ColumnEmitter::emit_chunk(const Chunk& chunk) {
  row_values.assign(kernel.nest.row_values.size(), nullptr);
  for (const Stage& stage : kernel.nest.stages) {
    if (stage.kind == Stage::Kind::each_row) emit_row_stage(stage, chunk);
    else if (stage.reductions.empty()) emit_plain_stage(stage, chunk);
    else emit_reducing_stage(stage, chunk);
  }
}

// --- points

Access ColumnEmitter::access_of(unsigned param, Value* base) {
  if (kernel.variant == Variant::general) return {Access::Kind::strided, base, strides[param], nullptr};
  bool unit = kernel.nest.params[param].inner == InnerStride::unit;
  return {unit ? Access::Kind::unit : Access::Kind::zero, base, nullptr, nullptr};
}

Point ColumnEmitter::row_point() {
  Point point;
  for (unsigned p = 0; p < kernel.params(); ++p) point.params.push_back(access_of(p, ir.at(kernel.data(p), outer->offset(p))));
  for (unsigned a = 0; a < vector_axis(); ++a)
    point.axes.push_back({IndexSource::Kind::scalar, kernel.nest.axes[a].reduced ? ir.i64(0) : outer->index(a)});
  point.axes.push_back({IndexSource::Kind::lanes, nullptr});
  point.row_values = row_values;
  point.row_values_are_vectors = true;
  return point;
}

Point ColumnEmitter::element_point() {
  Point point = row_point();
  for (unsigned p = 0; p < kernel.params(); ++p) point.params[p].base = ir.at(point.params[p].base, inside->offset(p));
  for (unsigned a : inside->axes()) point.axes[a].value = inside->index(a);
  return point;
}

// --- stages

void ColumnEmitter::emit_row_stage(const Stage& stage, const Chunk& chunk) {
  StageBody body(kernel, stage, lanes);
  body.enter(row_point());
  body.begin(chunk);
  body.store();
  for (const RowKeep& keep : stage.keeps) row_values[keep.row_value] = body.value(keep.value);
}

// Those behind the last that is kept have one place more.
Access ColumnEmitter::kept_place(Value* element, const Chunk& chunk) {
  Value* place = ir.b.CreateSub(ir.b.CreateMul(ir.min(element, ir.i64(kept_elements())), ir.i64(lanes)), chunk.position);
  return {Access::Kind::unit, ir.at(kept, ir.b.CreateMul(place, ir.i64(size_of(kept_type())))), nullptr, nullptr};
}

void ColumnEmitter::emit_plain_stage(const Stage& stage, const Chunk& chunk) {
  StageBody body(kernel, stage, lanes);
  inside->start_at_zero();
  const bool takes = again && &stage == &kernel.nest.stages[again->later];
  Value* first = takes ? ir.min(length, ir.i64(kept_elements())) : ir.i64(0);
  if (takes) {
    StageBody taking(kernel, stage, lanes);
    taking.take(again->later_reg, {});
    emit_elements(taking, chunk, ir.i64(0), first);
  }
  emit_elements(body, chunk, first, length);
}

void ColumnEmitter::emit_elements(StageBody& body, const Chunk& chunk, Value* begin, Value* end) {
  ir.loop("element", begin, end, 1, [&](Value* element) {
    if (body.takes()) body.take(again->later_reg, kept_place(element, chunk));
    body.enter(element_point());
    body.begin(chunk);
    body.store();
    inside->advance();
  });
}

void ColumnEmitter::emit_reducing_stage(const Stage& stage, const Chunk& chunk) {
  StageBody body(kernel, stage, lanes);
  std::vector<Reducer> reducers;
  std::vector<TotalVar> totals;
  arrays.clear();
  for (const LoopReduction& r : stage.reductions) {
    reducers.emplace_back(kernel, stage, r);
    totals.push_back(reducers.back().total(lanes));
    arrays.emplace_back(kernel, reducers.back(), (kReduceLanes + 1) * lanes);
  }
  inside->start_at_zero();
  const bool in_registers = stays_in_registers(body);
  if (in_registers) prepare_places(stage);
  const auto across = [&] { emit_stretches(body, reducers, totals, chunk, in_registers); };
  const auto all = [&] {
    if (!chunk.mask || !may_be_lines(body)) return across();
    ColumnLines lines(kernel, stage, axes(true).back(), length, lanes);
    ir.if_else(lines.holds(), [&] {
      body.enter(row_point());
      lines.emit(body, reducers[0], arrays[0], totals[0]);
    }, across);
  };
  if (in_registers) {
    Value* is_short = ir.b.CreateICmpSLE(length, ir.i64(kFewElements));
    ir.if_else(is_short, [&] { emit_few_elements(body, reducers[0], totals[0], chunk); }, all);
  } else {
    all();
  }
  for (size_t r = 0; r < reducers.size(); ++r) row_values[reducers[r].row_value()] = reducers[r].result(totals[r], lanes);
}

void ColumnEmitter::emit_stretches(StageBody& body, std::vector<Reducer>& reducers, std::vector<TotalVar>& totals, const Chunk& chunk,
                                  bool in_registers) {
  ir.loop("stretch", ir.i64(0), length, kReduceStretch, [&](Value* begin) {
    Value* end = ir.min(ir.b.CreateAdd(begin, ir.i64(kReduceStretch)), length);
    if (in_registers) emit_stretch_in_registers(body, reducers[0], arrays[0], chunk, begin, end);
    else if (takes_in_turn(body.stage(), reducers)) emit_stretch_in_turn(body, reducers, chunk, begin, end);
    else emit_stretch(body, reducers, chunk, begin, end);
    for (size_t r = 0; r < reducers.size(); ++r) {
      Partial part = reducers[r].in_row(arrays[r].load(ir.i64(0), lanes), begin);
      reducers[r].add(totals[r], part, lanes);
    }
  });
}

bool ColumnEmitter::takes_in_turn(const Stage& stage, const std::vector<Reducer>& reducers) const {
  const bool keeps = again && &stage == &kernel.nest.stages[again->first];
  return !keeps && std::all_of(reducers.begin(), reducers.end(), [](const Reducer& r) { return r.has_index(); });
}

// Leaves each reduction's result in accumulator 0.
void ColumnEmitter::emit_stretch_in_turn(StageBody& body, std::vector<Reducer>& reducers, const Chunk& chunk, Value* begin, Value* end) {
  const bool alone = body.size() < kSmallBelow && reducers.size() == 1;
  const unsigned most = kernel.target.vector_bits >= 512 ? kInTurn : kInTurn / 2, together = !alone ? 1 : chunk.mask ? most / 2 : most;   // code has its price
  std::vector<std::vector<PartialVar>> found(reducers.size());
  for (size_t r = 0; r < reducers.size(); ++r)
    for (unsigned k = 0; k < together; ++k) {
      Partial none = reducers[r].identity(lanes, ir.b.getInt32Ty());
      none.index = ir.splat(ir.b.getInt32(k), lanes);   // of the first that it takes, which may be no better than nothing
      found[r].push_back(partial_var(ir, none));
    }
  const auto take = [&](Value* element, unsigned k) {
    body.enter(element_point());
    body.begin(chunk);
    Value* index = ir.b.CreateSub(element, begin);
    for (size_t r = 0; r < reducers.size(); ++r)
      set(ir, found[r][k], reducers[r].combine_later(get(ir, found[r][k]), reducers[r].element_of_column(body, lanes, index)));
    body.store();
    inside->advance();
  };
  Value* whole = ir.b.CreateAdd(begin, ir.b.CreateAnd(ir.b.CreateSub(end, begin), ir.i64(-int64_t{together})));
  ir.loop("turn", begin, whole, together, [&](Value* first) {
    for (unsigned k = 0; k < together; ++k) take(ir.b.CreateAdd(first, ir.i64(k)), k);
  });
  if (together > 1) ir.loop("element", whole, end, 1, [&](Value* element) { take(element, 0); });
  for (size_t r = 0; r < reducers.size(); ++r) {
    std::vector<Partial> parts;
    for (PartialVar var : found[r]) parts.push_back(get(ir, var));
    arrays[r].store(ir.i64(0), lanes, tree(reducers[r], parts, lanes));
  }
}

// Leaves each reduction's result in accumulator 0.
void ColumnEmitter::emit_stretch(StageBody& body, std::vector<Reducer>& reducers, const Chunk& chunk, Value* begin, Value* end) {
  Value* step = first_step(ir.b.CreateSub(end, begin));
  Value* used = ir.b.CreateAdd(ir.b.CreateShl(step, 1), ir.i64(1));  // at least as many as the tree reads
  for (size_t r = 0; r < reducers.size(); ++r) clear(reducers[r], arrays[r], ir.i64(0), ir.min(used, ir.i64(kReduceLanes)));
  const bool keeps = again && &body.stage() == &kernel.nest.stages[again->first];
  ir.loop("element", begin, end, 1, [&](Value* i) {
    if (keeps) body.keep(again->first_reg, kept_place(i, chunk));
    body.enter(element_point());
    body.begin(chunk);
    Value* index = ir.b.CreateSub(i, begin);
    Value* slot = ir.b.CreateMul(ir.b.CreateAnd(index, ir.i64(kReduceLanes - 1)), ir.i64(lanes));
    for (size_t r = 0; r < reducers.size(); ++r) {
      Partial sum = reducers[r].combine(arrays[r].load(slot, lanes), reducers[r].element_of_column(body, lanes, index), lanes);
      arrays[r].store(slot, lanes, sum);
    }
    body.store();
    inside->advance();
  });
  for (size_t r = 0; r < reducers.size(); ++r) emit_tree(reducers[r], arrays[r], step);
}

// --- in registers

bool ColumnEmitter::stays_in_registers(const StageBody& body) const {
  const Op op = body.stage().reductions[0].op;
  return is_plain(body) && !gives_position(op);
}

bool ColumnEmitter::may_be_lines(const StageBody& body) const { return is_plain(body) && ColumnLines::apply_to(kernel.nest, body.stage()); }

// One small reduction of what lies where the element does, and no other walk.
bool ColumnEmitter::is_plain(const StageBody& body) const {
  const Stage& stage = body.stage();
  const auto asks = [&](const LoopInput& input) {   // of more than the place of an element
    return input.kind == LoopInput::Kind::gather || (input.kind == LoopInput::Kind::index && kernel.nest.axes[input.number].reduced);
  };
  const auto walks = [](const Stage& other) { return other.kind == Stage::Kind::each_element; };
  const bool alone = std::count_if(kernel.nest.stages.begin(), kernel.nest.stages.end(), walks) == 1;   // else others take most of the time
  return alone && kernel.variant != Variant::general && body.size() < kInRegistersBelow && stage.reductions.size() == 1 && stage.stores.empty() &&
         std::none_of(stage.inputs.begin(), stage.inputs.end(), asks);
}

// As many accumulators as take half the registers; fewer in the tail, where the code costs more than it brings.
unsigned ColumnEmitter::taken_together(const Chunk& chunk) const {
  const unsigned registers = kernel.target.vector_bits >= 512 ? 16 : 8, each = std::max(lanes / vector_lanes(kernel.nest, kernel.target), 1u);
  return std::clamp(std::bit_floor(registers / each), 2u, chunk.mask ? 4u : 8u);
}

void ColumnEmitter::prepare_places(const Stage& stage) {
  const std::vector<unsigned> reduced = axes(true);
  steps.assign(kernel.params(), nullptr);
  lists.resize(kernel.params(), nullptr);
  for (const LoopInput& input : stage.inputs) {
    if (input.kind != LoopInput::Kind::load) continue;
    if (reduced.size() == 1) steps[input.number] = kernel.stride(input.number, reduced[0]);
    else if (!lists[input.number]) lists[input.number] = ir.array(ir.b.getInt64Ty(), kReduceStretch, "places");
  }
}

void ColumnEmitter::list_places(Value* begin, Value* end) {
  if (std::none_of(lists.begin(), lists.end(), [](Value* list) { return list != nullptr; })) return;
  ir.loop("list", ir.i64(0), ir.b.CreateSub(end, begin), 1, [&](Value* i) {
    for (unsigned p = 0; p < kernel.params(); ++p)
      if (lists[p]) ir.b.CreateStore(inside->offset(p), ir.slot_i64(lists[p], i));
    inside->advance();
  });
}

Point ColumnEmitter::point_of(Value* element, Value* stretch_begin) {
  Point point = row_point();
  for (unsigned p = 0; p < kernel.params(); ++p) {
    if (!steps[p] && !lists[p]) continue;
    Value* offset = steps[p] ? ir.b.CreateMul(element, steps[p]) : ir.load_i64(lists[p], ir.b.CreateSub(element, stretch_begin));
    point.params[p].base = ir.at(point.params[p].base, offset);
  }
  return point;
}

Partial ColumnEmitter::add_element(StageBody& body, Reducer& reducer, const Chunk& chunk, Value* element, Value* stretch_begin, Partial sum) {
  body.enter(point_of(element, stretch_begin));
  body.begin(chunk);
  return reducer.combine(sum, reducer.element_of_column(body, lanes, element), lanes);
}

Partial ColumnEmitter::tree(Reducer& reducer, std::vector<Partial> parts, unsigned lanes) {
  for (size_t half = parts.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) parts[i] = reducer.combine(parts[i], parts[i + half], lanes);
  return parts[0];
}

// Each is an accumulator of its own; what is not there is the identity, which changes nothing.
void ColumnEmitter::emit_few_elements(StageBody& body, Reducer& reducer, TotalVar total, const Chunk& chunk) {
  const Partial identity = reducer.identity(lanes, ir.b.getInt32Ty());
  list_places(ir.i64(0), length);
  std::vector<PartialVar> sums;
  for (unsigned k = 0; k < kFewElements; ++k) sums.push_back(partial_var(ir, identity));
  std::function<void(unsigned)> add = [&](unsigned k) {
    if (k == kFewElements) return;
    ir.if_then(ir.b.CreateICmpSGT(length, ir.i64(k)), [&] {
      set(ir, sums[k], add_element(body, reducer, chunk, ir.i64(k), ir.i64(0), identity));
      add(k + 1);
    });
  };
  add(0);
  std::vector<Partial> parts;
  for (PartialVar sum : sums) parts.push_back(get(ir, sum));
  reducer.begin(total, tree(reducer, parts, lanes));
}

// Leaves the result in accumulator 0.
void ColumnEmitter::emit_stretch_in_registers(StageBody& body, Reducer& reducer, AccumulatorArray& array, const Chunk& chunk, Value* begin,
                                              Value* end) {
  const unsigned together = taken_together(chunk), apart = kReduceLanes / together;
  list_places(begin, end);
  std::vector<PartialVar> sums;
  for (unsigned k = 0; k < together; ++k) sums.push_back(partial_var(ir, reducer.identity(lanes, ir.b.getInt32Ty())));
  std::function<void(Value*, unsigned)> add = [&](Value* element, unsigned k) {   // to sum k, and on to the others while there are elements
    set(ir, sums[k], add_element(body, reducer, chunk, element, begin, get(ir, sums[k])));
    if (k + 1 == together) return;
    Value* next = ir.b.CreateAdd(element, ir.i64(apart));
    ir.if_then(ir.b.CreateICmpSLT(next, end), [&] { add(next, k + 1); });
  };
  Value *used = ir.min(ir.b.CreateSub(end, begin), ir.i64(apart)), *step = first_step(used);
  ir.loop("accumulator", ir.i64(0), used, 1, [&](Value* first) {
    for (PartialVar sum : sums) set(ir, sum, reducer.identity(lanes, ir.b.getInt32Ty()));
    ir.loop("element", ir.b.CreateAdd(begin, first), end, kReduceLanes, [&](Value* element) { add(element, 0); });
    std::vector<Partial> parts;
    for (PartialVar sum : sums) parts.push_back(get(ir, sum));
    array.store(ir.b.CreateMul(first, ir.i64(lanes)), lanes, tree(reducer, parts, lanes));
  });
  clear(reducer, array, used, ir.b.CreateShl(step, 1));
  emit_tree(reducer, array, step);
}

// Where the tree starts: half the number of accumulators in use, rounded up to a power of two. Starting at 16 would combine
// with identities, which changes nothing.
Value* ColumnEmitter::first_step(Value* elements) {
  Value* highest = ir.b.CreateIntrinsic(llvm::Intrinsic::ctlz, {ir.b.getInt64Ty()}, {ir.b.CreateSub(elements, ir.i64(1)), ir.b.getFalse()});
  Value* step = ir.b.CreateLShr(ir.i64(INT64_MIN), highest);   // for one element highest is 64: not used
  return ir.b.CreateSelect(ir.b.CreateICmpSLE(elements, ir.i64(1)), ir.i64(0), ir.min(step, ir.i64(kReduceLanes / 2)));
}

void ColumnEmitter::clear(Reducer& reducer, AccumulatorArray& array, Value* begin, Value* end) {
  ir.loop("clear", begin, end, 1, [&](Value* i) {
    array.store(ir.b.CreateMul(i, ir.i64(lanes)), lanes, reducer.identity(lanes, ir.b.getInt32Ty()));
  });
}

void ColumnEmitter::emit_tree(Reducer& reducer, AccumulatorArray& array, Value* first_step) {
  Var step = ir.var(first_step, "step");
  ir.while_loop("tree", [&] { return ir.b.CreateICmpSGT(ir.get(step), ir.i64(0)); }, [&] {
    Value* distance = ir.get(step);
    ir.loop("level", ir.i64(0), distance, 1, [&](Value* i) {
      Value* low = ir.b.CreateMul(i, ir.i64(lanes));
      Value* high = ir.b.CreateMul(ir.b.CreateAdd(i, distance), ir.i64(lanes));
      array.store(low, lanes, reducer.combine(array.load(low, lanes), array.load(high, lanes), lanes));
    });
    ir.set(step, ir.b.CreateLShr(distance, 1));
  });
}

}  // namespace

void emit_column(KernelEmitter& kernel) { ColumnEmitter{kernel}.emit(); }

}  // namespace escapement
