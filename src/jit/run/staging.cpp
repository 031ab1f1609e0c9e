// See staging.h.
#include "jit/run/staging.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "jit/run/arena.h"
#include "jit/run/launch.h"
#include "trace/reduce_order.h"

namespace escapement {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kFewColumns = 32;
constexpr int64_t kLongRun = 2 * kReduceStretch;
constexpr int64_t kKeptBytes = 1 << 20;           // of memory that a thread keeps for its next launch

int64_t round_to_line(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// Rows a multiple of a page apart would share a few places of the cache.
int64_t apart(int64_t bytes) {
  const int64_t whole = round_to_line(bytes);
  return whole % 1024 == 0 ? whole + kLine : whole;
}

int64_t points_of(const std::vector<CopyAxis>& axes) {
  return std::accumulate(axes.begin(), axes.end(), int64_t{1}, [](int64_t points, const CopyAxis& axis) { return points * axis.extent; });
}

class Planner {
 public:
  Planner(const LaunchRecipe& recipe, Launch& launch, const StagingLimits& limits)
      : recipe_(recipe), launch_(launch), limits_(limits), nest_(recipe.code->nest()), geometry_(launch.geometry), columns_(nest_.axes.size() + 1) {}

  void plan() {
    if (!recipe_.may_block || std::find(geometry_.extents.begin(), geometry_.extents.end(), 0) != geometry_.extents.end()) return;
    if (nest_.schedule == Schedule::map || !find_operands()) return;
    if (is_row()) bring_adjacent_rows_inwards();
    else take_adjacent_columns();
    describe();
    if (!choose_pieces()) return;
    lay_out();
    merge_axes(nest_, geometry_);
    const bool fast = is_fast(nest_, geometry_);
    if (!(fast || is_in_long_runs(nest_, geometry_)) || !have_merged()) return;
    launch_.geometry = std::move(geometry_);
    launch_.variant = fast ? Variant::fast : Variant::general;
    launch_.staging = std::move(staging_);
  }

 private:
  bool is_row() const { return nest_.schedule == Schedule::row; }
  size_t vector_axis() const { return nest_.axes.size() - 1; }
  int64_t& stride(size_t param, size_t axis) { return geometry_.strides[param * columns_ + axis]; }
  bool is_point(size_t axis) const { return is_row() ? !nest_.axes[axis].reduced : axis >= first_column_axis_ && !nest_.axes[axis].reduced; }

  // Whether the fast variant may have the parameter as it lies.
  bool lies_well(size_t p) {
    int64_t expected = nest_.params[p].inner == InnerStride::unit ? size_of(nest_.params[p].dtype) : 0;
    if (!is_row()) return stride(p, vector_axis()) == expected;
    for (size_t axis = nest_.axes.size(); axis-- > 0 && nest_.axes[axis].reduced;) {
      if (geometry_.extents[axis] == 1) continue;
      if (stride(p, axis) != expected) return false;
      expected *= geometry_.extents[axis];
    }
    return true;
  }

  // A row's that is the same all along the innermost axis and changes along another: the general variant takes vectors of the others then.
  bool repeats_in_runs(size_t p) {
    const bool repeats = is_row() && nest_.params[p].inner == InnerStride::zero && stride(p, vector_axis()) == 0;
    in_runs_ |= repeats;
    return repeats;
  }

  bool find_operands() {
    for (size_t p = 0; p < nest_.params.size(); ++p) {
      if (lies_well(p) || repeats_in_runs(p)) continue;
      const OperandUse& use = recipe_.uses[p];
      const bool rows = is_row() && use.in_rows;
      if (use.gathered || rows || nest_.params[p].inner == InnerStride::zero) return false;
      Staging::Operand operand;
      operand.param = static_cast<uint32_t>(p);
      operand.element = size_of(nest_.params[p].dtype);
      operand.read = use.read;
      operand.written = use.written;
      staging_.operands.push_back(std::move(operand));
    }
    return true;
  }

  // The order of the rows is free: neighbours in memory are copied together.
  void bring_adjacent_rows_inwards() {
    const auto first_reduced = std::find_if(nest_.axes.begin(), nest_.axes.end(), [](const LoopAxis& axis) { return axis.reduced; });
    const size_t rows = static_cast<size_t>(first_reduced - nest_.axes.begin());
    if (std::any_of(nest_.axes.begin(), first_reduced, [](const LoopAxis& axis) { return axis.indexed; })) return;
    for (const Staging::Operand& operand : staging_.operands) {
      for (size_t axis = 0; axis < rows; ++axis) {
        if (geometry_.extents[axis] == 1 || stride(operand.param, axis) != operand.element) continue;
        const auto rotate = [&](auto begin) { std::rotate(begin + static_cast<std::ptrdiff_t>(axis), begin + static_cast<std::ptrdiff_t>(axis) + 1, begin + static_cast<std::ptrdiff_t>(rows)); };
        rotate(geometry_.extents.begin());
        for (size_t p = 0; p < nest_.params.size(); ++p) rotate(geometry_.strides.begin() + static_cast<std::ptrdiff_t>(p * columns_));
        return;
      }
    }
  }

  // Few columns, which go on in the next point of the axis around them: those of that axis are more of the same, if what is copied lies so in the copy.
  void take_adjacent_columns() {
    first_column_axis_ = vector_axis();
    int64_t width = geometry_.extents[vector_axis()];
    if (width == 1 || nest_.axes[vector_axis()].indexed) return;
    for (size_t axis = vector_axis(); axis-- > 0 && width < kFewColumns;) {
      if (nest_.axes[axis].reduced || geometry_.extents[axis] == 1) continue;
      if (nest_.axes[axis].indexed || !goes_on(axis, width)) return;
      first_column_axis_ = axis;
      width *= geometry_.extents[axis];
    }
  }

  bool goes_on(size_t axis, int64_t width) {
    std::vector<bool> copied(nest_.params.size());
    for (const Staging::Operand& operand : staging_.operands) copied[operand.param] = true;
    for (size_t p = 0; p < nest_.params.size(); ++p) {
      if (!copied[p] && stride(p, axis) != stride(p, vector_axis()) * width) return false;
    }
    return true;
  }

  // All columns are one axis now: pieces are ranges of that.
  bool have_merged() const {
    for (size_t axis = 0; axis < vector_axis(); ++axis) {
      if (!is_row() && is_point(axis) && geometry_.extents[axis] != 1) return false;
    }
    return true;
  }

  // A column's one value (its result) or what all its elements share: the copy has one, too.
  bool repeats_in_column(const Staging::Operand& operand, size_t axis) {
    return !is_row() && nest_.axes[axis].reduced && stride(operand.param, axis) == 0;
  }

  // An axis inside the others; with the one around it one axis, if memory steps through both alike.
  static void append(std::vector<CopyAxis>& axes, CopyAxis inner) {
    if (axes.empty() || axes.back().from != inner.from * inner.extent) return axes.push_back(inner);
    axes.back() = {axes.back().extent * inner.extent, 0, inner.from};
  }

  void describe() {
    for (Staging::Operand& operand : staging_.operands) {
      for (size_t axis = 0; axis < nest_.axes.size(); ++axis) {
        const CopyAxis copied{geometry_.extents[axis], 0, stride(operand.param, axis)};
        if (copied.extent == 1 || repeats_in_column(operand, axis)) continue;
        append(is_point(axis) ? operand.points : nest_.axes[axis].reduced ? operand.each : operand.outer, copied);
      }
      const auto repeats = [](const CopyAxis& axis) { return axis.from == 0; };
      operand.shared = is_row() && std::all_of(operand.points.begin(), operand.points.end(), repeats);
    }
  }

  // --- how much at a time

  bool choose_pieces() {
    for (const Staging::Operand& operand : staging_.operands) {
      if (operand.shared && operand.written) return false;
    }
    if (!is_row()) return choose_columns();
    return (suits_stretches() && choose_stretches()) || choose_rows() || choose_stretches();
  }

  bool choose_columns() {
    int64_t bytes = 0;
    for (const Staging::Operand& operand : staging_.operands) bytes += points_of(operand.each) * operand.element;
    const int64_t wanted = std::max<int64_t>(limits_.piece / bytes / 32 * 32, 32);
    int64_t columns = 1;
    for (size_t axis = 0; axis < nest_.axes.size(); ++axis) columns *= is_point(axis) ? geometry_.extents[axis] : 1;
    staging_.block = std::min(wanted, columns);
    staging_.pieces = Staging::Pieces::columns;
    return staging_.block * bytes <= limits_.largest;
  }

  bool has_adjacent_rows() const {
    const auto adjacent = [](const Staging::Operand& operand) { return !operand.points.empty() && operand.points.back().from == operand.element; };
    return std::any_of(staging_.operands.begin(), staging_.operands.end(), adjacent);
  }

  int64_t row_bytes() const {
    int64_t bytes = 0;
    for (const Staging::Operand& operand : staging_.operands) bytes += operand.shared ? 0 : apart(points_of(operand.each) * operand.element);
    return bytes;
  }

  bool choose_rows() {
    const int64_t bytes = std::max<int64_t>(row_bytes(), 1), rows = staging_.operands.empty() ? 1 : points_of(staging_.operands[0].points);
    int64_t wanted = std::max<int64_t>(limits_.piece / bytes, 1);
    if (has_adjacent_rows()) wanted = std::max<int64_t>(wanted, kLine);
    if (wanted > 16) wanted = wanted / 16 * 16;
    staging_.block = std::min(wanted, rows);
    staging_.pieces = Staging::Pieces::rows;
    return staging_.block * bytes <= limits_.largest;
  }

  // Rows whose elements come in runs, so long that most stretches lie in one, or of long rows.
  bool suits_stretches() const {
    const bool long_rows = row_bytes() > limits_.long_row;
    const auto runs = [&](const Staging::Operand& operand) {
      if (operand.each.empty()) return false;
      const CopyAxis& run = operand.each.back();
      return run.from == operand.element && (long_rows || run.extent >= kLongRun);
    };
    return !staging_.operands.empty() && !has_adjacent_rows() && std::all_of(staging_.operands.begin(), staging_.operands.end(), runs);
  }

  bool choose_stretches() {
    const auto walks = [](const Stage& stage) { return stage.kind == Stage::Kind::each_element; };
    const bool once = std::count_if(nest_.stages.begin(), nest_.stages.end(), walks) == 1;
    if (!once || in_runs_ || !recipe_.code->has(Variant::partial) || !recipe_.code->has(Variant::finish)) return false;
    int64_t bytes = 0;
    for (Staging::Operand& operand : staging_.operands) {
      bytes += operand.element * kReduceStretch;
      operand.outer = std::move(operand.points);
      operand.points = std::move(operand.each);
      operand.each.clear();
      operand.shared = false;
    }
    staging_.block = std::max<int64_t>(limits_.stretches / bytes, 1);
    staging_.pieces = Staging::Pieces::stretches;
    return true;
  }

  // --- where the copies stand

  void lay_out() {
    for (Staging::Operand& operand : staging_.operands) {
      const bool rows = staging_.pieces == Staging::Pieces::rows;
      const int64_t length = staging_.pieces == Staging::Pieces::stretches ? 1 : points_of(operand.each) * operand.element;
      operand.pitch = !rows ? operand.element : operand.shared ? 0 : apart(length);
      operand.offset = staging_.bytes;
      const int64_t points = staging_.block * (staging_.pieces == Staging::Pieces::stretches ? kReduceStretch : 1);
      const int64_t line = rows ? operand.element : apart(staging_.block * operand.element);   // from one element of `each` to the next
      int64_t next = line;
      for (size_t i = operand.each.size(); i-- > 0; next *= operand.each[i].extent) operand.each[i].to = next;
      staging_.bytes += round_to_line(rows ? std::max(operand.pitch * points, length) : std::max(next, points * operand.element)) + kLine;
      set_strides(operand, line);
    }
  }

  // As the kernel sees the copy.
  void set_strides(const Staging::Operand& operand, int64_t line) {
    const bool stretches = staging_.pieces == Staging::Pieces::stretches;
    int64_t element = stretches ? operand.element : line, row = operand.pitch;
    for (size_t axis = nest_.axes.size(); axis-- > 0;) {
      if (repeats_in_column(operand, axis) || (stretches && !nest_.axes[axis].reduced)) continue;
      int64_t& to = stride(operand.param, axis);
      const bool reduced = nest_.axes[axis].reduced;
      int64_t& next = reduced ? element : row;
      to = reduced || is_point(axis) ? next : 0;
      next *= geometry_.extents[axis];
    }
  }

  const LaunchRecipe& recipe_;
  Launch& launch_;
  const StagingLimits& limits_;
  const LoopNest& nest_;
  Geometry geometry_;
  size_t columns_;
  bool in_runs_ = false;           // some parameter is in the way of the fast variant
  size_t first_column_axis_ = 0;   // of those that are columns
  Staging staging_;
};

}  // namespace

void plan_staging(const LaunchRecipe& recipe, Launch& launch, const StagingLimits& limits) { Planner(recipe, launch, limits).plan(); }

std::vector<OperandUse> uses_of(const LoopNest& nest) {
  std::vector<OperandUse> uses(nest.params.size());
  std::vector<bool> covered(nest.params.size());   // all of it has been written
  for (const Stage& stage : nest.stages) {
    const bool rows = stage.kind == Stage::Kind::each_row;
    for (const LoopInput& input : stage.inputs) {
      const bool gather = input.kind == LoopInput::Kind::gather;
      if (!gather && input.kind != LoopInput::Kind::load) continue;
      uses[input.number].gathered |= gather;
      uses[input.number].in_rows |= rows;
      uses[input.number].read |= !covered[input.number];
    }
    for (const LoopStore& store : stage.stores) {
      uses[store.param].written = true;
      uses[store.param].in_rows |= rows;
      if (!rows) covered[store.param] = true;
    }
  }
  return uses;
}

// --- running

namespace {

// A thread's memory for copies. What is unusually large is given back at once.
class Blocks {
 public:
  explicit Blocks(size_t bytes) : bytes_(bytes) {
    if (bytes > kKeptBytes) {
      memory_ = static_cast<std::byte*>(allocate_pages(bytes));
      return;
    }
    static thread_local std::vector<std::byte> kept;
    if (kept.size() < bytes + kLine) kept.resize(bytes + kLine);
    const auto address = reinterpret_cast<uintptr_t>(kept.data());
    memory_ = kept.data() + (round_to_line(static_cast<int64_t>(address)) - static_cast<int64_t>(address));
  }
  ~Blocks() {
    if (bytes_ > kKeptBytes) free_pages(memory_);
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  std::byte* at(int64_t offset) const { return memory_ + offset; }

 private:
  std::byte* memory_;
  size_t bytes_;
};

class StagedRun {
 public:
  StagedRun(const LaunchRecipe& recipe, const Launch& launch, Variant variant, const KernelArgs& args)
      : recipe_(recipe), staging_(launch.staging), launch_(launch), variant_(variant), args_(args), blocks_(static_cast<size_t>(staging_.bytes)),
        data_(args.data, args.data + launch.data.size()) {
    args_.data = data_.data();
    for (const Staging::Operand& operand : staging_.operands) memory_.push_back(static_cast<std::byte*>(args.data[operand.param]));
  }

