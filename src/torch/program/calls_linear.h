// Linear layers as library calls: packed (pack.h) or plain, with bias and the activation that follows.
#pragma once

#include "torch/program/calls.h"

namespace escapement {

bool run_linear(const CallRecipe& recipe, CallState& state, TensorTable& tensors, const Context& context,
                const std::vector<TensorRecipe>& recipes);
// Makes a result of a library the memory of its value. False: it does not have the layout that the plan relies on.
bool take_result(const CallRecipe::Result& result, at::Tensor seen, TensorTable& tensors, const std::vector<TensorRecipe>& recipes);

}  // namespace escapement
