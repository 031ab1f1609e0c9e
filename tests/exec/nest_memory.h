// Memory of a launch for those who run nests and compare: filled from a seed, between guard pages, laid out as the launch says.
#pragma once

#include <string>
#include <vector>

#include "exec/nest_harness.h"

namespace escapement::testing {

struct Memory {
  std::vector<GuardedBuffer> buffers;   // per param
  std::vector<size_t> buffer_of;        // per param: whose buffer holds it
  std::vector<void*> data;
  std::vector<int64_t> strides;         // as KernelArgs has them
  int64_t failure = 0;
  KernelArgs args(const Launch& launch, void* scratch);
};

Memory make_memory(const LoopNest& nest, const Launch& launch, GuardedBuffer::Guard guard, uint64_t seed);
// Every byte, NaN for NaN; whether it failed, and nothing else where it did.
void expect_same(const LoopNest& nest, const Memory& expected, const Memory& got, const std::string& what);

// The ranges of a whole launch, and the elements of a row or column.
struct Ranges {
  int64_t outer = 1, inner = 0, reduced = 1;
};
Ranges ranges_of(const LoopNest& nest, const Launch& launch);

std::string describe(const LoopNest& nest, Variant variant, const Launch& launch);

}  // namespace escapement::testing
