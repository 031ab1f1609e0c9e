// Where eager copies a tensor at some sizes, and at others returns the tensor itself (contiguous) or a view of it (reshape). Which of them
// it does is decided by sizes and strides; what is given here holds now, and as long as it holds, eager copies.
// In replay mode (Tape::host_looks) anybody may notice at once, so the decision is guarded at the operator, whichever way it went.
#pragma once

#include <span>
#include <vector>

#include "trace/trace.h"

namespace escapement {

struct CopyCondition {
  Guard::Kind kind;
  Dim left, right;
  bool holds;   // of the relation
};

// `copied`: the strides that the result has. Empty: eager does not copy at the sizes of this recording, or it cannot be said why.
std::vector<CopyCondition> why_contiguous_copies(DimTable& dims, const TensorType& type, std::span<const Dim> copied);
std::vector<CopyCondition> why_reshape_copies(DimTable& dims, const TensorType& type, std::span<const Dim> sizes);

}  // namespace escapement
