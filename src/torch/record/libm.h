// Python's `a ** b` and `math.log2` of symbolic floats, to the last bit: the C library's functions, as library calls of the trace. The op table's own are
// vector code, which rounds differently, and what a program reads or returns is compared with Python's number.
#pragma once

#include "torch/record/recorder_tape.h"

namespace escapement {

// Of 0-d f64 values that are `base` and `exponent` now.
ValueId record_power(Tape& tape, ValueId base_value, double base, ValueId exponent_value, double exponent);
ValueId record_log2(Tape& tape, ValueId value, double seen);

}  // namespace escapement
