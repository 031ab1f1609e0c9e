// One operator of a program that is being recorded, on real tensors: it runs unseen, and what it writes is noted. On the way to an exit
// it does not run at all where its results are there already (forward.h).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "torch/record/lower.h"

namespace escapement {

// The arguments become real tensors and numbers.
void run_real(const c10::OperatorHandle& op, torch::jit::Stack& stack, size_t arguments);

bool autocast_applies(const OpPlan& plan);
void run_autocast(const c10::OperatorHandle& op, torch::jit::Stack& stack);   // casts, which come back to us, and the operator again

}  // namespace escapement
