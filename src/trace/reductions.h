// The rows of reduce.def. What a reduction is, its rule, the reference, the loop nests and the code read here.
#pragma once

#include <string>

#include "support/error.h"
#include "trace/ops.h"
#include "trace/scalar.h"

namespace escapement {

// Their meaning: reduce.def.
enum class Identity : uint8_t { zero, one, least, greatest };
enum class Accumulator : uint8_t { result, operand, truth, count };
enum class Gives : uint8_t { value, position };

struct ReductionInfo {
  Op op;
  ScalarOp combine;
  Identity identity;
  Accumulator accumulator;
  Gives gives;

  constexpr bool gives_position() const { return gives == Gives::position; }
  // Of no elements there is nothing to give.
  constexpr bool is_extreme() const { return identity == Identity::least || identity == Identity::greatest; }
};

inline constexpr ReductionInfo kReductions[] = {
#define REDUCTION(op, combine, identity, accumulator, gives) \
  {Op::op, ScalarOp::combine, Identity::identity, Accumulator::accumulator, Gives::gives},
#include "trace/reduce.def"
#undef REDUCTION
};

constexpr const ReductionInfo* find_reduction(Op op) {
  for (const ReductionInfo& row : kReductions)
    if (row.op == op) return &row;
  return nullptr;
}

inline const ReductionInfo& reduction(Op op) {
  if (const ReductionInfo* row = find_reduction(op)) return *row;
  throw InternalError("not a reduction: " + std::string(name_of(op)));
}

inline bool gives_position(Op op) {
  const ReductionInfo* row = find_reduction(op);
  return row && row->gives_position();
}

}  // namespace escapement
