// See row_reduction.h. A small body is emitted 32 / L times for the main loop, which keeps all accumulators in registers, and as often
// for the tail; a large one once each, with the accumulators in memory, where their latency hides behind the body.
#include "jit/llvm/row_reduction.h"

#include <algorithm>

namespace escapement {

RowReduction::RowReduction(KernelEmitter& kernel, StageBody& body, bool contiguous)
    : kernel_(kernel), ir_(kernel.ir), body_(body), lanes_(body.lanes()), contiguous_(contiguous),
      in_registers_(contiguous && body.size() < kRegistersBelow && body.stage().reductions.size() <= 2) {
  llvm::Type* i32 = ir_.b.getInt32Ty();
  for (const LoopReduction& r : body.stage().reductions) reducers_.emplace_back(kernel, body.stage(), r);
  for (Reducer& r : reducers_) {
    arrays_.emplace_back(kernel, r, kReduceLanes);
    totals_.push_back(r.total(1));
    registers_.emplace_back();
    for (unsigned v = 0; v < vectors(); ++v) registers_.back().push_back(partial_var(ir_, r.identity(lanes_, i32)));
  }
}

void RowReduction::reset() {
  for (size_t r = 0; r < reducers_.size(); ++r) reducers_[r].reset(totals_[r], 1);
}

void RowReduction::add(size_t reduction, Partial partial) {
  reducers_[reduction].add(totals_[reduction], partial, 1);
}

void RowReduction::write_results(std::vector<Value*>& row_values) {
  for (size_t r = 0; r < reducers_.size(); ++r)
    row_values[reducers_[r].row_value()] = reducers_[r].result(totals_[r], 1);
}

void RowReduction::add_all(Value* length) {
  add_stretches(length, [&](Value* begin, Value* end) { add_flat(begin, end); });
}

void RowReduction::add_listed(Value* length, Place place) {
  add_stretches(length, [&](Value* begin, Value* end) { accumulate(begin, end, begin, true, place); });
}

void RowReduction::add_runs(Value* length, EnterRun enter) {
  Var from = ir_.var(ir_.b.getInt64Ty(), "from");
  add_stretches(length, [&](Value* begin, Value* end) {
    ir_.set(from, begin);
    ir_.while_loop("run", [&] { return ir_.b.CreateICmpSLT(ir_.get(from), end); }, [&] {
      Value *at = ir_.get(from), *to = ir_.min(enter(at), end);
      add_run(at, to, begin);
      ir_.set(from, to);
    });
  });
}

void RowReduction::add_stretches(Value* length, llvm::function_ref<void(Value* begin, Value* end)> add_elements) {
  each_stretch(length, [&](Value* begin) {
    clear();
    add_elements(begin, ir_.min(ir_.b.CreateAdd(begin, ir_.i64(kReduceStretch)), length));
    std::vector<Partial> parts = folded(begin);
    // The first stretch is the total so far, with no error: that saves short rows a long chain of additions.
    Value* first = ir_.b.CreateICmpEQ(begin, ir_.i64(0));
    ir_.if_then(first, [&] {
      for (size_t r = 0; r < parts.size(); ++r) reducers_[r].begin(totals_[r], parts[r]);
    });
    ir_.if_then(ir_.b.CreateNot(first), [&] {
      for (size_t r = 0; r < parts.size(); ++r) add(r, parts[r]);
    });
  });
}

// Whether the end of a row may be of no importance: all of its elements are true until one is not.
bool RowReduction::may_settle() const {
  return body_.only_reduces() && std::all_of(reducers_.begin(), reducers_.end(), [](const Reducer& r) { return r.may_settle(); });
}

Value* RowReduction::is_settled() {
  Value* all = ir_.b.getTrue();
  for (size_t r = 0; r < reducers_.size(); ++r) all = ir_.b.CreateAnd(all, reducers_[r].is_settled(totals_[r]));
  return all;
}

void RowReduction::each_stretch(Value* length, llvm::function_ref<void(Value*)> add_stretch) {
  if (!may_settle()) return ir_.loop("stretch", ir_.i64(0), length, kReduceStretch, add_stretch);
  Var begin = ir_.var(ir_.i64(0), "begin");
  const auto goes_on = [&] { return ir_.b.CreateAnd(ir_.b.CreateICmpSLT(ir_.get(begin), length), ir_.b.CreateNot(is_settled())); };
  ir_.while_loop("stretch", goes_on, [&] {
    add_stretch(ir_.get(begin));
    ir_.set(begin, ir_.b.CreateAdd(ir_.get(begin), ir_.i64(kReduceStretch)));
  });
}

// --- one stretch

std::vector<Partial> RowReduction::stretch(Value* begin, Value* end) {
  clear();
  add_flat(begin, end);
  return folded(begin);
}

void RowReduction::clear() {
  llvm::Type* i32 = ir_.b.getInt32Ty();
  for (size_t r = 0; r < reducers_.size(); ++r)
    for (PartialVar v : registers_[r]) set(ir_, v, reducers_[r].identity(lanes_, i32));
  if (!in_registers_) registers_to_arrays();
}

std::vector<Partial> RowReduction::folded(Value* begin) {
  if (!in_registers_) arrays_to_registers();
  std::vector<Partial> results;
  for (size_t r = 0; r < reducers_.size(); ++r) {
    std::vector<Partial> accumulators;
    for (PartialVar v : registers_[r]) accumulators.push_back(get(ir_, v));
    results.push_back(reducers_[r].in_row(reducers_[r].tree(accumulators, lanes_), begin));
  }
  return results;
}

void RowReduction::add_flat(Value* begin, Value* end) {
  Value* length = ir_.b.CreateSub(end, begin);
  auto whole = [&](unsigned step) { return ir_.b.CreateAdd(begin, ir_.b.CreateAnd(length, ir_.i64(-int64_t{step}))); };
  Value* main_end = whole(in_registers_ ? kReduceLanes : lanes_);
  if (in_registers_) {
    main_in_registers(begin, main_end, begin);
    tail_in_registers(main_end, end, begin, 0);
  } else {
    accumulate(begin, main_end, begin, false, {});
    accumulate(main_end, end, begin, true, {});
  }
}

void RowReduction::main_in_registers(Value* begin, Value* end, Value* stretch_begin) {
  ir_.loop("main", begin, end, kReduceLanes, [&](Value* i) {
    for (unsigned v = 0; v < vectors(); ++v)
      add_to_register(v, full_chunk(ir_.b.CreateAdd(i, ir_.i64(v * lanes_)), lanes_), stretch_begin);
  });
}

void RowReduction::add_to_register(unsigned vector, const Chunk& chunk, Value* stretch_begin) {
  body_.begin(chunk);
  for (size_t r = 0; r < reducers_.size(); ++r) {
    PartialVar sum = registers_[r][vector];
    set(ir_, sum, reducers_[r].combine(get(ir_, sum), reducers_[r].element(body_, chunk, stretch_begin), lanes_));
  }
  body_.store();
}

// The vectors that have elements left, from the first on.
void RowReduction::tail_in_registers(Value* from, Value* to, Value* stretch_begin, unsigned vector) {
  if (vector == vectors()) return;
  ir_.if_then(ir_.b.CreateICmpSLT(from, to), [&] {
    add_to_register(vector, masked_chunk(ir_, from, to, lanes_), stretch_begin);
    tail_in_registers(ir_.b.CreateAdd(from, ir_.i64(lanes_)), to, stretch_begin, vector + 1);
  });
}

void RowReduction::add_to_arrays(const Chunk& chunk, Value* stretch_begin) {
  Value* slot = ir_.b.CreateAnd(ir_.b.CreateSub(chunk.position, stretch_begin), ir_.i64(kReduceLanes - 1));
  body_.begin(chunk);
  for (size_t r = 0; r < reducers_.size(); ++r) {
    Partial sum = reducers_[r].combine(arrays_[r].load(slot, lanes_), reducers_[r].element(body_, chunk, stretch_begin), lanes_);
    arrays_[r].store(slot, lanes_, sum);
  }
  body_.store();
}

void RowReduction::accumulate(Value* from, Value* to, Value* stretch_begin, bool masked, Place place) {
  ir_.loop(masked ? "tail" : "main", from, to, lanes_, [&](Value* i) {
    const Chunk chunk = masked ? masked_chunk(ir_, i, to, lanes_) : full_chunk(i, lanes_);
    if (place) place(chunk);
    add_to_arrays(chunk, stretch_begin);
  });
}

// Elements of a part of a stretch. Which lane an element is of depends on where it stands in the stretch, so a run begins and ends anywhere in what is taken at a
// time: the rest of that is masked, and a lane without an element is left as it is by the identity (a sum that began at +0 is never -0).
void RowReduction::add_run(Value* from, Value* to, Value* stretch_begin) {
  const int64_t step = in_registers_ ? kReduceLanes : lanes_;
  const auto floor = [&](Value* element) {
    return ir_.b.CreateAdd(stretch_begin, ir_.b.CreateAnd(ir_.b.CreateSub(element, stretch_begin), ir_.i64(-step)));
  };
  Var at = ir_.var(floor(from), "at");
  Value* whole_end = floor(to);
  ir_.while_loop("part", [&] { return ir_.b.CreateICmpSLT(ir_.get(at), to); }, [&] {
    Value* begin = ir_.get(at);
    Value* whole = ir_.b.CreateAnd(ir_.b.CreateICmpSGE(begin, from), ir_.b.CreateICmpSLT(begin, whole_end));
    ir_.if_else(whole, [&] {
      if (in_registers_) main_in_registers(begin, whole_end, stretch_begin);
      else accumulate(begin, whole_end, stretch_begin, false, {});
      ir_.set(at, whole_end);
    }, [&] {
      add_masked(begin, from, to, stretch_begin);
      ir_.set(at, ir_.b.CreateAdd(begin, ir_.i64(step)));
    });
  });
}

void RowReduction::add_masked(Value* begin, Value* from, Value* to, Value* stretch_begin) {
  if (!in_registers_) return add_to_arrays(masked_chunk(ir_, begin, from, to, lanes_), stretch_begin);
  for (unsigned v = 0; v < vectors(); ++v)
    add_to_register(v, masked_chunk(ir_, ir_.b.CreateAdd(begin, ir_.i64(v * lanes_)), from, to, lanes_), stretch_begin);
}

void RowReduction::registers_to_arrays() {
  for (size_t r = 0; r < reducers_.size(); ++r)
    for (unsigned v = 0; v < vectors(); ++v) arrays_[r].store(ir_.i64(v * lanes_), lanes_, get(ir_, registers_[r][v]));
}

void RowReduction::arrays_to_registers() {
  for (size_t r = 0; r < reducers_.size(); ++r)
    for (unsigned v = 0; v < vectors(); ++v) set(ir_, registers_[r][v], arrays_[r].load(ir_.i64(v * lanes_), lanes_));
}

}  // namespace escapement
