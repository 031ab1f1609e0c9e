// The row schedule: one iteration of the outer loop is one row; its stages run one after another over the row, with row values in
// registers between them. Short rows of several stages are taken in groups, each stage for all rows of a group before the next one: else a row
// would wait for its own reductions and for what is computed once per row, which is a chain of scalar operations (the logarithm of log_softmax).
//   fast     the reduced axes are one contiguous (or broadcast) axis
//   general  any strides and any number of reduced axes: before each chunk a small loop lists where its elements lie, unless what the
//            stage uses lies as the fast variant wants it, along the whole row or in runs (row_layout.h)
//   alone    a column nest of which there is one column: as fast, whatever its parameters are along the columns
//   partial  first stage only, some stretches of each row, results to scratch
//   finish   first stage's totals from scratch, then the other stages
//
// What a later stage would compute again (computed_again.h) is kept on the stack in between, for the first elements of a row: what fits the
// first-level cache beside the row. Of longer rows the rest is computed again.
#include <algorithm>

#include "jit/llvm/row_layout.h"
#include "jit/llvm/row_reduction.h"
#include "kernels/computed_again.h"

namespace escapement {

namespace {

constexpr int64_t kKeptBytes = 32 << 10;  // a multiple of what any loop takes at a time
constexpr int64_t kMostAtOnce = 256;      // bytes, of one chunk
constexpr int64_t kGroupRows = 16, kGroupElements = 2048;
constexpr size_t kGroupStages = 3;        // of fewer, there is little to wait for

struct RowEmitter {
  KernelEmitter& kernel;
  Ir& ir = kernel.ir;
  unsigned lanes = vector_lanes(kernel.nest, kernel.target);
  Value* length = nullptr;        // elements of a row
  Point row{}, element{};         // for each_row and each_element bodies
  Odometer* inside = nullptr;     // general: over the reduced axes, ...
  Odometer* runs = nullptr;       // ... and over those around the innermost one
  Var run_begin{};                // element of the row where the run begins at which that stands
  struct Layout {
    Value *flat = nullptr, *in_runs = nullptr;   // i1; null: the stage cannot be asked
  };
  std::vector<Layout> layouts{};  // general: of the stages
  std::vector<Value*> lists{};    // general: per param, byte offsets of a chunk's elements
  std::vector<Value*> indices{};  // general: per axis, indices of a chunk's elements (indexed reduced axes only)
  std::optional<ComputedAgain> again{};
  std::vector<Value*> waiting{};  // groups: per row value, those of the rows
  Access kept{};                  // where that is between its stages, ...
  Value* kept_end = nullptr;      // ... of elements up to here

