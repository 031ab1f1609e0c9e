// Passes from trace to trace. Each is one function in one file; the order stands in support/stages.def.
#pragma once

#include "trace/trace.h"

namespace escapement {

// Leaves out what no output, effect, guard or symbol needs.
Trace remove_dead_code(const Trace& trace);

// What a check needs, where that follows from arguments alone, stands before the first effect, and the check with it.
Trace check_early(const Trace& trace);

// What gives back its operand bit by bit is its operand: `x * 1`, two signs, a detour through a wider type.
Trace remove_identities(const Trace& trace);

// Equal instructions on equal memory become one. Values that leave the program keep memory of their own.
Trace share_common_values(const Trace& trace);

}  // namespace escapement
