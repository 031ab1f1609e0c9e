// Division of integers as sizes are divided: rounded towards minus infinity, the rest with the divisor's sign. What has no answer is the
// caller's to refuse, in its own words; nothing here leaves 64 bits on the way to an answer that does not.
#pragma once

#include <cstdint>

namespace escapement {

constexpr bool has_quotient(int64_t a, int64_t b) { return b != 0 && (b != -1 || a != INT64_MIN); }

// Of numbers that have one.
constexpr int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// `b` is not 0. Not by way of the quotient, whose product with `b` may leave 64 bits.
constexpr int64_t floor_remainder(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace escapement