  void rows(int64_t begin, int64_t end, int64_t ib, int64_t ie) {
    for (int64_t row = begin; row < end; row += staging_.block) {
      const int64_t last = std::min(row + staging_.block, end);
      piece(row, last, row == begin, [&] { call(row, last, ib, ie); });
    }
  }

  void columns(int64_t ob, int64_t oe, int64_t begin, int64_t end) {
    for (int64_t outer = ob; outer < oe; ++outer) {
      go_to(outer);
      for (int64_t column = begin; column < end; column += staging_.block) {
        const int64_t last = std::min(column + staging_.block, end);
        piece(column, last, true, [&] { call(outer, outer + 1, column, last); });
      }
    }
  }

  // Stretches that lie as they should are not copied: all rows have theirs in one call, which is how they follow each other in memory.
  void stretches(int64_t ob, int64_t oe, int64_t begin, int64_t end) {
    const int64_t length = points_of(staging_.operands[0].points);
    for (int64_t stretch = begin, last = 0; stretch < end; stretch = last) {
      last = std::min(stretch + in_one_run(stretch * kReduceStretch, length), end);
      if (last > stretch) {
        stay(stretch * kReduceStretch);
        call(ob, oe, stretch, last);
        continue;
      }
      for (last = stretch + 1; last < std::min(stretch + staging_.block, end) && in_one_run(last * kReduceStretch, length) == 0;) ++last;
      for (int64_t row = ob; row < oe; ++row) {
        go_to(row);
        piece(stretch * kReduceStretch, std::min(last * kReduceStretch, length), true, [&] { call(row, row + 1, stretch, last); });
      }
    }
  }

