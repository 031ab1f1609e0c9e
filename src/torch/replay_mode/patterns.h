// What a new branch of a stream says of an operator's arguments. Sizes and integers are inputs from the start. A number is a
// constant first; where a branch with another number exists already it becomes an input, so that a learning rate that decays
// or a counter makes two branches and not one for each value.
#pragma once

#include <memory>
#include <span>

#include "torch/record/each_tensor.h"
#include "torch/record/lower.h"
#include "torch/replay_mode/segment.h"

namespace escapement {

// Whether patterns can say it all; else the operator runs at once.
bool can_describe(const OpPlan& plan, std::span<const c10::IValue> arguments);

// A node with arguments, inputs and extent. `similar`: nodes of branches beside this one.
std::unique_ptr<StreamNode> describe_arguments(const Segment& segment, const OpPlan& plan, const c10::OperatorHandle& op,
                                               std::span<const c10::IValue> arguments, const Extent& before,
                                               std::span<StreamNode* const> similar);

NumberUse number_use(const OpPlan& plan, std::span<const c10::IValue> arguments);

// Equal but for numbers.
bool is_similar(const StreamNode& a, const StreamNode& b);

}  // namespace escapement
