// `x.conj()` and `_neg_view` (what `x.conj().imag` is) share the memory of x, with a bit that says how its elements are meant. A trace has what the elements
// are: the conjugate, written down. The program's tensor has eager's bit, which is asked without anybody's notice (`is_conj()`), and so have views of it. That
// both are one memory shows where one of them is written, or is a result: then the recording is lost, and the call runs as it did.
#pragma once

#include "torch/record/lower.h"

namespace escapement {

// Takes the argument of such an operator from the stack and leaves the result there; false, and nothing taken, where it cannot be.
bool record_lazy_bit(Tape& tape, const OpPlan& plan, torch::jit::Stack& stack);

}  // namespace escapement
