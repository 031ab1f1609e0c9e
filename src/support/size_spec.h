// SizeSpec: a size as a front end knows it: a number, one of the program's symbols, or arithmetic on such. A symbol may have a declared
// range; a recording then relies on it, and checks it at entry. Without an operator nothing is known of it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "support/size_op.h"

namespace escapement {

struct SizeSpec {
  std::optional<SizeOp> op;      // of whole numbers
  int64_t number = 0;            // constant's value, symbol's number
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();   // of a symbol
  std::vector<SizeSpec> operands;   // of an operator: two
};

}  // namespace escapement
