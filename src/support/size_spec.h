// SizeSpec: a size as a front end knows it: a number, one of the program's symbols, or arithmetic on such. A symbol may have a declared
// range; a recording then relies on it, and checks it at entry.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace escapement {

struct SizeSpec {
  enum class Kind : uint8_t { unknown, constant, symbol, add, mul, floordiv, mod, min, max, neg } kind = Kind::unknown;
  int64_t number = 0;            // constant's value, symbol's number
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();   // of a symbol
  std::vector<SizeSpec> operands;
};

}  // namespace escapement