 private:
  // How many stretches from an element on lie in memory as the kernel wants them, for every operand.
  int64_t in_one_run(int64_t element, int64_t length) const {
    int64_t stretches = INT64_MAX;
    for (const Staging::Operand& operand : staging_.operands) {
      const CopyAxis& run = operand.points.back();
      const int64_t left = run.from == operand.element ? run.extent - element % run.extent : 0;
      stretches = std::min(stretches, left == length - element ? (left + kReduceStretch - 1) / kReduceStretch : left / kReduceStretch);
    }
    return stretches;
  }

  // The operands where they are, seen as if element 0 stood as far before `element` as in a copy.
  void stay(int64_t element) {
    for (size_t i = 0; i < staging_.operands.size(); ++i) {
      const Staging::Operand& operand = staging_.operands[i];
      int64_t offset = 0, rest = element;
      for (size_t axis = operand.points.size(); axis-- > 0; rest /= operand.points[axis].extent)
        offset += rest % operand.points[axis].extent * operand.points[axis].from;
      data_[operand.param] = static_cast<std::byte*>(launch_.data[operand.param]) + offset - element * operand.element;
    }
  }

  void call(int64_t ob, int64_t oe, int64_t ib, int64_t ie) {
    if (launch_.function != nullptr) launch_.function(&args_, ob, oe, ib, ie);
    else recipe_.code->run(variant_, args_, ob, oe, ib, ie);
  }

