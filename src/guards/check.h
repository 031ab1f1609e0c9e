// What a guard means to a reader: its text, and which guard did not hold, of what, and what was seen. (`holds` itself:
// trace/guard_relation.h.)
#pragma once

#include <span>
#include <string>

#include "trace/guard_relation.h"
#include "trace/trace.h"

namespace escapement {

std::string to_string(const Trace& trace, const Guard& guard);    // "s0 == s1"

struct GuardMiss {
  std::string source;    // "arg0.size[1]": the inputs that the guard reads
  std::string expected;  // "s0 == s1, asked by: add at model.py:12"
  std::string seen;      // "3 == 4"
};
GuardMiss explain(const Trace& trace, const Guard& guard, std::span<const int64_t> symbol_values);

// Whether every symbol of the guard is read from the inputs, so that it can be tested before anything runs.
bool testable_at_entry(const Trace& trace, const Guard& guard);

}  // namespace escapement
