// The kinds of cases of the IR fuzzer. Each makes one random thing from a seed and compares every way there is of computing it; a
// difference is a `Finding`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/run/kernel_code.h"
#include "kernels/plan.h"

namespace escapement::fuzz {

struct Finding {
  std::string what;      // which two ways differ, and where
  std::string text;      // the smallest text that still shows it
};

struct Counts {
  uint64_t made = 0;      // traces, nests, tables
  uint64_t cases = 0;     // comparisons: (what was made, its sizes and data, two ways)
  uint64_t refused = 0;   // sizes that a guard refuses, positions out of range: eager's error, nothing to compare
};

// What machine code is being run for: a fault has no other way to say it.
inline std::string text_in_hand;

// Traces: each pass against the trace before it; print and parse; plans (fused, in small kernels, apart) in the loop interpreter
// against the reference evaluator.
std::optional<Finding> check_trace(uint64_t seed, Counts& counts);
// The same with machine code instead of the interpreter. Costs milliseconds of compiling, then runs many sizes and layouts.
using CodeMaker = std::vector<std::shared_ptr<KernelCode>> (*)(const std::vector<Kernel>& kernels);
std::optional<Finding> check_trace_code(uint64_t seed, CodeMaker code, Counts& counts);
// Loop nests: machine code of every variant, cut in every way, against the loop interpreter. Also with sizes known to the optimiser.
std::optional<Finding> check_nest(uint64_t seed, Counts& counts);
// Sizes: what DimTable knows of random expressions under random facts against their values; text; evaluation by three programs.
std::optional<Finding> check_dims(uint64_t seed, Counts& counts);
// Guard programs and shape programs: interpreter against the definition on tables at the ends of 64 bits.
std::optional<Finding> check_guards(uint64_t seed, Counts& counts);
// The same with machine code.
std::optional<Finding> check_guard_code(uint64_t seed, Counts& counts);

// The text of a trace that failed, run again through the checks of traces: for goldens and for looking closer. Empty: no difference.
std::string check_text(const std::string& trace, uint64_t seed, CodeMaker code);

}  // namespace escapement::fuzz
