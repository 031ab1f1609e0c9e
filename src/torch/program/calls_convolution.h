// Two-dimensional convolutions whose operand or result has its channels innermost: on packed weights (pack_convolution.h), in the layout that the library
// computes in. What does not suit it is ATen's own call, and so is whatever ATen would refuse.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "torch/program/calls.h"

namespace escapement {

// Of the arguments of aten::conv2d and a kernel of these sizes; nothing where they vary between calls, or the image must be padded more on one side.
std::optional<ConvolutionWindow> window_of(const std::vector<CallRecipe::Argument>& arguments, std::array<int64_t, 2> kernel);

// Puts the result in place of the arguments on the stack. False: the call is ATen's, and the stack as it was.
bool run_convolution(const CallRecipe& recipe, CallState& state);

}  // namespace escapement
