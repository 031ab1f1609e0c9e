// Floats in size expressions: `int(n * 0.7)`, `min(8 / h, 16 / w) < 1`. A float is an atom whose value is the bits of a double, and meets whole numbers only
// in the operators below: `real` makes one of an integer, `real_floor`, `real_round` and `real_less` lead back. What is not finite has no value, so whoever
// needs such a number is not served, and eager says what it thinks of it.
#pragma once

#include <bit>
#include <optional>
#include <string_view>

#include "dims/dims.h"
#include "support/size_op.h"

namespace escapement {

constexpr bool is_unary(SizeOp op) {
  return op == SizeOp::real || op == SizeOp::real_sqrt || op == SizeOp::real_log2 || op == SizeOp::real_floor || op == SizeOp::real_round;
}
constexpr bool is_of_libm(SizeOp op) { return op == SizeOp::real_pow || op == SizeOp::real_log2; }   // no instruction of a processor
constexpr bool takes_real(SizeOp op) { return is_real_op(op) && op != SizeOp::real; }
constexpr bool makes_real(SizeOp op) { return is_real_op(op) && op != SizeOp::real_floor && op != SizeOp::real_round && op != SizeOp::real_less; }
constexpr bool commutes(SizeOp op) {
  return op == SizeOp::add || op == SizeOp::mul || op == SizeOp::min || op == SizeOp::max || op == SizeOp::real_add || op == SizeOp::real_mul;
}

constexpr double kWholeBelow = 9.2e18;   // in magnitude: what is rounded to an integer of 64 bits

constexpr int64_t real_bits(double value) { return std::bit_cast<int64_t>(value); }
constexpr double real_of(int64_t bits) { return std::bit_cast<double>(bits); }

std::string_view name_of(SizeOp op);                        // "floordiv", "real_mul"; "wide_add" and "wide_mul"
std::optional<SizeOp> size_op(std::string_view name);
ExactSize exact_real(SizeOp op, int64_t a, int64_t b);     // of an operator with one operand the second one is not looked at

// Ranges of atoms. Doubles in the order of their values, as integers: the range of a float is one of these.
Range real_range(SizeOp op, Range a, Range b);
constexpr int64_t real_rank(double value) {
  const int64_t bits = real_bits(value);
  return bits >= 0 ? bits : bits ^ INT64_MAX;
}

}  // namespace escapement
