// The arithmetic of sizes in an exported program (_operator.mul, torch.sym_max, ...) on what its values hold: plain numbers,
// or the symbols of a recording, which stay symbols. Plain integers follow Python: division rounds down, and an overflow is
// an error.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <span>
#include <string_view>

namespace escapement {

struct SymbolicOp {
  enum class Kind : uint8_t { eq, ne, lt, le, gt, ge, add, sub, mul, floordiv, mod, truediv, pow, min, max, both, either,
                              neg, pos, negation, to_int, to_float, sqrt, choose };
  std::string_view target;   // "_operator.add"
  Kind kind;
  size_t arity;
};

const SymbolicOp* find_symbolic_op(std::string_view target);   // null: it is none
c10::IValue run_symbolic_op(const SymbolicOp& op, std::span<const c10::IValue> arguments);

// Whether a truth value holds; of a symbolic one the outcome is guarded.
bool holds(const c10::IValue& truth);
c10::IValue at_least(const c10::IValue& value, int64_t bound);
c10::IValue at_most(const c10::IValue& value, int64_t bound);

}  // namespace escapement
