// Whose strides can be told without asking ATen. A stream says of each tensor what its strides are as expressions of sizes. On axes of size
// 1, and where there are no elements, nothing is addressed, and ATen computes them in several ways, of which only these are known: operators
// that make new memory of their result's sizes, whatever their operands' layout; others of operands that are laid out as new tensors are;
// and views, which carry their operand's strides over. Of all others `LayoutHolds` says that the expressions are not to be relied on there,
// and a segment that such a tensor leaves runs operator by operator at such sizes (ReplayCall::flush), unless eager's own rule is known (eager_layouts.h).
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "torch/record/lower.h"
#include "torch/replay_mode/stream.h"

namespace escapement {

// Of an operator's operands.
struct OperandLayouts {
  LayoutHolds least = LayoutHolds::always;
  bool natural = true;   // all
  bool alike = true;     // all are tensors of the result's sizes
  bool one_dtype = true;   // that of the result, so that none is cast before eager looks at its strides
  int first_rank = -1;
};

bool is_natural(DimTable& dims, const TensorType& type);   // for all sizes: the strides of a new tensor

// `made`: the instructions that an operator was recorded as. `natural`: its result, too.
LayoutHolds layout_of_view(const OpPlan& plan, std::span<const Instr> made, const OperandLayouts& operand, bool natural);
LayoutHolds layout_of_new(const OpPlan& plan, std::span<const Instr> made, const OperandLayouts& operands, bool natural, int rank);

// The rule by which eager lays out the result where the expressions do not say it; its operands are the caller's to fill in.
using FormulaOf = std::function<std::optional<Formula>(Dim)>;   // none: no expression of what is known before the segment runs
LayoutRule rule_of_view(const OpPlan& plan, std::span<const Instr> made, const FormulaOf& formula_of);
LayoutRule rule_of_new(const OpPlan& plan, std::span<const Instr> made, const OperandLayouts& operands, bool natural);

bool is_call(std::span<const Instr> made);
bool ignores_layouts(const OpPlan& plan);   // it does the same, and lays out its result, whatever its operands' strides: attention

}  // namespace escapement
