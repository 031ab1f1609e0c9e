// See channels_last.h. Three looks at the trace: which values may have another layout (`free_`), which of them a later convolution reads
// (`wanted_`, backwards), and which get it (`turned_`, forwards): results of convolutions, and what is computed from these element by element.
//
// A value is not turned where that would bring a transposition that was not there: an element-wise result only where an operand of its size is
// turned already. Reductions keep their order of elements, so their bits stay.
#include "specialize/channels_last.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "trace/copier.h"
#include "trace/layout.h"

namespace escapement {
namespace {

bool calls_one_of(const Instr& instr, std::span<const std::string_view> targets) {
  return instr.op == Op::call && std::ranges::find(targets, instr.attrs.target) != targets.end();
}

bool is_convolution(const Instr& instr) {
  constexpr std::array<std::string_view, 5> kTargets = {"aten::conv2d", "aten::conv2d.padding", "aten::conv3d", "aten::conv3d.padding",
                                                        "aten::conv_transpose2d.input"};
  return calls_one_of(instr, kTargets) && instr.operands.size() >= 2;
}

// Library calls that compute each channel by itself, and whose result follows their operand's layout: the same bits in either, but for
// adaptive_avg_pool2d, which adds up in another order.
bool keeps_channels_apart(const Instr& instr) {
  constexpr std::array<std::string_view, 5> kTargets = {"aten::max_pool2d", "aten::avg_pool2d", "aten::adaptive_avg_pool2d", "aten::upsample_nearest2d",
                                                        "aten::max_pool3d"};
  return calls_one_of(instr, kTargets);
}

bool is_computed_by_element(const Instr& instr) {
  return info(instr.op).kind == OpKind::pointwise || instr.op == Op::cat || instr.op == Op::pad;
}

// Views that exist of any layout.
bool is_free_view(Op op) {
  return op == Op::alias || op == Op::detach || op == Op::permute || op == Op::expand || op == Op::unsqueeze || op == Op::squeeze ||
         op == Op::slice || op == Op::select;
}

// What takes its operand in any layout and gives a result that does not tell. A library call's is brought into the layout that it is known to have.
bool reads_any_layout(const Instr& instr) {
  return is_computed_by_element(instr) || info(instr.op).kind == OpKind::reduce || is_free_view(instr.op);
}

class ChannelsLast {
 public:
  explicit ChannelsLast(const Trace& trace)
      : trace_(trace), dims_(trace.dims), free_(trace.values.size(), true), wanted_(trace.values.size()), turned_(trace.values.size()),
        roots_(trace.storage_count) {}

  Trace run() {
    const auto count = std::count_if(trace_.instrs.begin(), trace_.instrs.end(), is_convolution);
    if (count < 2) return trace_;
    find_free();
    find_wanted();
    find_turned();
    return any_ ? rewritten() : trace_;
  }

 private:
  ValueId root_of(ValueId value) const { return trace_.type(value).root; }
  void keep(ValueId value) { free_[root_of(value)] = false; }

  // --- which may

  void find_free() {
    for (const Instr& instr : trace_.instrs) note_uses(instr);
    for (const Output& output : trace_.outputs)
      if (output.value) keep(output.value);
    for (uint32_t s = 0; s < dims_.symbol_count(); ++s)
      if (const ValueId value = dims_.info(Symbol(s)).source.value) keep(value);
  }

  void note_uses(const Instr& instr) {
    for (size_t i = 0; i < instr.operands.size(); ++i)
      if (const ValueId operand = instr.operands[i]; operand && !reads_any_layout(instr) && !(i == 0 && is_known_call(instr))) keep(operand);
    for (const ValueId result : instr.results)
      if (trace_[result].kind == ValueKind::tensor && root_of(result) == result) ++roots_[trace_.type(result).storage];
  }

  // One that is known here, with a result whose layout is, too.
  bool is_known_call(const Instr& instr) {
    if (!is_convolution(instr) && !keeps_channels_apart(instr)) return false;
    const TensorType& type = trace_.type(instr.results[0]);
    return is_contiguous(dims_, type.sizes, type.strides) || is_channels_last(dims_, type.sizes, type.strides);
  }

  bool has_one_position(const TensorType& type) const {
    return std::all_of(type.sizes.begin() + 2, type.sizes.end(), [&](Dim size) { return dims_.as_constant(size) == 1; });
  }

  // Memory of its own, in the usual order, in which nothing but this layout can be told from it.
  bool may_turn(ValueId value) {
    const TensorType& type = trace_.type(value);
    return is_image(value) && type.root == value && free_[value] && roots_[type.storage] == 1 && is_float(type.dtype) && !has_one_position(type) &&
           is_contiguous(dims_, type.sizes, type.strides);
  }

