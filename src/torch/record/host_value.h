// A value that the program reads: what it gets for the number that is there now.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Scalar.h>

#include "torch/record/recorder_tape.h"

namespace escapement {

// An integer or a boolean is a symbol, a float an expression; noted in the script of the recording's exits. Refuses what has no kernels.
c10::IValue host_value(Tape& tape, ValueId value, const c10::Scalar& seen);
// `value`, a tensor, becomes one of a wider dtype where its own has no kernels of ours.
void widen(Tape& tape, c10::IValue& value);

}  // namespace escapement
