// Convolutions on packed weights (pack_convolution.h), in the layout that the library computes in: of images where the operand or the result has its
// channels innermost, of volumes and of lines in groups, which ATen is slow at, in any case. What does not suit it is ATen's own call, and so is
// whatever ATen would refuse.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "torch/program/calls.h"

namespace escapement {

// Of the arguments of aten::conv1d, conv2d or conv3d and a kernel of these sizes; nothing where they vary between calls, or the image must be padded
// more on one side. A line is an image of one row.
std::optional<ConvolutionWindow> window_of(const std::vector<CallRecipe::Argument>& arguments, std::span<const int64_t> kernel);

// Puts the result in place of the arguments on the stack. False: the call is ATen's, and the stack as it was.
bool run_convolution(const CallRecipe& recipe, CallState& state);

}  // namespace escapement
