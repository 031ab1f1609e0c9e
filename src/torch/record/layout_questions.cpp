// See layout_questions.h.
#include "torch/record/layout_questions.h"

#include <algorithm>
#include <atomic>

#include "torch/record/copies.h"
#include "torch/record/recorder_fallback.h"

namespace escapement {

namespace {

using BKind = BoolExpr::Kind;

std::atomic<ShortcutAsks> shortcut_asks{nullptr};

constexpr const char* kStridesRead = "strides read where a size is 1 or 0";
constexpr const char* kCallsStrideRead = "strides read that address nothing, behind a library call whose operand has others at run time";
constexpr const char* kOffsetRead = "storage offset read of an empty tensor";

std::vector<int> innermost_first(at::MemoryFormat format, int64_t rank) {
  if (format == at::MemoryFormat::ChannelsLast && rank == 4) return {1, 3, 2, 0};
  if (format == at::MemoryFormat::ChannelsLast3d && rank == 5) return {1, 4, 3, 2, 0};
  std::vector<int> order;
  if (format == at::MemoryFormat::Contiguous)
    for (int axis = static_cast<int>(rank) - 1; axis >= 0; --axis) order.push_back(axis);
  return order;
}

// What is said of one tensor of the trace.
class Layout {
 public:
  explicit Layout(const AskedLayout& asked)
      : tape_(asked.tape), dims_(asked.tape.dims()), value_(asked.value), type_(asked.tape.trace().type(asked.value)), sizes_(asked.real.sizes().vec()),
        strides_(asked.real.strides().vec()), offset_(asked.real.storage_offset()), none_(is_empty(asked)) {}

  // "Every axis has size 1 or the stride that the inner ones give it", of a tensor that is not empty. Empty: it holds for all sizes.
  Dim misfit(const std::vector<int>& innermost_first) { return escapement::misfit(dims_, type_, innermost_first); }

  Dim smallest_size() {
    Dim smallest;
    for (const Dim size : type_.sizes) smallest = smallest ? dims_.min(smallest, size) : size;
    return smallest;
  }

  bool always_holds_something() { return dims_.less_equal(dims_.constant(1), smallest_size()) == Truth::yes; }
  BoolExprPtr at_most_zero(Dim dim, bool hint) { return bool_relation(Guard::Kind::less_equal, dim, dims_.constant(0), hint); }
  BoolExprPtr holds_something() {
    if (none_) return bool_relation(Guard::Kind::less_equal, dims_.constant(1), smallest_size(), false);
    BoolExprPtr all = bool_constant(true);
    for (const Dim size : type_.sizes)
      all = bool_both(std::move(all), bool_relation(Guard::Kind::less_equal, dims_.constant(1), size, true));
    return all;
  }

  // Of a copy where eager makes a view at some sizes: those are guarded, or the recording ends here (choices.h).
  bool tells_layout() {
    tape_.choices.layout_read(value_);
    return tape_.live();
  }

  bool addresses(int axis) const { return sizes_[axis] != 1 && !none_; }

  // Of an input, what is read from it.
  std::optional<Dim> certain_stride(int axis) {
    const auto input = tape_.input_of(value_);
    if (!input) return {};
    const Dim claimed = type_.strides[axis];
    const auto symbol = dims_.as_symbol(claimed);
    if (symbol && dims_.info(*symbol).source.kind == Source::Kind::input_stride) return claimed;
    if (!addresses(axis)) return tape_.input_stride(*input, axis, strides_[axis]);
    return {};
  }

  // Where the axis addresses something now, it is guarded that it does.
  Dim stride(int axis) {
    if (!tells_layout()) return dims_.constant(strides_[axis]);
    if (!addresses(axis)) {
      if (tape_.odd_strides_of_nothing) tape_.refuse(Reason::recorder_refused, kCallsStrideRead);
      else tape_.pin_everything(kStridesRead);
      return dims_.constant(strides_[axis]);
    }
    decide(tape_, *holds_something(), kStridesRead);
    tape_.guard_relation(Guard::Kind::less, dims_.constant(1), type_.sizes[axis], true, kStridesRead);
    return type_.strides[axis];
  }

  Dim offset() {
    tape_.choices.written(value_);   // where in whose memory it lies
    if (!tape_.live()) return dims_.constant(offset_);
    const Dim claimed = dims_.add(tape_.storage_offset(type_.root), type_.offset);
    const bool begins = dims_.as_constant(type_.offset) == std::optional<int64_t>(0);
    // Sizes may be pinned already: then a step over no elements is none here, and one element for ATen.
    if (none_ && (!begins || dims_.hint(claimed) != std::optional<int64_t>(offset_))) {
      tape_.pin_everything(kOffsetRead);
      return dims_.constant(offset_);
    }
    if (!begins) decide(tape_, *holds_something(), kOffsetRead);
    return claimed;
  }

  // Axes that address something, innermost first, as seen; the others do not count.
  std::vector<int> order_seen() const {
    std::vector<int> order;
    for (int axis = 0; axis < type_.rank(); ++axis)
      if (sizes_[axis] > 1) order.push_back(axis);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides_[a] < strides_[b]; });
    return order;
  }

