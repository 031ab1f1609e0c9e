// Python's `a ** b` of symbolic floats, to the last bit: the C library's pow, as a library call of the trace. The op table's own pow is
// vector code, which rounds differently, and what a program reads or returns is compared with Python's number.
#pragma once

#include "torch/record/recorder_tape.h"

namespace escapement {

// Of 0-d f64 values that are `base` and `exponent` now.
ValueId record_power(Tape& tape, ValueId base_value, double base, ValueId exponent_value, double exponent);

}  // namespace escapement
