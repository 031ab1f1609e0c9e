// The one definition of when a guard's relation holds. The quick entry check, the checks inside a plan, the replay and the
// reference evaluator all ask here.
#pragma once

#include "trace/trace.h"

namespace escapement {

inline bool holds(Guard::Kind kind, int64_t left, int64_t right) {
  switch (kind) {
    case Guard::Kind::equal: return left == right;
    case Guard::Kind::not_equal: return left != right;
    case Guard::Kind::less: return left < right;
    case Guard::Kind::less_equal: return left <= right;
    case Guard::Kind::broadcast: return left == right || left == 1;
  }
  return false;
}

}  // namespace escapement
