// SizeOp: the operators of size expressions, the one enum of all who hold such expressions: the table of sizes, programs compiled from it,
// declarations of front ends. What they compute: whole numbers here, all of them in dims/step_arithmetic.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "support/size_arithmetic.h"

namespace escapement {

enum class SizeOp : uint8_t { constant, symbol, dim, add, mul, floordiv, mod, min, max,
                              real, real_add, real_mul, real_div, real_pow, real_sqrt, real_log2, real_min, real_max, real_less, real_floor, real_round };

constexpr bool is_real_op(SizeOp op) { return op >= SizeOp::real; }
constexpr bool is_leaf(SizeOp op) { return op <= SizeOp::dim; }
constexpr bool divides(SizeOp op) { return op == SizeOp::floordiv || op == SizeOp::mod; }

// Nothing where there is no such number, of leaves, and of floats.
constexpr ExactSize exact_whole(SizeOp op, int64_t a, int64_t b) {
  switch (op) {
    case SizeOp::add: return exact_sum(a, b);
    case SizeOp::mul: return exact_product(a, b);
    case SizeOp::floordiv: return exact_quotient(a, b);
    case SizeOp::mod: return exact_remainder(a, b);
    case SizeOp::min: return std::min(a, b);
    case SizeOp::max: return std::max(a, b);
    default: return {};
  }
}

}  // namespace escapement