  bool is_image(ValueId value) const { return trace_.type(value).rank() == 4 || trace_.type(value).rank() == 5; }

  // --- which are wanted

  void find_wanted() {
    for (size_t i = trace_.instrs.size(); i-- > 0;) {
      const Instr& instr = trace_.instrs[i];
      if (is_convolution(instr)) wanted_[root_of(instr.operands[0])] = true;
      else if (is_wanted(instr)) want_operands(instr);
    }
  }

  bool is_wanted(const Instr& instr) {
    const bool passes_on = keeps_channels_apart(instr) || is_computed_by_element(instr);
    return passes_on && instr.results.size() == 1 && wanted_[instr.results[0]] && may_turn(instr.results[0]);
  }

  void want_operands(const Instr& instr) {
    const size_t count = keeps_channels_apart(instr) ? 1 : instr.operands.size();
    for (size_t i = 0; i < count; ++i)
      if (const ValueId operand = instr.operands[i]; operand && is_image(operand)) wanted_[root_of(operand)] = true;
  }

  // --- which do

  void find_turned() {
    for (const Instr& instr : trace_.instrs) {
      if (instr.results.size() != 1 || trace_[instr.results[0]].kind != ValueKind::tensor) continue;
      const ValueId result = instr.results[0];
      if (!turns(instr, result) || !may_turn(result)) continue;
      turned_[result] = true;
      any_ = true;
    }
  }

  bool turns(const Instr& instr, ValueId result) {
    if (is_convolution(instr)) return wanted_[result] || is_turned(instr.operands[0]);
    if (keeps_channels_apart(instr)) return is_turned(instr.operands[0]);
    const auto is_turned_and_whole = [&](ValueId operand) { return operand && is_turned(operand) && has_channels_of(operand, result); };
    return is_computed_by_element(instr) && std::any_of(instr.operands.begin(), instr.operands.end(), is_turned_and_whole);
  }

  // A turned value, or a slice of one.
  bool is_turned(ValueId value) const {
    while (root_of(value) != value) {
      const Instr& made = trace_[trace_[value].definition];
      if (made.op != Op::slice && made.op != Op::alias && made.op != Op::detach) return false;
      value = made.operands[0];
    }
    return turned_[value];
  }

  // As many axes, and more than one position: what only repeats along an image says nothing of how it should lie.
  bool has_channels_of(ValueId operand, ValueId result) const {
    const TensorType& type = trace_.type(operand);
    return type.rank() == trace_.type(result).rank() && !has_one_position(type);
  }

  // --- the trace that comes of it

  Trace rewritten() {
    Copier copier(trace_, result_);
    for (uint32_t i = 0; i < trace_.instrs.size(); ++i) rewrite(InstrId(i), copier);
    copier.finish();
    return std::move(result_);
  }

  void rewrite(InstrId id, Copier& copier) {
    const Instr& instr = trace_[id];
    const bool one = instr.results.size() == 1 && trace_[instr.results[0]].kind == ValueKind::tensor;
    if (one && turned_[instr.results[0]]) turn(instr, copier);
    else if (one && info(instr.op).kind == OpKind::view && turned_[root_of(instr.results[0])]) view_again(instr, copier);
    else copier.copy(id);
  }

  void turn(const Instr& instr, Copier& copier) {
    TensorType type = trace_.type(instr.results[0]);
    type.root = ValueId();
    type.storage = Storage();
    type.strides = channels_last_strides(result_.dims, type.sizes);
    Instr fresh = instr;
    fresh.results.clear();
    for (ValueId& operand : fresh.operands)
      if (operand) operand = copier[operand];
    const InstrId made = copier.builder().append(std::move(fresh), {std::move(type)});
    copier.replace(instr.results[0], result_[made].results[0]);
  }

  void view_again(const Instr& instr, Copier& copier) {
    copier.builder().set_location(instr.location);
    copier.replace(instr.results[0], copier.builder().view(instr.op, copier[instr.operands[0]], instr.attrs));
  }

  const Trace& trace_;
  DimTable dims_;                      // a copy to compute in
  Trace result_;
  IdMap<ValueId, bool> free_, wanted_, turned_;   // by root
  IdMap<Storage, uint32_t> roots_;
  bool any_ = false;
};

}  // namespace

Trace make_channels_last(const Trace& trace) { return ChannelsLast(trace).run(); }

}  // namespace escapement
