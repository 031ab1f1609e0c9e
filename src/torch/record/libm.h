// Python's `a ** b`, `math.log2` and other functions of symbolic floats, to the last bit: the C library's functions, as library calls of the trace. The op table's own are
// vector code, which rounds differently, and what a program reads or returns is compared with Python's number.
#pragma once

#include "escapement/export.h"
#include "torch/record/recorder_tape.h"

namespace escapement {

// The operators `escapement::power`, `escapement::log2`, `escapement::log`, ... of 0-d f64 tensors.
ESCAPEMENT_API void define_libm();

// Of 0-d f64 values that are `base` and `exponent` now.
ValueId record_power(Tape& tape, ValueId base_value, double base, ValueId exponent_value, double exponent);
ValueId record_log2(Tape& tape, ValueId value, double seen);

}  // namespace escapement
