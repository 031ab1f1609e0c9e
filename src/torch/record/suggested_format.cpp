// See suggested_format.h.
#include "torch/record/suggested_format.h"

#include <c10/core/Contiguity.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "torch/record/copies.h"
#include "torch/record/wrapper.h"
#include "trace/layout.h"

namespace escapement {

namespace {

constexpr const char* kBecause = "axes of one element decide the memory format";

void hold_whether_one(OpCall& call, Dim size) {
  const Dim one = call.table().constant(1);
  const auto now = call.table().hint(size);
  if (now == std::optional<int64_t>(1)) call.tape.guard_relation(Guard::Kind::equal, size, one, true, kBecause);
  else if (now && *now > 1) call.tape.guard_relation(Guard::Kind::less, one, size, true, kBecause);
}

void hold_ones(OpCall& call, const TensorType& type) {
  for (const Dim size : type.sizes) hold_whether_one(call, size);
}

// Lines are convolved as images of one row.
bool lines_suggest_channels_last(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  if (!c10::_compute_contiguous<int64_t>(sizes, strides, c10::multiply_integers(sizes))) return false;   // they are copied first
  const std::array<int64_t, 4> rows{sizes[0], sizes[1], 1, sizes[2]}, steps{strides[0], strides[1], sizes[2] * strides[2], strides[2]};
  return c10::is_channels_last_strides_2d(c10::IntArrayRef(rows), c10::IntArrayRef(steps));
}

bool suggests_channels_last(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  if (sizes.size() == 3) return lines_suggest_channels_last(sizes, strides);
  return sizes.size() == 4 ? c10::is_channels_last_strides_2d(sizes, strides) : c10::is_channels_last_strides_3d(sizes, strides);
}

// Are the strides that a value has by its type eager's where some of its axes have size 1, too, for all that decides the format they suggest?
// Views and results that keep the strides of one operand hand on the answer.
class Claims {
 public:
  explicit Claims(OpCall& call) : call_(call), trace_(call.tape.trace()), build_(call.build), dims_(call.table()) {}

  bool hold_at_ones(ValueId value) const {
    const auto [known, fresh] = held_.try_emplace(value, true);   // a value may be used by many on the way
    if (fresh) known->second = hold(value);                       // (a map's entries stay where they are)
    return known->second;
  }

  bool hold(ValueId value) const {
    const InstrId made_by = trace_[value].definition;
    if (!made_by) return hold_given(value);
    const Instr& instr = trace_[made_by];
    switch (info(instr.op).kind) {
      case OpKind::call: case OpKind::create: return true;   // by a rule, or read off the result
      case OpKind::view: return is_claimed_view(instr);
      case OpKind::pointwise: return is_dense_of_ordered(instr, value) || is_asked_for(instr, value) || lies_as_whole(instr, value);
      case OpKind::composite: case OpKind::contract: return is_dense(value) || lies_as_whole(instr, value);   // they make new tensors, or keep an order
      case OpKind::combine: return std::all_of(instr.operands.begin(), instr.operands.end(), [&](ValueId v) { return is_plain(v) && hold_at_ones(v); });
      default: return is_dense_of_ordered(instr, value);
    }
  }

  // Whatever the strides of axes of one element are, the format is this one.
  bool is_definite(OpCall& call, ValueId value) const { return (is_plain(value) && hold_at_ones(value)) || lies_in_lines(call, value); }

  // The value whose order along axes of size 1 this one has.
  ValueId ordered_as(ValueId value) const {
    for (InstrId made_by = trace_[value].definition; made_by; made_by = trace_[value].definition) {
      const Instr& instr = trace_[made_by];
      if (info(instr.op).kind != OpKind::pointwise || is_asked_for(instr, value) || !lies_as_whole(instr, value)) break;
      value = *whole_of(instr, trace_.type(value));
    }
    return value;
  }

  bool is_view_of_given(ValueId value) const {
    while (const InstrId made_by = trace_[value].definition) {
      if (info(trace_[made_by].op).kind != OpKind::view) return false;
      value = trace_[made_by].operands[0];
    }
    return true;
  }

  // One format at all sizes. Axes in another order suggest channels last where some of them have one element.
  bool is_plain(ValueId value) const {
    const TensorType& type = trace_.type(value);
    return is_channels_last(dims_, type.sizes, type.strides) || is_in_natural_order(type);
  }

 private:
  bool hold_given(ValueId value) const;   // an argument's own strides: below

