// One operator is recorded: it runs on the real tensors, is lowered, and what it returns is wrapped.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "torch/record/lower.h"

namespace escapement {

// The stack holds wrappers and numbers of that tape.
void record_one(Tape& tape, const OpPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack& stack);

}  // namespace escapement
