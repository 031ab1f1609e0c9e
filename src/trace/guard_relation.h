// What the relation of a guard is: when it holds, and its word. The quick entry check, the checks inside a plan, the replay and the
// reference evaluator all ask here, and so does every text.
#pragma once

#include <string_view>

#include "trace/trace.h"

namespace escapement {

inline bool holds(Guard::Kind kind, int64_t left, int64_t right) {
  switch (kind) {
    case Guard::Kind::equal: return left == right;
    case Guard::Kind::not_equal: return left != right;
    case Guard::Kind::less: return left < right;
    case Guard::Kind::less_equal: return left <= right;
  }
  return false;
}

inline constexpr std::string_view kRelations[] = {"==", "!=", "<", "<="};   // by Guard::Kind
constexpr std::string_view relation_text(Guard::Kind kind) { return kRelations[static_cast<size_t>(kind)]; }

}  // namespace escapement
