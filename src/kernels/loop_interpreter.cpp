// Runs a nest: points of the parallel axes, then stages, then points of the reduced axes. No vectors, no merging, no cleverness.
#include "kernels/loop_interpreter.h"

#include <algorithm>
#include <cstring>

#include "support/error.h"
#include "trace/reduce_order.h"

namespace escapement {
namespace {

class Interpreter {
 public:
  Interpreter(const LoopNest& nest, const KernelArgs& args) : nest_(nest), args_(args), index_(nest.axes.size(), 0), rows_(nest.row_values.size(), 0) {
    for (size_t a = 0; a < nest.axes.size(); ++a) (nest.axes[a].reduced ? reduced_ : parallel_).push_back(a);
    for (size_t a : reduced_) row_length_ *= args.extents[a];
  }

  void run_whole(int64_t outer_begin, int64_t outer_end, int64_t inner_begin, int64_t inner_end) {
    for_each_point(outer_begin, outer_end, inner_begin, inner_end, [&] {
      for (const Stage& stage : nest_.stages) run_stage(stage);
    });
  }

  void run_partial(int64_t row_begin, int64_t row_end, int64_t stretch_begin, int64_t stretch_end) {
    const Stage& stage = nest_.stages.front();
    for (int64_t row = row_begin; row < row_end; ++row) {
      set_point(parallel_, row);
      for (int64_t stretch = stretch_begin; stretch < stretch_end; ++stretch) run_stretch(stage, row, stretch);
    }
  }

  void run_finish(int64_t row_begin, int64_t row_end, int64_t stretches) {
    for (int64_t row = row_begin; row < row_end; ++row) {
      set_point(parallel_, row);
      combine_stretches(nest_.stages.front(), row, stretches);
      for (size_t s = 1; s < nest_.stages.size(); ++s) run_stage(nest_.stages[s]);
    }
  }

 private:
  // --- points
  template <class F>
  void for_each_point(int64_t outer_begin, int64_t outer_end, int64_t inner_begin, int64_t inner_end, F&& f) {
    std::vector<size_t> outer = parallel_;
    if (nest_.schedule == Schedule::row) {  // a row has no vector axis among its parallel axes
      inner_begin = 0;
      inner_end = 1;
    } else {
      outer.pop_back();
    }
    for (int64_t o = outer_begin; o < outer_end; ++o) {
      set_point(outer, o);
      for (int64_t i = inner_begin; i < inner_end; ++i) {
        if (nest_.schedule != Schedule::row) index_[parallel_.back()] = i;
        f();
      }
    }
  }

  void set_point(const std::vector<size_t>& axes, int64_t flat) {  // row-major
    for (size_t i = axes.size(); i-- > 0;) {
      const int64_t extent = args_.extents[axes[i]];
      index_[axes[i]] = flat % extent;
      flat /= extent;
    }
  }

  // --- stages
  void run_stage(const Stage& stage) {
    if (stage.kind == Stage::Kind::each_row) {
      for (size_t a : reduced_) index_[a] = 0;  // strides of reduced axes do not count
      run_body(stage);
      for (const RowKeep& k : stage.keeps) rows_[k.row_value] = registers_[k.value];
      return;
    }
    std::vector<Reduction> totals = fresh_reductions(stage);
    for (int64_t r = 0; r < row_length_; ++r) run_element(stage, r, totals);
    finish_reductions(stage, totals);
  }

  void run_element(const Stage& stage, int64_t r, std::vector<Reduction>& totals) {
    set_point(reduced_, r);
    run_body(stage);
    for (size_t i = 0; i < totals.size(); ++i) totals[i].add(registers_[stage.reductions[i].value], r);
  }

  std::vector<Reduction> fresh_reductions(const Stage& stage) const {
    std::vector<Reduction> totals;
    for (const LoopReduction& r : stage.reductions) totals.emplace_back(r.op, stage.body.type(r.value));
    return totals;
  }

  void finish_reductions(const Stage& stage, std::vector<Reduction>& totals) {
    for (size_t i = 0; i < totals.size(); ++i) rows_[stage.reductions[i].row_value] = totals[i].result();
  }

  // --- one element: nodes in order; an input is fetched where it stands, since a gather needs a register
  void run_body(const Stage& stage) {
    const auto nodes = stage.body.nodes();
    registers_.resize(nodes.size());
    halves_.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      const ScalarNode& n = nodes[i];
      if (n.op == ScalarOp::input) {
        registers_[i] = fetch(stage.inputs[n.bits], halves_[i]);
      } else if (n.op == ScalarOp::param) {
        registers_[i] = args_.scalars[n.bits];
      } else {
        registers_[i] = evaluate(n, registers_[n.a], registers_[n.b], registers_[n.c]);
      }
    }
    for (const LoopStore& s : stage.stores) store(s, stage);
  }

