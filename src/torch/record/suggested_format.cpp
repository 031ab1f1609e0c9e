// See suggested_format.h.
#include "torch/record/suggested_format.h"

#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <utility>

#include "torch/record/copies.h"
#include "torch/record/wrapper.h"
#include "trace/layout.h"

namespace escapement {

namespace {

constexpr const char* kBecause = "axes of one element decide the memory format";

bool suggests_channels_last(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  return sizes.size() == 4 ? c10::is_channels_last_strides_2d(sizes, strides) : c10::is_channels_last_strides_3d(sizes, strides);
}

// Are the strides that a value has by its type eager's where some of its axes have size 1, too, for all that decides the format they suggest?
// Views and results that keep the strides of one operand hand on the answer.
class Claims {
 public:
  explicit Claims(OpCall& call) : trace_(call.tape.trace()), build_(call.build), dims_(call.table()) {}

  bool hold_at_ones(ValueId value) const {
    const InstrId made_by = trace_[value].definition;
    if (!made_by) return true;
    const Instr& instr = trace_[made_by];
    const OpKind kind = info(instr.op).kind;
    if (kind == OpKind::call) return true;   // by a rule, or read off the result
    if (kind == OpKind::view) return is_claimed_view(instr);
    if (is_dense_of_dense(instr, value)) return true;
    return kind == OpKind::pointwise && all_lie_as_first(instr, trace_.type(value)) && hold_at_ones(instr.operands[0]);
  }

 private:
  bool is_claimed_view(const Instr& instr) const {
    const ValueId source = instr.operands[0];
    if (instr.op == Op::as_strided) return false;
    if (instr.op == Op::reshape) return build_.is_contiguous(trace_.type(source)) && hold_at_ones(source);
    return hold_at_ones(source);
  }

  // New memory is contiguous by all rules where all operands are.
  bool is_dense_of_dense(const Instr& instr, ValueId value) const {
    const auto dense = [&](ValueId v) { return !v || build_.is_contiguous(trace_.type(v)); };
    return dense(value) && std::all_of(instr.operands.begin(), instr.operands.end(), dense);
  }

  // The first operand is dense, and its order is the result's; what is broadcast beside it has no say.
  bool all_lie_as_first(const Instr& instr, const TensorType& result) const {
    const TensorType& first = trace_.type(instr.operands[0]);
    return same(first.strides, result.strides) && std::all_of(instr.operands.begin(), instr.operands.end(), [&](ValueId v) {
      const TensorType& type = trace_.type(v);
      return !same(type.sizes, first.sizes) ? is_broadcast(type, first) : same(type.strides, first.strides);
    });
  }

  bool is_broadcast(const TensorType& type, const TensorType& to) const {
    if (type.rank() > to.rank()) return false;
    const size_t missing = to.sizes.size() - type.sizes.size();
    for (size_t axis = 0; axis < type.sizes.size(); ++axis)
      if (dims_.as_constant(type.sizes[axis]) != 1 && !dims_.same(type.sizes[axis], to.sizes[axis + missing])) return false;
    return true;
  }

  bool same(const std::vector<Dim>& a, const std::vector<Dim>& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](Dim x, Dim y) { return dims_.same(x, y); });
  }

  const Trace& trace_;
  Builder& build_;
  DimTable& dims_;
};

class Suggestion {
 public:
  Suggestion(OpCall& call, ValueId value, const at::Tensor& real)
      : call_(call), dims_(call.table()), value_(value), type_(call.type(value)), real_(real), wanted_(suggests_channels_last(real.sizes(), real.strides())) {}

  // Do the strides that the operand has when the program runs suggest another format?
  bool differs() const {
    const auto now = numbers(type_.strides);
    return now && *now != real_.strides() && !is_made_anew(*now) && suggests_channels_last(real_.sizes(), *now) != wanted_;
  }

  // The value with strides that suggest the same; none if there are no such.
  ValueId kept() {
    const std::vector<Dim> strides = other_strides();
    const auto now = numbers(strides);
    if (!now || suggests_channels_last(real_.sizes(), *now) != wanted_) return {};
    Attrs attrs;
    attrs.sizes = type_.sizes;
    attrs.sizes.insert(attrs.sizes.end(), strides.begin(), strides.end());
    attrs.start = type_.offset;
    return call_.build.view(Op::as_strided, value_, std::move(attrs));
  }

  void hold_ones() {
    const Dim one = dims_.constant(1);
    for (size_t axis = 0; axis < type_.sizes.size(); ++axis) {
      if (real_.size(static_cast<int64_t>(axis)) == 1) call_.tape.guard_relation(Guard::Kind::equal, type_.sizes[axis], one, true, kBecause);
      else call_.tape.guard_relation(Guard::Kind::less, one, type_.sizes[axis], true, kBecause);
    }
  }

