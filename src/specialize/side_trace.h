// A recording cut in two at a snapshot: the trace before it, whose outputs are what the host still held there, and the side trace behind
// it, which takes these as arguments. The two run one after the other as the whole would; but other side traces may follow the same
// trace, one for each way in which the host decided.
#pragma once

#include <vector>

#include "trace/trace.h"

namespace escapement {

// A place between two instructions, and what must be handed on there.
struct Snapshot {
  uint32_t instrs = 0;            // of the recording, that lie before it
  std::vector<ValueId> live;      // roots of what the host held, ascending; inputs are not among them
  std::vector<Symbol> born;       // numbers that appeared before it, ascending
};

// What the trace before a snapshot hands on: first `live`, then `born`.
std::vector<Output> handed_on(DimTable& dims, const Snapshot& snapshot);

// The arguments of a side trace are all inputs of the recording, captured tensors too, then what the snapshot hands on. Throws InternalError
// where it needs something else that was computed before the snapshot.
Trace side_trace(const Trace& whole, const Snapshot& snapshot);

// For tests and tools, which have no recorder to ask: a snapshot that holds all there is, and the trace before one.
Snapshot snapshot_of_all(const Trace& whole, uint32_t instrs);
Trace trace_before(const Trace& whole, const Snapshot& snapshot);

}  // namespace escapement