  // What is only moved keeps its bits, those of a NaN, too.
  void store(const LoopStore& s, const Stage& stage) {
    const auto nodes = stage.body.nodes();
    const DType type = nest_.params[s.param].dtype;
    Reg from = s.value;
    while (nodes[from].op == ScalarOp::select) from = (registers_[nodes[from].a] & 1) != 0 ? nodes[from].b : nodes[from].c;
    char* const place = address(s.param, stage.kind);
    if (is_half(type) && nodes[from].op == ScalarOp::input && is_loaded(stage.inputs[nodes[from].bits], type)) std::memcpy(place, &halves_[from], 2);
    else store_bits(place, type, registers_[s.value]);
  }

  bool is_loaded(const LoopInput& input, DType type) const {
    const bool memory = input.kind != LoopInput::Kind::index && input.kind != LoopInput::Kind::row;
    return memory && nest_.params[input.number].dtype == type;
  }

  uint64_t fetch(const LoopInput& input, uint16_t& half) {
    if (input.kind == LoopInput::Kind::index) return static_cast<uint64_t>(index_[input.number]);
    if (input.kind == LoopInput::Kind::row) return rows_[input.number];
    const DType type = nest_.params[input.number].dtype;
    const char* const place = input.kind == LoopInput::Kind::gather ? gathered(input) : address(input.number);
    if (place == nullptr) return half = 0;
    if (is_half(type)) std::memcpy(&half, place, 2);
    return load_bits(place, type);
  }

  const char* gathered(const LoopInput& input) {
    auto position = static_cast<int64_t>(registers_[input.position]);
    const auto bound = static_cast<int64_t>(args_.scalars[input.bound]);
    if (input.wrap && position < 0) position += bound;
    if (position < 0 || position >= bound) {
      *args_.failure = 1 + static_cast<int64_t>(input.number);
      position = 0;
    }
    if (bound <= 0) return nullptr;  // there is no position 0 either
    const size_t axes = nest_.axes.size();
    return address(input.number) + position * args_.strides[input.number * (axes + 1) + axes];
  }

  char* address(uint32_t param, Stage::Kind kind = Stage::Kind::each_element) const {
    const size_t axes = nest_.axes.size();
    int64_t offset = 0;
    for (size_t a = 0; a < axes; ++a) {
      const bool counts = kind == Stage::Kind::each_element || !nest_.axes[a].reduced;
      if (counts) offset += index_[a] * args_.strides[param * (axes + 1) + a];
    }
    return static_cast<char*>(args_.data[param]) + offset;
  }

  // --- split rows. Scratch: [row][stretch of the row][reduction][value, index]
  uint64_t* slot(int64_t row, int64_t stretch, size_t reduction, size_t reductions) const {
    const int64_t stretches = (row_length_ + kReduceStretch - 1) / kReduceStretch;
    const int64_t place = (row * stretches + stretch) * static_cast<int64_t>(reductions) + static_cast<int64_t>(reduction);
    return static_cast<uint64_t*>(args_.scratch) + 2 * place;
  }

  void run_stretch(const Stage& stage, int64_t row, int64_t stretch) {
    std::vector<Reduction> totals = fresh_reductions(stage);
    const int64_t end = std::min((stretch + 1) * kReduceStretch, row_length_);
    for (int64_t r = stretch * kReduceStretch; r < end; ++r) run_element(stage, r, totals);
    for (size_t i = 0; i < totals.size(); ++i) totals[i].save(slot(row, stretch, i, totals.size()));
  }

  void combine_stretches(const Stage& stage, int64_t row, int64_t stretches) {
    std::vector<Reduction> totals = fresh_reductions(stage);
    for (int64_t stretch = 0; stretch < stretches; ++stretch) {
      for (size_t i = 0; i < totals.size(); ++i) totals[i].add_stretch(slot(row, stretch, i, totals.size()));
    }
    finish_reductions(stage, totals);
  }

  const LoopNest& nest_;
  const KernelArgs& args_;
  std::vector<size_t> parallel_, reduced_;
  int64_t row_length_ = 1;
  std::vector<int64_t> index_;
  std::vector<uint64_t> rows_, registers_;
  std::vector<uint16_t> halves_;   // as they lie in memory, of the registers that were loaded
};

}  // namespace

void interpret(const LoopNest& nest, NestPart part, const KernelArgs& args, int64_t outer_begin, int64_t outer_end,
               int64_t inner_begin, int64_t inner_end) {
  Interpreter run(nest, args);
  switch (part) {
    case NestPart::whole: return run.run_whole(outer_begin, outer_end, inner_begin, inner_end);
    case NestPart::partial: return run.run_partial(outer_begin, outer_end, inner_begin, inner_end);
    case NestPart::finish: return run.run_finish(outer_begin, outer_end, inner_end);
  }
}

bool has_parts(const LoopNest& nest) {
  if (nest.schedule != Schedule::row || nest.stages.empty()) return false;
  const Stage& first = nest.stages.front();
  return first.kind == Stage::Kind::each_element && !first.reductions.empty();
}

}  // namespace escapement
