// Whose memory a value lies in, also behind library calls that handed back their argument's memory under a name of its own (`x.view(dtype)`, `unfold`,
// a custom operator's result), whose buffer is the call's.
#pragma once

#include <optional>

#include "kernels/plan.h"

namespace escapement {

// The operand whose memory a value is in: of a view of ours, or of such a call; or none.
ValueId viewed_by(const Trace& trace, ValueId value);

uint32_t buffer_behind(const LaunchPlan& plan, ValueId value);   // or Id<void>::kNone

// The number of the input, if it is one's.
std::optional<uint32_t> input_behind(const LaunchPlan& plan, ValueId value);

}  // namespace escapement
