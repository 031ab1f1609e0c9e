// SizeSpec: a size as a front end knows it: a number, one of the program's symbols, or arithmetic on such.
#pragma once

#include <cstdint>
#include <vector>

namespace escapement {

struct SizeSpec {
  enum class Kind : uint8_t { unknown, constant, symbol, add, mul, floordiv, mod, min, max, neg } kind = Kind::unknown;
  int64_t number = 0;            // constant's value, symbol's number
  std::vector<SizeSpec> operands;
};

}  // namespace escapement
