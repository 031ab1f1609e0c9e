// See epilogue.h. The combined instruction stands where the linear stood: it reads the same memory at the same time, and the
// activation reads nothing else.
#include "specialize/epilogue.h"

#include <algorithm>
#include <string_view>

#include "trace/copier.h"

namespace escapement {
namespace {

std::string_view epilogue_name(Op op) {
  switch (op) {
    case Op::relu: case Op::gelu: case Op::gelu_tanh: case Op::silu: case Op::sigmoid: case Op::tanh: return name_of(op);
    default: return {};
  }
}

class Marker {
 public:
  explicit Marker(const Trace& trace) : trace_(trace), copier_(trace, result_), uses_(trace.values.size()), user_(trace.values.size()) {
    count_uses();
  }

  Trace run() {
    IdMap<InstrId, bool> taken(trace_.instrs.size());
    for (uint32_t i = 0; i < trace_.instrs.size(); ++i) {
      if (taken[InstrId(i)]) continue;
      const InstrId follower = follower_of(trace_.instrs[i]);
      const InstrId copy = copier_.copy(InstrId(i));
      if (!follower) continue;
      taken[follower] = true;
      result_.instrs[copy.index].attrs.mode = epilogue_name(trace_[follower].op);
      copier_.replace(trace_[follower].results[0], result_[copy].results[0]);
    }
    copier_.finish();
    return std::move(result_);
  }

 private:
  void count_uses() {
    for (uint32_t i = 0; i < trace_.instrs.size(); ++i) {
      for (const ValueId operand : trace_.instrs[i].operands) {
        if (operand) ++uses_[operand], user_[operand] = InstrId(i);
      }
    }
    for (const Output& output : trace_.outputs) {
      if (output.value) ++uses_[output.value];
    }
    for (uint32_t s = 0; s < trace_.dims.symbol_count(); ++s) {
      if (const ValueId value = trace_.dims.info(Symbol(s)).source.value) ++uses_[value];
    }
  }

  bool is_parameter(ValueId value) const {
    return std::any_of(trace_.inputs.begin(), trace_.inputs.end(),
                       [&](const Input& input) { return input.parameter && input.kind == Input::Kind::tensor && input.value == value; });
  }

  // The activation that a linear can take, or none.
  InstrId follower_of(const Instr& instr) const {
    if (instr.op != Op::linear || instr.operands.size() < 2 || !instr.attrs.mode.empty() || !is_parameter(instr.operands[1])) return {};
    const ValueId value = instr.results[0];
    if (uses_[value] != 1 || !user_[value]) return {};
    const Instr& next = trace_[user_[value]];
    if (epilogue_name(next.op).empty() || next.operands.size() != 1) return {};
    const TensorType &before = trace_.type(value), &after = trace_.type(next.results[0]);
    const bool same = before.dtype == DType::f32 && after.dtype == DType::f32 && before.sizes == after.sizes && before.strides == after.strides;
    return same ? user_[value] : InstrId();
  }

  const Trace& trace_;
  Trace result_;
  Copier copier_;
  IdMap<ValueId, uint32_t> uses_;
  IdMap<ValueId, InstrId> user_;
};

}  // namespace

Trace mark_epilogues(const Trace& trace) { return Marker(trace).run(); }

}  // namespace escapement
