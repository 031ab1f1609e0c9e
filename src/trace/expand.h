// Expansion: what each composite row of ops.def means, in pointwise ops, reductions and views.
//
// Half inputs are computed in f32 and rounded once at the end, as eager's kernels do internally. Orders of operations are ATen's
// where the bits depend on it. The reference evaluator and the compiler both run this, so a composite has one meaning.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "trace/builder.h"
#include "trace/trace.h"

namespace escapement {

// The value of one composite on operands that are in the builder's trace already. `type` is the composite's result type.
ValueId expand_composite(Builder& builder, Op op, std::span<const ValueId> operands, const Attrs& attrs, const TensorType& type);

// The trace without composites.
Trace expand_composites(const Trace& trace);

}  // namespace escapement
