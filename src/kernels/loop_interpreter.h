// The living definition of LoopNest and of the KernelArgs calling convention: runs a nest one element at a time, in the plainest
// way. Compiled kernels are compared with it bit for bit; hosts that may not run generated code run it instead
// (jit/run/interpreted_kernel.h makes a KernelCode of it).
#pragma once

#include "kernels/loops.h"

namespace escapement {

enum class NestPart : uint8_t {
  whole,
  partial,  // the first stage, on stretches [inner_begin, inner_end) of rows [outer_begin, outer_end); results to args.scratch
  finish,   // rows [outer_begin, outer_end): combines the first stage's results (inner_end stretches a row), runs the other stages
};

void interpret(const LoopNest& nest, NestPart part, const KernelArgs& args, int64_t outer_begin, int64_t outer_end,
               int64_t inner_begin, int64_t inner_end);

// Row schedule that begins with a reducing element stage: it may run in parts.
bool has_parts(const LoopNest& nest);

}  // namespace escapement
