// What the operators of size expressions compute: the one place for those who run them (shape programs, replay mode, the table itself).
// The machine code of guards (jit/llvm/emit_guards.cpp) is held against it by tests.
#pragma once

#include <algorithm>

#include "dims/dims.h"
#include "dims/real.h"
#include "support/size_arithmetic.h"

namespace escapement {

constexpr bool divides(SizeOp op) { return op == SizeOp::floordiv || op == SizeOp::mod; }

// Nothing where there is no such number. The leaves of expressions are no operators.
constexpr ExactSize exact(SizeOp op, int64_t a, int64_t b) {
  switch (op) {
    case SizeOp::add: return exact_sum(a, b);
    case SizeOp::mul: return exact_product(a, b);
    case SizeOp::floordiv: return exact_quotient(a, b);
    case SizeOp::mod: return exact_remainder(a, b);
    case SizeOp::min: return std::min(a, b);
    case SizeOp::max: return std::max(a, b);
    case SizeOp::constant:
    case SizeOp::symbol:
    case SizeOp::dim: return {};
    default: return exact_real(op, a, b);
  }
}

}  // namespace escapement
