// What is known about an operator before its first call: read once per operator and thread from its schema, tags and kernels.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "torch/record/lower.h"

namespace escapement {

namespace {

std::string base_of(const c10::FunctionSchema& schema, OpPlan::Form& form) {
  std::string_view name = schema.name();
  if (!name.starts_with("aten::")) return {};
  name.remove_prefix(6);
  if (form == OpPlan::Form::in_place && name.ends_with("_") && !name.ends_with("__")) name.remove_suffix(1);
  return std::string(name);
}

// ATen's operators make `out=` fit. One of somebody else's that writes a later argument writes into what is there, unless its name says otherwise.
bool grows_targets(const c10::FunctionSchema& schema) {
  return schema.name().starts_with("aten::") || schema.overload_name().find("out") != std::string::npos;
}

// Where operators live that talk to other processes, and `wait_tensor`, before which their results are not there.
constexpr std::string_view kOfCollectives[] = {"_c10d_functional::", "_c10d_functional_autograd::", "c10d_functional::", "c10d::", "symm_mem::", "_dtensor::"};

bool is_collective(std::string_view name) {
  return std::any_of(std::begin(kOfCollectives), std::end(kOfCollectives), [&](std::string_view space) { return name.starts_with(space); });
}

bool shares(const c10::Argument& result, const c10::Argument& arg) {
  if (!result.alias_info() || !arg.alias_info() || !arg.alias_info()->isWrite()) return false;
  for (const auto& set : result.alias_info()->beforeSets())
    if (arg.alias_info()->beforeSets().count(set)) return true;
  return false;
}

void read_aliases(OpPlan& plan, const c10::FunctionSchema& schema) {
  const auto& args = schema.arguments();
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].alias_info() && args[i].alias_info()->isWrite()) plan.writes.push_back(static_cast<uint32_t>(i));
  for (const c10::Argument& result : schema.returns()) {
    int which = -1;
    for (size_t i = 0; i < args.size(); ++i)
      if (shares(result, args[i])) which = static_cast<int>(i);
    plan.returned.push_back(which);
    const auto kind = result.type()->kind();
    if (kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType) plan.host_result = true;
    if (kind == c10::TypeKind::ListType &&
        result.type()->expectRef<c10::ListType>().getElementType()->kind() != c10::TypeKind::TensorType)
      plan.host_result = true;
  }
}

OpPlan make_plan(const c10::OperatorHandle& op) {
  OpPlan plan;
  const c10::FunctionSchema& schema = op.schema();
  plan.schema = &schema;
  plan.name = schema.name();
  plan.target = schema.overload_name().empty() ? plan.name : plan.name + "." + schema.overload_name();
  read_aliases(plan, schema);
  if (!plan.writes.empty()) plan.form = plan.writes[0] == 0 || !grows_targets(schema) ? OpPlan::Form::in_place : OpPlan::Form::out;
  plan.base = base_of(schema, plan.form);
  plan.collective = is_collective(plan.name);
  plan.pass = plan.name.starts_with("profiler::");
  plan.metadata = op.hasTag(at::Tag::inplace_view) || plan.base == "resize" || plan.base == "resize_as" || plan.base == "set";
  plan.random = op.hasTag(at::Tag::nondeterministic_seeded) || plan.base == "dropout";
  plan.pointwise = op.hasTag(at::Tag::pointwise);
  plan.autocast = op.hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU);
  const std::string& row = plan.base.empty() ? plan.name : plan.base;
  plan.lower = find_lowering(row);
  plan.sizes = find_size_rule(row);
  if (plan.base.starts_with("_foreach_")) plan.parts = c10::DispatchKey::CompositeExplicitAutograd;   // a loop over the lists
  plan.decompose = plan.lower == nullptr && !keep_whole(plan.base) && op.hasKernelForDispatchKey(plan.parts);
  return plan;
}

}  // namespace

OpPlan& plan_of(const c10::OperatorHandle& op) {
  static thread_local std::unordered_map<const c10::FunctionSchema*, OpPlan> plans;
  const auto it = plans.find(&op.schema());
  if (it != plans.end()) return it->second;
  return plans.emplace(&op.schema(), make_plan(op)).first->second;
}

}  // namespace escapement