  unsigned lanes_of(const Stage& reducing) const;
  bool general() const { return kernel.variant == Variant::general; }
  bool is_unit(unsigned param) const { return kernel.variant == Variant::alone || kernel.nest.params[param].inner == InnerStride::unit; }
  unsigned innermost() const { return axes(true).back(); }
  std::vector<unsigned> axes(bool reduced) const;
  void emit();
  void emit_rows(Odometer& outer);
  bool in_groups() const { return kernel.variant == Variant::fast && kernel.nest.stages.size() >= kGroupStages; }
  void emit_groups(Odometer& outer);
  void emit_group(Odometer& outer, Value* rows);
  Value* rows_of_group();
  Value* waiting_slot(uint32_t row_value, Value* number);
  void read_waiting(const Stage& stage, Value* number);
  void write_waiting(const Stage& stage, Value* number);
  void start_row(Odometer& outer);
  void allocate_lists();
  void allocate_kept();
  DType kept_type() const { return kernel.nest.stages[again->first].body.type(again->first_reg); }
  bool takes_kept(const Stage& stage) const { return again && &stage == &kernel.nest.stages[again->later]; }
  void list_elements(const Chunk& chunk);
  void ask_layouts();
  const Layout& layout(const Stage& stage) const { return layouts[static_cast<size_t>(&stage - kernel.nest.stages.data())]; }
  Point run(Value* begin);
  void go_to_run(Value* element);
  void emit_stage(const Stage& stage);
  void emit_row_stage(const Stage& stage);
  void emit_plain_stage(const Stage& stage);
  void emit_listed(const Stage& stage);
  void emit_runs(const Stage& stage);
  void emit_from_kept(const Stage& stage);
  void emit_reducing_stage(const Stage& stage);
  enum class Lies : uint8_t { flat, in_runs, listed };
  void reduce(const Stage& stage, Lies how, std::vector<Value*>& row_values);
  void reduce_elements(StageBody& body, RowReduction& reduction, Lies how);
  void write_partials(const Stage& stage, Value* row_number);
  void read_partials(const Stage& stage, Value* row_number);
  Value* scratch_slot(Value* row_number, Value* stretch, size_t reduction, size_t count);
  Value* stretch_count();
};

std::vector<unsigned> RowEmitter::axes(bool reduced) const {
  std::vector<unsigned> result;
  for (unsigned a = 0; a < kernel.axes(); ++a)
    if (kernel.nest.axes[a].reduced == reduced) result.push_back(a);
  return result;
}

void RowEmitter::emit() {
  ir.leave_if(ir.b.CreateICmpSGE(kernel.outer_begin, kernel.outer_end), [] {});
  length = ir.i64(1);
  for (unsigned a : axes(true)) length = ir.b.CreateMul(length, kernel.extent(a));
  std::vector<unsigned> around = axes(true);
  around.pop_back();
  Odometer outer(kernel, axes(false)), reduced(kernel, axes(true)), of_runs(kernel, around);
  inside = &reduced, runs = &of_runs;
  if (general()) {
    allocate_lists(), ask_layouts();
    run_begin = ir.var(ir.i64(0), "run_begin");
  }
  else if (kernel.variant != Variant::partial) allocate_kept();
  outer.start(kernel.outer_begin);
  if (in_groups()) emit_groups(outer);
  else emit_rows(outer);
}

void RowEmitter::emit_rows(Odometer& outer) {
  ir.loop("row", kernel.outer_begin, kernel.outer_end, 1, [&](Value* number) {
    start_row(outer);
    const std::vector<Stage>& stages = kernel.nest.stages;
    if (kernel.variant == Variant::partial) {
      write_partials(stages[0], number);
    } else {
      if (kernel.variant == Variant::finish) read_partials(stages[0], number);
      for (const Stage& stage : stages)
        if (kernel.variant != Variant::finish || &stage != &stages[0]) emit_stage(stage);
    }
    outer.advance();
  });
}

// --- groups

// As many as the first-level cache holds beside their results.
Value* RowEmitter::rows_of_group() {
  Value* some = ir.b.CreateSelect(ir.b.CreateICmpSGT(length, ir.i64(0)), length, ir.i64(1));
  Value* fitting = ir.min(ir.b.CreateUDiv(ir.i64(kGroupElements), some), ir.i64(kGroupRows));
  return ir.b.CreateSelect(ir.b.CreateICmpSGT(fitting, ir.i64(1)), fitting, ir.i64(1));
}

void RowEmitter::emit_groups(Odometer& outer) {
  for (DType type : kernel.nest.row_values) waiting.push_back(ir.array(ir.storage_type(type), kGroupRows, "waiting"));
  Value* most = rows_of_group();
  Var first = ir.var(kernel.outer_begin, "first");
  ir.while_loop("group", [&] { return ir.b.CreateICmpSLT(ir.get(first), kernel.outer_end); }, [&] {
    Value* rows = ir.min(most, ir.b.CreateSub(kernel.outer_end, ir.get(first)));
    emit_group(outer, rows);
    ir.set(first, ir.b.CreateAdd(ir.get(first), rows));
  });
}

void RowEmitter::emit_group(Odometer& outer, Value* rows) {
  Value* memory = kept.base;
  outer.remember();
  for (const Stage& stage : kernel.nest.stages) {
    outer.go_back();
    ir.loop("row", ir.i64(0), rows, 1, [&](Value* number) {
      start_row(outer);
      if (again) kept.base = ir.b.CreateGEP(ir.storage_type(kept_type()), memory, ir.b.CreateMul(number, length));
      read_waiting(stage, number);
      emit_stage(stage);
      write_waiting(stage, number);
      outer.advance();
    });
  }
  kept.base = memory;
}

Value* RowEmitter::waiting_slot(uint32_t row_value, Value* number) {
  return ir.b.CreateGEP(ir.storage_type(kernel.nest.row_values[row_value]), waiting[row_value], number);
}

void RowEmitter::read_waiting(const Stage& stage, Value* number) {
  for (const LoopInput& input : stage.inputs) {
    if (input.kind != LoopInput::Kind::row) continue;
    const DType type = kernel.nest.row_values[input.number];
    Value* stored = ir.b.CreateLoad(ir.storage_type(type), waiting_slot(input.number, number));
    row.row_values[input.number] = widen(ir, type, stored, 1);
  }
}

void RowEmitter::write_waiting(const Stage& stage, Value* number) {
  const auto write = [&](uint32_t row_value) {
    Value* stored = narrow(ir, kernel.nest.row_values[row_value], row.row_values[row_value], {1});
    ir.b.CreateStore(stored, waiting_slot(row_value, number));
  };
  for (const LoopReduction& reduction : stage.reductions) write(reduction.row_value);
  for (const RowKeep& keep : stage.keeps) write(keep.row_value);
}

// --- points

void RowEmitter::start_row(Odometer& outer) {
  row = element = Point{};
  for (unsigned p = 0; p < kernel.params(); ++p) {
    Value* base = ir.at(kernel.data(p), outer.offset(p));
    row.params.push_back({Access::Kind::zero, base, nullptr, nullptr});
    if (general()) element.params.push_back({Access::Kind::listed, base, nullptr, lists[p]});
    else element.params.push_back({is_unit(p) ? Access::Kind::unit : Access::Kind::zero, base, nullptr, nullptr});
  }
  for (unsigned a = 0; a < kernel.axes(); ++a) {
    bool reduced = kernel.nest.axes[a].reduced;
    IndexSource scalar{IndexSource::Kind::scalar, reduced ? ir.i64(0) : outer.index(a)};
    row.axes.push_back(scalar);
    if (!reduced) element.axes.push_back(scalar);
    else if (general()) element.axes.push_back({IndexSource::Kind::listed, indices[a]});
    else element.axes.push_back(a == innermost() ? IndexSource{IndexSource::Kind::lanes, nullptr} : scalar);  // extent 1
  }
  row.row_values.assign(kernel.nest.row_values.size(), nullptr);
}

// --- general: where the elements of a chunk lie

void RowEmitter::allocate_lists() {
  llvm::Type* i64 = ir.b.getInt64Ty();
  for (unsigned p = 0; p < kernel.params(); ++p) lists.push_back(ir.array(i64, lanes, "list"));
  for (unsigned a = 0; a < kernel.axes(); ++a) indices.push_back(kernel.nest.axes[a].indexed ? ir.array(i64, lanes, "indices") : nullptr);
}

void RowEmitter::allocate_kept() {
  again = computed_again(kernel.nest);
  if (again && kernel.variant == Variant::finish && again->first == 0) again.reset();   // that stage is run elsewhere
  if (!again) return;
  const DType type = kept_type();
  const int64_t elements = kKeptBytes / size_of(type), more = kMostAtOnce / size_of(type);
  kept = {Access::Kind::unit, ir.array(ir.storage_type(type), static_cast<unsigned>(elements + more), "kept"), nullptr, nullptr};
  kept_end = ir.i64(elements);
}

// Unused lanes repeat the last element: what they read is valid memory.
void RowEmitter::list_elements(const Chunk& chunk) {
  ir.loop("list", ir.i64(0), ir.i64(lanes), 1, [&](Value* i) {
    for (unsigned p = 0; p < kernel.params(); ++p) ir.b.CreateStore(inside->offset(p), ir.slot_i64(lists[p], i));
    for (unsigned a : inside->axes())
      if (indices[a]) ir.b.CreateStore(inside->index(a), ir.slot_i64(indices[a], i));
    Value* next = ir.b.CreateAdd(i, ir.i64(1));
    ir.if_then(ir.b.CreateICmpSLT(next, chunk.count), [&] { inside->advance(); });
  });
  inside->advance();
}

void RowEmitter::ask_layouts() {
  for (const Stage& stage : kernel.nest.stages) {
    const bool can = stage.kind == Stage::Kind::each_element && has_row_layout(kernel, stage);
    layouts.push_back(can ? Layout{lies_flat(kernel, stage), lies_in_runs(kernel, stage, lanes)} : Layout{});
  }
}

// Elements that lie as the fast variant wants them: a run, whose first one is `begin`.
Point RowEmitter::run(Value* begin) {
  Point point = element;
  for (unsigned p = 0; p < kernel.params(); ++p) {
    const bool unit = kernel.nest.params[p].inner == InnerStride::unit;
    Value* before = unit ? ir.b.CreateMul(begin, ir.i64(size_of(kernel.nest.params[p].dtype))) : ir.i64(0);
    Value* base = ir.at(row.params[p].base, ir.b.CreateSub(runs->offset(p), before));
    point.params[p] = {unit ? Access::Kind::unit : Access::Kind::zero, base, nullptr, nullptr};
  }
  return point;
}

void RowEmitter::go_to_run(Value* element) {
  Value* elements = kernel.extent(kernel.axes() - 1);
  const auto behind = [&] { return ir.b.CreateICmpSGE(element, ir.b.CreateAdd(ir.get(run_begin), elements)); };
  ir.while_loop("run", behind, [&] {
    runs->advance();
    ir.set(run_begin, ir.b.CreateAdd(ir.get(run_begin), elements));
  });
}

// --- stages

void RowEmitter::emit_stage(const Stage& stage) {
  if (stage.kind == Stage::Kind::each_row) return emit_row_stage(stage);
  return stage.reductions.empty() ? emit_plain_stage(stage) : emit_reducing_stage(stage);
}

void RowEmitter::emit_row_stage(const Stage& stage) {
  StageBody body(kernel, stage, 1);
  body.enter(row);
  body.begin(full_chunk(ir.i64(0), 1));
  body.store();
  for (const RowKeep& keep : stage.keeps) row.row_values[keep.row_value] = body.value(keep.value);
}

void RowEmitter::emit_plain_stage(const Stage& stage) {
  element.row_values = row.row_values;
  ir.if_then(ir.b.CreateICmpSGT(length, ir.i64(0)), [&] {
    if (takes_kept(stage)) return emit_from_kept(stage);
    if (general() && !layout(stage).flat) return emit_listed(stage);
    if (general()) return ir.if_else(ir.b.CreateOr(layout(stage).flat, layout(stage).in_runs), [&] { emit_runs(stage); }, [&] { emit_listed(stage); });
    StageBody body(kernel, stage, lanes);
    body.enter(element);
    emit_vector_loop(kernel, body, ir.i64(0), length);
  });
}

void RowEmitter::emit_listed(const Stage& stage) {
  StageBody body(kernel, stage, lanes);
  body.enter(element);
  inside->start_at_zero();
  ir.loop("chunk", ir.i64(0), length, lanes, [&](Value* i) {
    Chunk chunk = masked_chunk(ir, i, length, lanes);
    list_elements(chunk);
    body.begin(chunk);
    body.store();
  });
}

// What is flat is one run.
void RowEmitter::emit_runs(const Stage& stage) {
  Value* elements = ir.b.CreateSelect(layout(stage).flat, length, kernel.extent(kernel.axes() - 1));
  runs->start_at_zero();
  ir.loop("run", ir.i64(0), ir.b.CreateUDiv(length, elements), 1, [&](Value*) {
    StageBody body(kernel, stage, lanes);
    body.enter(run(ir.i64(0)));
    emit_vector_loop(kernel, body, ir.i64(0), elements);
    runs->advance();
  });
}

void RowEmitter::emit_from_kept(const Stage& stage) {
  StageBody taking(kernel, stage, lanes), computing(kernel, stage, lanes);
  taking.take(again->later_reg, kept);
  taking.enter(element);
  emit_vector_loop(kernel, taking, ir.i64(0), ir.min(length, kept_end));
  ir.if_then(ir.b.CreateICmpSGT(length, kept_end), [&] {
    computing.enter(element);
    emit_vector_loop(kernel, computing, kept_end, length);
  });
}

// Two registers for a body that keeps its accumulators in memory: half as many rounds, and more to overlap in each.
unsigned RowEmitter::lanes_of(const Stage& reducing) const {
  const bool large = StageBody(kernel, reducing, 1).size() >= RowReduction::kRegistersBelow;
  return large && !general() ? std::min(2 * lanes, kReduceLanes) : lanes;
}

void RowEmitter::emit_reducing_stage(const Stage& stage) {
  element.row_values = row.row_values;
  if (!general()) return reduce(stage, Lies::flat, row.row_values);
  if (!layout(stage).flat) return reduce(stage, Lies::listed, row.row_values);
  std::vector<Var> results;
  for (const LoopReduction& reduction : stage.reductions)
    results.push_back(ir.var(ir.registers(kernel.nest.row_values[reduction.row_value], 1), "result"));
  const auto keep = [&](Lies how) {
    std::vector<Value*> row_values = row.row_values;
    reduce(stage, how, row_values);
    for (size_t r = 0; r < results.size(); ++r) ir.set(results[r], row_values[stage.reductions[r].row_value]);
  };
  ir.if_else(layout(stage).flat, [&] { keep(Lies::flat); }, [&] {
    ir.if_else(layout(stage).in_runs, [&] { keep(Lies::in_runs); }, [&] { keep(Lies::listed); });
  });
  for (size_t r = 0; r < results.size(); ++r) row.row_values[stage.reductions[r].row_value] = ir.get(results[r]);
}

void RowEmitter::reduce(const Stage& stage, Lies how, std::vector<Value*>& row_values) {
  StageBody body(kernel, stage, lanes_of(stage));
  if (again && &stage == &kernel.nest.stages[again->first]) body.keep(again->first_reg, kept, kept_end);
  RowReduction reduction(kernel, body, how != Lies::listed);
  reduction.reset();
  ir.if_then(ir.b.CreateICmpSGT(length, ir.i64(0)), [&] { reduce_elements(body, reduction, how); });
  reduction.write_results(row_values);
}

void RowEmitter::reduce_elements(StageBody& body, RowReduction& reduction, Lies how) {
  if (general() && how != Lies::listed) runs->start_at_zero(), ir.set(run_begin, ir.i64(0));
  if (how == Lies::in_runs) {
    return reduction.add_runs(length, [&](Value* at) {
      go_to_run(at);
      body.enter(run(ir.get(run_begin)));
      return ir.b.CreateAdd(ir.get(run_begin), kernel.extent(kernel.axes() - 1));
    });
  }
  body.enter(general() && how == Lies::flat ? run(ir.i64(0)) : element);
  if (how == Lies::flat) return reduction.add_all(length);
  inside->start_at_zero();
  reduction.add_listed(length, [&](const Chunk& chunk) { list_elements(chunk); });
}

// --- split rows

Value* RowEmitter::stretch_count() {
  return ir.b.CreateSDiv(ir.b.CreateAdd(length, ir.i64(kReduceStretch - 1)), ir.i64(kReduceStretch));
}

Value* RowEmitter::scratch_slot(Value* row_number, Value* stretch, size_t reduction, size_t count) {
  Value* place = ir.b.CreateAdd(ir.b.CreateMul(row_number, stretch_count()), stretch);
  place = ir.b.CreateAdd(ir.b.CreateMul(place, ir.i64(static_cast<int64_t>(count))), ir.i64(static_cast<int64_t>(reduction)));
  return ir.slot_i64(kernel.scratch, ir.b.CreateMul(place, ir.i64(2)));
}

void RowEmitter::write_partials(const Stage& stage, Value* row_number) {
  StageBody body(kernel, stage, lanes);
  RowReduction reduction(kernel, body, true);
  element.row_values = row.row_values;
  ir.if_then(ir.b.CreateICmpSLT(kernel.inner_begin, kernel.inner_end), [&] {
    body.enter(element);
    ir.loop("part", kernel.inner_begin, kernel.inner_end, 1, [&](Value* number) {
      Value* begin = ir.b.CreateMul(number, ir.i64(kReduceStretch));
      Value* end = ir.min(ir.b.CreateAdd(begin, ir.i64(kReduceStretch)), length);
      std::vector<Partial> parts = reduction.stretch(begin, end);
      for (size_t r = 0; r < parts.size(); ++r) {
        Value* slot = scratch_slot(row_number, number, r, parts.size());
        ir.b.CreateStore(to_bits(ir, reduction.reducers()[r].type(), parts[r].value), slot);
        ir.b.CreateStore(parts[r].index ? parts[r].index : ir.i64(0), ir.slot_i64(slot, ir.i64(1)));
      }
    });
  });
}

void RowEmitter::read_partials(const Stage& stage, Value* row_number) {
  StageBody body(kernel, stage, lanes);
  RowReduction reduction(kernel, body, true);
  reduction.reset();
  ir.loop("part", ir.i64(0), kernel.inner_end, 1, [&](Value* number) {
    for (size_t r = 0; r < reduction.reducers().size(); ++r) {
      Reducer& reducer = reduction.reducers()[r];
      Value* slot = scratch_slot(row_number, number, r, reduction.reducers().size());
      Partial part{from_bits(ir, reducer.type(), ir.load_i64(slot, ir.i64(0))), nullptr};
      if (reducer.has_index()) part.index = ir.load_i64(slot, ir.i64(1));
      reduction.add(r, part);
    }
  });
  reduction.write_results(row.row_values);
}

}  // namespace

void emit_row(KernelEmitter& kernel) { RowEmitter{kernel}.emit(); }

// What a column reads at positions need not lie as its elements do. What is walked once, with a sum in registers, is fast as a column as well (column_lines.h).
bool has_alone(const LoopNest& nest) {
  if (nest.schedule != Schedule::column) return false;
  const auto walks = [](const Stage& stage) { return stage.kind == Stage::Kind::each_element; };
  const auto is_light = [&](const Stage& stage) { return !walks(stage) || (stage.reductions.size() == 1 && stage.stores.empty() && stage.body.nodes().size() < 4); };
  const bool once = std::count_if(nest.stages.begin(), nest.stages.end(), walks) == 1;
  if (once && std::all_of(nest.stages.begin(), nest.stages.end(), is_light)) return false;
  return std::none_of(nest.stages.begin(), nest.stages.end(), [](const Stage& stage) {
    return std::any_of(stage.inputs.begin(), stage.inputs.end(), [](const LoopInput& input) { return input.kind == LoopInput::Kind::gather; });
  });
}

}  // namespace escapement
