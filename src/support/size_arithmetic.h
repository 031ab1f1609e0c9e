// Arithmetic of sizes: 64-bit integers, exact or nothing. Whoever computes a size does it with these, and says in words of its own what an
// overflow or a division by zero means there: no such size, eager's turn, or an error.
#pragma once

#include <cstdint>
#include <optional>

#include "support/floor_division.h"

namespace escapement {

using ExactSize = std::optional<int64_t>;

constexpr ExactSize exact_sum(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? ExactSize() : result;
}

constexpr ExactSize exact_difference(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_sub_overflow(a, b, &result) ? ExactSize() : result;
}

constexpr ExactSize exact_product(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? ExactSize() : result;
}

constexpr ExactSize exact_quotient(int64_t a, int64_t b) { return has_quotient(a, b) ? ExactSize(floor_quotient(a, b)) : ExactSize(); }

constexpr ExactSize exact_remainder(int64_t a, int64_t b) { return b != 0 ? ExactSize(floor_remainder(a, b)) : ExactSize(); }

// `exponent` is not negative.
constexpr ExactSize exact_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return {};
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return {};
  }
  return result;
}

}  // namespace escapement