 private:
  // Memory of ours with channels last gets the strides of a new tensor, as ATen's does (host.h, TensorRecipe).
  bool is_made_anew(const std::vector<int64_t>& now) const {
    const Trace& trace = call_.tape.trace();
    const InstrId made_by = trace[value_].definition;
    if (!made_by || info(trace[made_by].op).kind != OpKind::pointwise || real_.dim() != 4 || !wanted_) return false;
    const auto whole = [&](ValueId operand) { return trace.type(operand).sizes == type_.sizes; };
    if (!std::ranges::all_of(trace[made_by].operands, whole)) return false;
    int64_t next = 1;
    for (const size_t axis : {1, 3, 2, 0}) {
      const int64_t size = real_.size(static_cast<int64_t>(axis));
      if (size != 1 && now[axis] != next) return false;
      next *= size;
    }
    return true;
  }

  std::optional<std::vector<int64_t>> numbers(const std::vector<Dim>& strides) const {
    std::vector<int64_t> found;
    for (const Dim stride : strides) {
      const auto now = dims_.hint(stride);
      if (!now) return {};
      found.push_back(*now);
    }
    return found;
  }

  // Channels last: those of dense memory. Otherwise one that is too small for it, or of channels too large.
  std::vector<Dim> other_strides() const {
    std::vector<Dim> strides = type_.strides;
    const std::vector<Dim> last = channels_last_strides(dims_, type_.sizes), first = contiguous_strides(dims_, type_.sizes);
    for (size_t axis = 0; axis < strides.size(); ++axis) {
      if (real_.size(static_cast<int64_t>(axis)) != 1) continue;
      strides[axis] = wanted_ ? last[axis] : axis == 1 ? first[axis] : dims_.constant(1);
    }
    return strides;
  }

  OpCall& call_;
  DimTable& dims_;
  ValueId value_;
  const TensorType type_;
  const at::Tensor real_;
  bool wanted_;
};

bool is_written(const OpCall& call, int argument) {
  return std::find(call.plan.writes.begin(), call.plan.writes.end(), static_cast<uint32_t>(argument)) != call.plan.writes.end();
}

bool is_image(const at::Tensor& real) { return real.defined() && real.layout() == c10::kStrided && (real.dim() == 4 || real.dim() == 5) && real.numel() != 0; }

// Of results that no rule describes nobody knows.
bool looks_at_format(const OpCall& call) {
  if (call.plan.pointwise || call.plan.metadata || call.as_library_may_share || call.may_share) return false;
  return call.plan.sizes ? call.plan.sizes->layout == ResultLayout::image : !call.reals.empty() && is_image(call.reals[0]);
}

// It suggests one format at all sizes. Axes in another order suggest channels last where some of them have one element.
bool is_plain(OpCall& call, ValueId value) {
  const TensorType& type = call.type(value);
  return call.build.is_contiguous(type) || is_channels_last(call.table(), type.sizes, type.strides);
}

}  // namespace

bool suggests_one_format(OpCall& call, ValueId value) { return call.rank(value) < 4 ? call.build.is_contiguous(call.type(value)) : is_plain(call, value); }

void keep_suggested_formats(OpCall& call) {
  if (!looks_at_format(call)) return;
  const Claims claims(call);
  for (int argument = 0; argument < static_cast<int>(call.args.size()); ++argument) {
    const ValueId value = call.args[argument].isTensor() && !is_written(call, argument) ? call.value_at(argument) : ValueId();
    const at::Tensor real = value ? call.real_at(argument) : at::Tensor();
    if (!is_image(real)) continue;
    Suggestion suggestion(call, value, real);
    const bool differs = suggestion.differs();
    if (!differs && is_plain(call, value) && claims.hold_at_ones(value)) continue;
    suggestion.hold_ones();
    if (const ValueId kept = differs ? suggestion.kept() : ValueId()) std::replace(call.values.begin(), call.values.end(), value, kept);
  }
}

bool strides_are_read(const OpCall& call, ValueId value) {
  const DimTable& dims = call.table();
  const auto is_read = [&](Dim stride) {
    const std::vector<Symbol> symbols = dims.symbols(stride);
    return std::any_of(symbols.begin(), symbols.end(), [&](Symbol s) { return dims.info(s).source.kind == Source::Kind::value_stride; });
  };
  return value && std::any_of(call.type(value).strides.begin(), call.type(value).strides.end(), is_read);
}

}  // namespace escapement
