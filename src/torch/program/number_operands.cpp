// See number_operands.h.
#include "torch/program/number_operands.h"

namespace escapement {
namespace {

// Their numbers are no tensors for ATen, whose iterator looks at the operands' sizes. (Of `2 ** x` it is one.)
bool takes_numbers(const Instr& instr, size_t operand) {
  switch (instr.op) {
    case Op::pow: return operand == 1;
    case Op::clamp_min: case Op::clamp_max: case Op::lerp: return true;
    default: return !numbers_of(instr.op).empty();
  }
}

}  // namespace

bool has_only_whole(const Trace& trace, const Instr& made, const TensorType& type) {
  for (size_t i = 0; i < made.operands.size(); ++i) {
    const TensorType& operand = trace.type(made.operands[i]);
    if (operand.sizes != type.sizes && !(operand.rank() == 0 && takes_numbers(made, i))) return false;
  }
  return true;
}

}  // namespace escapement
