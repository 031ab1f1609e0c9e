// See number_operands.h.
#include "torch/program/number_operands.h"

namespace escapement {

bool has_only_whole(const Trace& trace, const Instr& made, const TensorType& type) {
  for (size_t i = 0; i < made.operands.size(); ++i) {
    const TensorType& operand = trace.type(made.operands[i]);
    if (operand.sizes != type.sizes && !(operand.rank() == 0 && has_trait(made.op, i, OperandTrait::number))) return false;
  }
  return true;
}

}  // namespace escapement