  // That the axes lie in this order, and that no others address anything.
  BoolExprPtr lies_in(const std::vector<int>& order) {
    BoolExprPtr all = holds_something();
    for (int axis = 0; axis < type_.rank(); ++axis) {
      const bool counts = std::find(order.begin(), order.end(), axis) != order.end();
      all = bool_both(std::move(all), counts ? bool_relation(Guard::Kind::less, dims_.constant(1), type_.sizes[axis], true)
                                             : bool_relation(Guard::Kind::less_equal, type_.sizes[axis], dims_.constant(1), true));
    }
    for (size_t i = 1; i < order.size(); ++i)
      all = bool_both(std::move(all), bool_relation(Guard::Kind::less_equal, type_.strides[order[i - 1]], type_.strides[order[i]], true));
    return all;
  }

 private:
  // When it was asked: in-place views may have changed the tensor since.
  static bool is_empty(const AskedLayout& asked) {
    const std::vector<Dim>& sizes = asked.tape.trace().type(asked.value).sizes;
    const auto seen = [&](Dim size) { return asked.tape.dims().hint(size); };
    if (!std::ranges::all_of(sizes, [&](Dim size) { return seen(size).has_value(); })) return asked.real.numel() == 0;
    return std::ranges::any_of(sizes, [&](Dim size) { return seen(size) == std::optional<int64_t>(0); });
  }

  Tape& tape_;
  DimTable& dims_;
  const ValueId value_;
  const TensorType type_;
  // What was seen when it was asked: the tensor may have become another view when somebody looks at the answer.
  const std::vector<int64_t> sizes_, strides_;
  const int64_t offset_;
  const bool none_;
};

// `premise`: where the answer is an expression of sizes; elsewhere it is what was seen, of these very inputs.
c10::SymBool layout_answer(Tape& tape, BoolExprPtr answer, BoolExprPtr premise) {
  const bool hint = answer->hint;
  return symbool(tape, bool_node(BKind::layout, std::move(answer), std::move(premise), hint));
}

bool is_shortcut() {
  const ShortcutAsks asks = shortcut_asks.load(std::memory_order_acquire);
  return asks != nullptr && asks();
}

}  // namespace

void set_shortcut_asks(ShortcutAsks asks) { shortcut_asks.store(asks, std::memory_order_release); }

c10::SymBool asked_contiguous(const AskedLayout& asked, at::MemoryFormat format) {
  asked.tape.begin_question(asked.value);
  if (is_shortcut()) {
    const std::vector<int> order = innermost_first(format, asked.real.dim());
    if (order.empty()) return asked.real.is_contiguous(format);
    Layout layout(asked);
    return !layout.misfit(order) && (format == at::MemoryFormat::Contiguous || layout.always_holds_something());
  }
  return lies_as(asked, format);
}

c10::SymBool lies_as(const AskedLayout& asked, at::MemoryFormat format) {
  const bool seen = asked.real.is_contiguous(format);
  const std::vector<int> order = innermost_first(format, asked.real.dim());
  if (order.empty()) return seen;  // no axes, or a format of another rank
  Layout layout(asked);
  Dim misfit = layout.misfit(order);
  if (composite_in_progress() == nullptr && !layout.tells_layout()) return seen;
  if (format != at::MemoryFormat::Contiguous)
    return layout_answer(asked.tape, misfit ? layout.at_most_zero(misfit, seen) : bool_constant(seen), layout.holds_something());
  if (!misfit) return true;
  misfit = asked.tape.dims().min(layout.smallest_size(), misfit);  // an empty tensor is contiguous whatever its strides are
  return layout_answer(asked.tape, layout.at_most_zero(misfit, seen), nullptr);
}

c10::SymBool asked_dense(const AskedLayout& asked) {
  const bool seen = asked.real.is_non_overlapping_and_dense();
  Layout layout(asked);
  asked.tape.begin_question({});
  if (asked.real.dim() == 0 || !layout.tells_layout()) return seen;
  std::vector<int> order = layout.order_seen();
  const BoolExprPtr premise = seen ? layout.holds_something() : layout.lies_in(order);
  for (int axis = 0; axis < asked.real.dim(); ++axis)  // the rest, which fit anywhere while their size is 1
    if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
  const Dim misfit = layout.misfit(order);
  return layout_answer(asked.tape, misfit ? layout.at_most_zero(misfit, seen) : bool_constant(seen), premise);
}

c10::SymInt asked_stride(const AskedLayout& asked, int axis) {
  Layout layout(asked);
  const int64_t hint = asked.real.stride(axis);
  if (const auto certain = layout.certain_stride(axis)) return asked.tape.symint(*certain, hint);
  return asked.tape.unsure(hint, [layout, axis]() mutable { return layout.stride(axis); });
}

c10::SymInt asked_offset(const AskedLayout& asked) {
  return asked.tape.symint(Layout(asked).offset(), asked.real.storage_offset());
}

}  // namespace escapement
