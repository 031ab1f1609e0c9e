// What the operators of size expressions compute: the one place for those who run them (shape programs, replay mode, the table itself).
// The machine code of guards (jit/llvm/emit_guards.cpp) is held against it by tests.
#pragma once

#include "dims/real.h"
#include "support/size_op.h"

namespace escapement {

// Nothing where there is no such number. The leaves of expressions are no operators.
constexpr ExactSize exact(SizeOp op, int64_t a, int64_t b) { return is_real_op(op) ? exact_real(op, a, b) : exact_whole(op, a, b); }

}  // namespace escapement