  bool is_dense(ValueId value) const { return build_.is_contiguous(trace_.type(value)); }

  // As heads of attention: several elements of the last axis lie side by side, where channels last has channels.
  bool lies_in_lines(OpCall& call, ValueId value) const {
    const TensorType& type = trace_.type(value);
    if (call_.tape.choices.is_noted(type.root)) return false;   // or it lies as the argument that eager hands on
    const Dim one = dims_.constant(1), length = type.sizes.back();
    if (dims_.as_constant(type.strides.back()) != 1 || dims_.hint(length).value_or(0) < 2) return false;
    if (dims_.less(one, length) != Truth::yes) call.tape.guard_relation(Guard::Kind::less, one, length, true, kBecause);
    return true;
  }

  bool is_in_natural_order(const TensorType& type) const {
    for (size_t axis = 1; axis < type.strides.size(); ++axis) {
      const Dim outer = type.strides[axis - 1], inner = type.strides[axis];
      if (dims_.less_equal(inner, outer) != Truth::yes && dims_.divisible(outer, inner) != Truth::yes) return false;
    }
    return true;
  }

  bool is_claimed_view(const Instr& instr) const {
    const ValueId source = instr.operands[0];
    if (instr.op == Op::as_strided) return false;
    return (instr.op != Op::reshape || is_dense(source)) && hold_at_ones(source);
  }

  // New memory is contiguous by all rules where no operand has its axes in another order, nor has at ones.
  bool is_dense_of_ordered(const Instr& instr, ValueId value) const {
    const auto is_ordered = [&](ValueId v) { return !v || (is_in_natural_order(trace_.type(v)) && (trace_[v].definition || hold_at_ones(v))); };
    return is_dense(value) && std::all_of(instr.operands.begin(), instr.operands.end(), is_ordered);
  }

  // A copy in a format, which its lowering decides by the strides of axes of size 1, too.
  bool is_asked_for(const Instr& instr, ValueId value) const {
    if (call_.tape.choices.is_noted(value)) return false;   // or eager hands on its argument, as it lies
    return (instr.op == Op::copy || instr.op == Op::cast) && is_plain(value) && !same(trace_.type(value).strides, trace_.type(instr.operands[0]).strides);
  }

  // An operand of all elements is dense, and its order is the result's; what is broadcast beside it has no say.
  bool lies_as_whole(const Instr& instr, ValueId value) const {
    const TensorType& result = trace_.type(value);
    const auto is_whole = [&](ValueId v) { return v && same(trace_.type(v).sizes, result.sizes); };
    const auto whole = whole_of(instr, result);
    const auto fits = [&](ValueId v) { return !v || (is_whole(v) ? same(trace_.type(v).strides, result.strides) : is_broadcast(trace_.type(v), result)); };
    const bool all = info(instr.op).kind == OpKind::composite || std::all_of(instr.operands.begin(), instr.operands.end(), fits);
    return whole != instr.operands.end() && fits(*whole) && all && hold_at_ones(*whole);
  }

  std::vector<ValueId>::const_iterator whole_of(const Instr& instr, const TensorType& result) const {
    return std::find_if(instr.operands.begin(), instr.operands.end(), [&](ValueId v) { return v && same(trace_.type(v).sizes, result.sizes); });
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

  OpCall& call_;
  const Trace& trace_;
  Builder& build_;
  DimTable& dims_;
  mutable std::map<ValueId, bool> held_;
};

// What format an operand suggests while it is recorded, and whether it will when the program runs.
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

