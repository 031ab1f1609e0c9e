// What an instruction does beside giving its results and writing its operands: one answer for the recorder, the scheduler and the run time.
#pragma once

#include "trace/trace.h"

namespace escapement {

// Does a library call act on more than the memory that it writes? One that draws random numbers does, and so does one that must run though it
// writes nothing that a trace knows.
inline bool acts_outside(const Instr& call) {
  if (call.effect && call.why == Reason::call_random) return true;
  // What of ATen neither writes nor returns anything (`_linalg_check_errors`) is there to raise.
  const bool only_raises = call.results.empty() && call.attrs.target.starts_with("aten::");
  return call.effect && call.writes.empty() && !only_raises;
}

}  // namespace escapement