  // The operands' addresses at a point of the axes around the pieces.
  void go_to(int64_t number) {
    for (size_t i = 0; i < staging_.operands.size(); ++i) {
      const Staging::Operand& operand = staging_.operands[i];
      std::byte* at = static_cast<std::byte*>(launch_.data[operand.param]);
      int64_t rest = number;
      for (size_t axis = operand.outer.size(); axis-- > 0; rest /= operand.outer[axis].extent)
        at += rest % operand.outer[axis].extent * operand.outer[axis].from;
      memory_[i] = at;
    }
  }

  template <class F>
  void piece(int64_t begin, int64_t end, bool first, const F& run) {
    for (size_t i = 0; i < staging_.operands.size(); ++i) {
      const Staging::Operand& operand = staging_.operands[i];
      std::byte* const to = blocks_.at(operand.offset) - (operand.shared ? 0 : begin * operand.pitch);
      // A stretch's kernel still steps from row to row through memory.
      const bool steps = staging_.pieces == Staging::Pieces::stretches;
      data_[operand.param] = to - (steps ? memory_[i] - static_cast<std::byte*>(launch_.data[operand.param]) : 0);
      if (!operand.read || (operand.shared && !first)) continue;
      const int64_t from = operand.shared ? 0 : begin, last = operand.shared ? 1 : end;
      copy_points(to, memory_[i], operand.points, from, last, operand.pitch, operand.each, operand.element);
    }
    run();
    for (size_t i = 0; i < staging_.operands.size(); ++i) {
      const Staging::Operand& operand = staging_.operands[i];
      if (!operand.written) continue;
      copy_points_back(blocks_.at(operand.offset) - begin * operand.pitch, memory_[i], operand.points, begin, end, operand.pitch, operand.each, operand.element);
    }
  }

  const LaunchRecipe& recipe_;
  const Staging& staging_;
  const Launch& launch_;
  const Variant variant_;
  KernelArgs args_;
  Blocks blocks_;
  std::vector<void*> data_;
  std::vector<std::byte*> memory_;   // per operand: where its pieces are copied from
};

}  // namespace

void run_staged(const LaunchRecipe& recipe, const Launch& launch, Variant variant, const KernelArgs& args, int64_t outer_begin,
                int64_t outer_end, int64_t inner_begin, int64_t inner_end) {
  StagedRun run(recipe, launch, variant, args);
  switch (launch.staging.pieces) {
    case Staging::Pieces::none: break;
    case Staging::Pieces::rows: return run.rows(outer_begin, outer_end, inner_begin, inner_end);
    case Staging::Pieces::columns: return run.columns(outer_begin, outer_end, inner_begin, inner_end);
    case Staging::Pieces::stretches: return run.stretches(outer_begin, outer_end, inner_begin, inner_end);
  }
}

}  // namespace escapement