 private:
  // Memory of ours that is contiguous at these sizes, or has channels last, gets the strides of a new tensor, as ATen's does (host.h, TensorRecipe).
  bool is_made_anew(const std::vector<int64_t>& now) const {
    const Trace& trace = call_.tape.trace();
    const InstrId made_by = trace[value_].definition;
    if (made_by && trace[made_by].op == Op::call) return true;   // it is what ATen made
    if (!made_by || info(trace[made_by].op).kind != OpKind::pointwise) return false;
    if (trace[made_by].op == Op::copy || trace[made_by].op == Op::cast) return false;   // ATen keeps the strides of what is dense
    const auto whole = [&](ValueId operand) { return trace.type(operand).sizes == type_.sizes; };
    if (!std::ranges::all_of(trace[made_by].operands, whole)) return false;
    return c10::_compute_contiguous<int64_t>(real_.sizes(), now, real_.numel()) ||
           (wanted_ && c10::_compute_channels_last_contiguous_2d<int64_t>(real_.sizes(), now));
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

// The comparisons of strides by which what is made of an argument suggests a format, channels first: they are guards, as far as a call decides them.
class GivenStrides {
 public:
  GivenStrides(OpCall& call, const Claims& claims, ValueId value, const at::Tensor& real)
      : call_(call), claims_(claims), dims_(call.table()), type_(call.type(value)), real_(real) {
    for (int axis = 0; axis < type_.rank(); ++axis) strides_.push_back(stride_of(value, axis));
  }

  // Not if some of the strides follow from nothing that is known at a call, or are not what eager made of the argument.
  bool are_known() const {
    for (int axis = 0; axis < type_.rank(); ++axis) {
      const Dim stride = strides_[static_cast<size_t>(axis)];
      if (!stride || dims_.hint(stride) != std::optional<int64_t>(real_.stride(axis))) return false;
    }
    return true;
  }

  void hold() {
    if (type_.rank() == 3 && (is_copied() || !hold_contiguous())) return;
    if (!hold_channels_inside()) return;
    Dim least = strides_[1];
    int64_t least_now = real_.stride(1);
    for (const int axis : order()) {
      const int64_t now = real_.stride(axis);
      hold_relation(Guard::Kind::less_equal, least, strides_[static_cast<size_t>(axis)], least_now <= now);
      if (now < least_now) return;
      least = dims_.mul(strides_[static_cast<size_t>(axis)], size(axis)), least_now = now * real_.size(axis);
    }
  }

 private:
  Dim size(int axis) const { return type_.sizes[static_cast<size_t>(axis)]; }

  // The axes that lie around the channels in channels last, from the innermost.
  std::vector<int> order() const {
    std::vector<int> axes;
    for (int axis = type_.rank() - 1; axis > 1; --axis) axes.push_back(axis);
    axes.push_back(0);
    return axes;
  }

  // In channels last a step along the channels is shorter than all rows. One comparison tells images in the natural order at all sizes, also where
  // each axis has one element.
  bool hold_channels_inside() {
    const Dim rows = dims_.mul(strides_[2], size(2));
    const bool inside = real_.stride(1) < real_.stride(2) * real_.size(2), repeated = real_.stride(1) == 0;
    hold_relation(Guard::Kind::less, strides_[1], rows, inside);
    if (inside) hold_relation(Guard::Kind::equal, strides_[1], dims_.constant(0), repeated);
    return inside && !repeated;
  }

  // Lines of several channels and positions are natural: they are, or a copy is.
  bool is_copied() const {
    if (real_.size(1) == 1 || real_.size(2) == 1) return false;
    for (const int axis : {1, 2}) hold_whether_one(call_, size(axis));
    return true;
  }

  // Where there is one element its stride is any.
  bool hold_contiguous() {
    const Dim one = dims_.constant(1);
    Dim expected = one;
    int64_t expected_now = 1;
    for (int axis = type_.rank(); axis-- > 0;) {
      const bool fits = real_.size(axis) == 1 || real_.stride(axis) == expected_now;
      const Dim missed = dims_.mul(dims_.sub(size(axis), one), dims_.sub(strides_[static_cast<size_t>(axis)], expected));
      hold_relation(Guard::Kind::equal, missed, dims_.constant(0), fits);
      if (!fits) return false;
      expected = dims_.mul(expected, size(axis)), expected_now *= real_.size(axis);
    }
    return true;
  }

  // Also where the axis has size 1: read off the argument that it comes from.
  Dim stride_of(ValueId value, int axis) const {
    const Trace& trace = call_.tape.trace();
    const TensorType& type = trace.type(value);
    if (dims_.less(dims_.constant(1), type.sizes[static_cast<size_t>(axis)]) == Truth::yes) return type.strides[static_cast<size_t>(axis)];
    const InstrId made_by = trace[value].definition;
    const auto input = made_by ? std::nullopt : call_.tape.input_of(value);
    if (input) return call_.tape.input_stride(*input, axis, call_.tape.stride_seen(value, axis));
    if (!made_by) return {};
    const Instr& instr = trace[made_by];
    if (info(instr.op).kind == OpKind::view) return stride_of_view(instr, axis);
    const ValueId whole = claims_.ordered_as(value);
    return whole == value ? Dim() : stride_of(whole, axis);
  }

  Dim stride_of_view(const Instr& instr, int axis) const {
    const ValueId source = instr.operands[0];
    const TensorType& type = call_.tape.trace().type(source);
    switch (instr.op) {
      case Op::alias: case Op::detach: return stride_of(source, axis);
      case Op::slice: {
        const Dim stride = stride_of(source, axis);
        return stride && axis == instr.attrs.axis ? dims_.mul(stride, instr.attrs.step) : stride;
      }
      case Op::permute: return stride_of(source, instr.attrs.axes[static_cast<size_t>(axis)]);
      case Op::select: case Op::squeeze: return stride_of(source, axis < instr.attrs.axis ? axis : axis + 1);
      case Op::unsqueeze:
        if (axis != instr.attrs.axis) return stride_of(source, axis < instr.attrs.axis ? axis : axis - 1);
        if (axis == type.rank()) return dims_.constant(1);
        if (const Dim inner = stride_of(source, axis)) return dims_.mul(type.sizes[static_cast<size_t>(axis)], inner);
        return {};
      default: return {};
    }
  }
  void hold_relation(Guard::Kind kind, Dim a, Dim b, bool now) { call_.tape.guard_relation(kind, a, b, now, kBecause); }

  OpCall& call_;
  const Claims& claims_;
  DimTable& dims_;
  const TensorType type_;
  const at::Tensor real_;
  std::vector<Dim> strides_;   // none: not known
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

bool convolves_lines(const OpCall& call) { return call.find("weight") == 1 && call.value_at(1) && call.type(call.value_at(1)).rank() == 3; }

bool is_line(const at::Tensor& real) { return real.defined() && real.layout() == c10::kStrided && real.dim() == 3 && real.numel() != 0; }

// What the caller's strides suggest, and with it all that keeps them, is a guard.
bool Claims::hold_given(ValueId value) const {
  if (!call_.tape.input_of(value)) return true;
  const at::Tensor real = call_.tape.given(value);
  if (!is_image(real) && !(is_line(real) && convolves_lines(call_))) return true;
  GivenStrides strides(call_, *this, value, real);
  if (strides.are_known()) strides.hold();
  return true;
}

// They are made contiguous, and convolved as images of one row. What is contiguous only because it has one channel or one position keeps its strides,
// and an image of such strides suggests channels last. With one line, more is contiguous then.
void hold_lines(OpCall& call, const TensorType& lines) {
  const Dim channels = lines.sizes[lines.sizes.size() - 2], length = lines.sizes.back();
  const auto has_one = [&](Dim size) { return call.table().hint(size) == std::optional<int64_t>(1); };
  if (has_one(channels) || has_one(length)) return hold_ones(call, lines);
  for (const Dim size : {channels, length}) hold_whether_one(call, size);
}

}  // namespace

void hold_format(OpCall& call, ValueId value, const at::Tensor& real) {
  const TensorType type = call.type(value);
  if (type.rank() != 4 && type.rank() != 5) return;
  const Claims claims(call);
  if (is_image(real) && claims.is_view_of_given(value)) {
    GivenStrides strides(call, claims, value, real);
    if (strides.are_known()) return strides.hold();
  }
  const bool in_lines = call.table().as_constant(type.strides.back()) == 1;   // heads, whatever their length
  if (!in_lines && !claims.is_definite(call, value)) hold_ones(call, type);
}

bool suggests_one_format(OpCall& call, ValueId value) { return call.rank(value) < 4 ? call.build.is_contiguous(call.type(value)) : Claims(call).is_plain(value); }

void keep_suggested_formats(OpCall& call) {
  if (!looks_at_format(call)) return;
  const Claims claims(call);
  const bool lines = convolves_lines(call);
  for (int argument = 0; argument < (lines ? 1 : static_cast<int>(call.args.size())); ++argument) {
    const ValueId value = call.args[argument].isTensor() && !is_written(call, argument) ? call.value_at(argument) : ValueId();
    const at::Tensor real = value ? call.real_at(argument) : at::Tensor();
    if (!(lines ? is_line(real) : is_image(real)) || strides_are_read(call, value)) continue;
    Suggestion suggestion(call, value, real);
    GivenStrides strides(call, claims, value, real);
    const bool differs = suggestion.differs(), given = strides.are_known();
    if (given) strides.hold();
    if (!differs && (given || claims.is_definite(call, value))) continue;
    const TensorType type = call.type(value);
    if (lines) hold_lines(call, type);
    else hold_ones(call, type);
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
