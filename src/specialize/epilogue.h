// Epilogues: a linear layer on a parameter takes the activation that follows it, because the library applies it while the result is
// still in registers. The activation's name goes to the linear's attrs.mode; what runs it stands in torch/program/calls_linear.h.
#pragma once

#include "trace/trace.h"

namespace escapement {

// Applies where the layer's fp32 result has no other use and the same layout as the activation's.
Trace mark_epilogues(const Trace& trace);

}  // namespace escapement
