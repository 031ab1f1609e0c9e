// See layouts.h.
#include "torch/replay_mode/layouts.h"

#include <algorithm>
#include <array>

#include "trace/layout.h"

namespace escapement {
namespace {

template <size_t count>
bool is_among(const std::array<std::string_view, count>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// They make a new contiguous tensor for their result, of operands in any layout.
constexpr std::array<std::string_view, 33> kNew = {
    "mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "any",
    "all", "var", "std", "linalg_vector_norm", "norm", "logsumexp", "softmax", "_softmax", "log_softmax", "_log_softmax", "layer_norm",
    "native_layer_norm", "embedding", "index_select", "gather", "contiguous", "reshape", "reshape_as", "flatten"};

// By one TensorIterator, over their operands in this order.
constexpr std::array<std::string_view, 31> kIterated = {
    "add", "sub", "mul", "div", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh", "erf", "floor", "ceil", "sign",
    "square", "relu", "sigmoid", "silu", "gelu", "maximum", "minimum", "addcmul", "addcdiv", "expm1", "log1p", "exp2", "log2"};

constexpr std::array<std::string_view, 7> kReshapes = {"view", "view_as", "_unsafe_view", "reshape", "reshape_as", "flatten", "unflatten"};

bool has(std::span<const Instr> made, Op op) {
  return std::any_of(made.begin(), made.end(), [&](const Instr& instr) { return instr.op == op; });
}

// Into the memory format that its operands suggest, which is another than contiguous for images and volumes only.
bool is_joined(const OpPlan& plan, std::span<const Instr> made) { return plan.base == "cat" || has(made, Op::pad); }

}  // namespace

bool is_natural(DimTable& dims, const TensorType& type) {
  const std::vector<Dim> strides = contiguous_strides(dims, type.sizes);
  return std::equal(strides.begin(), strides.end(), type.strides.begin(), type.strides.end(), [&](Dim a, Dim b) { return dims.same(a, b); });
}

bool is_call(std::span<const Instr> made) {
  return std::any_of(made.begin(), made.end(), [](const Instr& instr) { return info(instr.op).kind == OpKind::call; });
}

bool ignores_layouts(const OpPlan& plan) { return plan.base == "scaled_dot_product_attention"; }

LayoutHolds layout_of_view(const OpPlan& plan, std::span<const Instr> made, const OperandLayouts& operand, bool natural) {
  if (is_call(made) || has(made, Op::expand)) return LayoutHolds::addressed;
  if (is_among(kReshapes, plan.base)) return natural && operand.natural ? operand.least : LayoutHolds::addressed;
  if (plan.base == "alias" || plan.base == "detach") return operand.least;
  return std::min(operand.least, LayoutHolds::elements);   // an expression has no minimum of 1 for a size of 0
}

LayoutHolds layout_of_new(const OpPlan& plan, std::span<const Instr> made, const OperandLayouts& operands, bool natural, int rank) {
  if (ignores_layouts(plan)) return LayoutHolds::elements;
  if (is_call(made)) return std::min(operands.least, LayoutHolds::elements);
  if (!natural) return LayoutHolds::addressed;
  // A matrix times matrices is computed the other way round, and its result is contiguous already or copied.
  if (plan.base == "matmul" && rank > 2 && operands.first_rank <= 2) return LayoutHolds::addressed;
  if (is_among(kNew, plan.base) || (is_joined(plan, made) && rank != 4 && rank != 5)) return LayoutHolds::always;
  if (!operands.natural) return LayoutHolds::addressed;
  // Operands that are broadcast or indexed have their axes sorted, which the size 0 upsets.
  const bool sorted = plan.base == "index" || (plan.pointwise && !operands.alike);
  return sorted && rank > 1 ? std::min(operands.least, LayoutHolds::elements) : operands.least;
}

namespace {

bool all(std::span<const Instr> made, std::initializer_list<Op> ops) {
  const auto is_one = [&](const Instr& instr) { return std::find(ops.begin(), ops.end(), instr.op) != ops.end(); };
  return std::all_of(made.begin(), made.end(), is_one);
}

// One after the other. None where it is not told which part is taken.
LayoutRule rule_of_parts(std::span<const Instr> made, const FormulaOf& formula_of) {
  LayoutRule rule;
  rule.kind = LayoutRule::Kind::dropped;
  for (const Instr& instr : made) {
    if (instr.op != Op::squeeze && instr.op != Op::select) continue;
    auto start = instr.op == Op::select ? formula_of(instr.attrs.start) : Formula();
    if (!start) return {};
    rule.axes.push_back(instr.attrs.axis);
    rule.starts.push_back(std::move(*start));
  }
  return rule;
}

LayoutRule rule_of_slice(const Attrs& attrs, const FormulaOf& formula_of) {
  auto start = formula_of(attrs.start), step = formula_of(attrs.step);
  if (!start || !step) return {};
  LayoutRule rule;
  rule.kind = LayoutRule::Kind::stepped;
  rule.axes = {attrs.axis};
  rule.starts = {std::move(*start), std::move(*step)};
  return rule;
}

}  // namespace

LayoutRule rule_of_view(const OpPlan& plan, std::span<const Instr> made, const FormulaOf& formula_of) {
  LayoutRule rule;
  if (!made.empty() && all(made, {Op::squeeze})) return rule_of_parts(made, formula_of);   // one axis after the other
  if (made.size() != 1) return rule;
  const Attrs& attrs = made[0].attrs;
  switch (made[0].op) {
    case Op::permute: rule.kind = LayoutRule::Kind::permuted, rule.axes = attrs.axes; break;
    case Op::unsqueeze: rule.kind = LayoutRule::Kind::unsqueezed, rule.axes = {attrs.axis}; break;
    case Op::expand: rule.kind = LayoutRule::Kind::expanded; break;
    case Op::reshape: rule.kind = is_among(kReshapes, plan.base) ? LayoutRule::Kind::reshaped : LayoutRule::Kind::none; break;
    case Op::slice: return rule_of_slice(attrs, formula_of);
    case Op::select:
    case Op::alias:
    case Op::detach: return rule_of_parts(made, formula_of);
    default: break;
  }
  return rule;
}

LayoutRule rule_of_new(const OpPlan& plan, std::span<const Instr> made, const OperandLayouts& operands, bool natural) {
  LayoutRule rule;
  if (is_among(kIterated, plan.base) && operands.one_dtype) rule.kind = LayoutRule::Kind::sorted;
  if (is_joined(plan, made) && natural) rule.kind = LayoutRule::Kind::joined;
  return rule;
}

}  // namespace escapement
