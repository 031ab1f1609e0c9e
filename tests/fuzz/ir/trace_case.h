// One call of a random trace: the sizes, the inputs in their layouts, and what came of it, for comparing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fuzz/ir/random.h"
#include "trace/evaluator.h"

namespace escapement::fuzz {

struct Result {
  std::vector<HostOutput> outputs;
  std::vector<HostInput> inputs;        // as the call left them
  std::optional<uint32_t> failed_guard;
  bool refused = false;                 // what eager would refuse: a position out of range
};

// Values of all symbols that are known at entry: the hints, or random ones that the trace's guards probably accept. Nothing if the tensors
// would be too large to be worth it.
std::optional<std::vector<int64_t>> hinted_sizes(const Trace& trace);
std::optional<std::vector<int64_t>> random_sizes(const Trace& trace, Random& random);
// One size is so large that launches are cut among threads, and long rows into stretches; the others are small.
std::optional<std::vector<int64_t>> large_sizes(const Trace& trace, Random& random);

// Strides that the trace leaves open are chosen here, and written to `symbols`. Inputs of one storage may lie in the same memory.
std::vector<HostInput> make_inputs(const Trace& trace, std::vector<int64_t>& symbols, Random& random);

// Copies keep what is shared shared.
std::vector<HostInput> deep_copy(const std::vector<HostInput>& inputs);

Result evaluated(const Trace& trace, const std::vector<HostInput>& inputs);
// The second behind the first, on the same inputs and what the first hands on.
Result evaluated_in_parts(const Trace& before, const Trace& side, const std::vector<HostInput>& inputs);

// What differs: values, dtypes, sizes, strides that address something, and which of the outputs and inputs share memory. Empty: nothing.
std::string difference(const Result& expected, const Result& got);

}  // namespace escapement::fuzz
