// make_plan: fuse, lower, order, check, place. The steps of planning, in order, are in Planner::run.
#include "kernels/plan.h"

#include <algorithm>
#include <unordered_map>

#include "kernels/lower.h"
#include "kernels/memory.h"
#include "support/error.h"

namespace escapement {
namespace {

constexpr size_t kMaxNamedOps = 4;

std::string kernel_name(size_t number, const std::vector<Op>& ops) {
  std::string name = "k" + std::to_string(number);
  std::vector<Op> named;
  for (size_t i = ops.size(); i-- > 0 && named.size() < kMaxNamedOps;) {  // the last ops say most
    if (std::find(named.begin(), named.end(), ops[i]) == named.end()) named.insert(named.begin(), ops[i]);
  }
  for (Op op : named) name += "_" + std::string(name_of(op));
  return name;
}

class Planner {
 public:
  Planner(LaunchPlan& plan, const FusionLimits& limits) : plan_(plan), trace_(plan.trace), grouping_(fuse(plan.trace, limits)) {}

  void run() {
    for (uint32_t id : grouping_.order) add_step(id);
    place_guards();
    assign_buffers(plan_, roots_);
    plan_.apart = std::move(grouping_.apart);
  }

 private:
  // --- steps
  void add_step(uint32_t id) {
    const Group& group = grouping_.groups[id];
    for (uint32_t m : group.members) {
      const InstrId i = grouping_.graph.nodes[m].instr;
      step_of_instr_.grow(trace_.instrs.size(), kNoIndex);
      step_of_instr_[i] = static_cast<uint32_t>(plan_.steps.size());
    }
    if (group.is_call) {
      plan_.steps.emplace_back(std::in_place_type<CallStep>, CallStep{grouping_.graph.nodes[group.members[0]].instr, false, {}});
      roots_.emplace_back();
    } else {
      add_kernel(lower(grouping_, id));
    }
  }

  void add_kernel(LoweredKernel lowered) {
    KernelStep step;
    step.kernel = kernel_number(lowered);
    step.extents = std::move(lowered.extents);
    step.scalars = std::move(lowered.scalars);
    step.writes = std::move(lowered.writes);
    step.failure = std::move(lowered.failure);
    std::vector<ValueId> roots;
    for (RootOperand& o : lowered.operands) {
      roots.push_back(o.root);
      step.operands.push_back({kNoIndex, o.dtype, o.offset, std::move(o.strides), o.gathered});
    }
    plan_.steps.push_back(std::move(step));
    roots_.push_back(std::move(roots));
  }

  uint32_t kernel_number(LoweredKernel& lowered) {
    const uint64_t hash = structural_hash(lowered.nest);
    for (auto [it, end] = kernels_.equal_range(hash); it != end; ++it) {
      if (structurally_equal(plan_.kernels[it->second].nest, lowered.nest)) return it->second;
    }
    const auto number = static_cast<uint32_t>(plan_.kernels.size());
    verify(lowered.nest);
    plan_.kernels.push_back({std::move(lowered.nest), kernel_name(number, lowered.ops), std::move(lowered.ops)});
    kernels_.emplace(hash, number);
    return number;
  }

  // --- guards: at entry, or after the step that binds the last of their symbols
  uint32_t step_that_defines(InstrId i) const {
    if (!i || step_of_instr_.size() == 0) return kNoIndex;
    if (step_of_instr_[i] != kNoIndex) return step_of_instr_[i];
    const Instr& instr = trace_[i];  // a view: its operand's root; dead code: entry
    if (instr.operands.empty() || info(instr.op).kind != OpKind::view) return kNoIndex;
    return step_that_defines(trace_[trace_.type(instr.operands[0]).root].definition);
  }

  // -1: bound by inputs
  int64_t step_that_binds(Dim d) const {
    int64_t last = -1;
    for (Symbol s : trace_.dims.symbols(d)) {
      const ValueId v = trace_.dims.info(s).source.value;
      if (!v) continue;
      const ValueId root = trace_.type(v).root ? trace_.type(v).root : v;
      const uint32_t step = step_that_defines(trace_[root].definition);
      if (step != kNoIndex) last = std::max<int64_t>(last, step);
    }
    return last;
  }

  void place_guards() {
    CheckedVector<std::vector<uint32_t>> after(plan_.steps.size());
    for (uint32_t g = 0; g < trace_.guards.size(); ++g) {
      const Guard& guard = trace_.guards[g];
      const int64_t step = std::max(step_that_binds(guard.left), step_that_binds(guard.right));
      if (step < 0) {
        plan_.entry.push_back(g);
      } else {
        after[step].push_back(g);
      }
    }
    CheckedVector<Step> steps;
    CheckedVector<std::vector<ValueId>> roots;
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      steps.push_back(std::move(plan_.steps[i]));
      roots.push_back(std::move(roots_[i]));
      for (uint32_t g : after[i]) {
        steps.emplace_back(std::in_place_type<CheckStep>, CheckStep{g});
        roots.emplace_back();
      }
    }
    plan_.steps = std::move(steps);
    roots_ = std::move(roots);
  }

  LaunchPlan& plan_;
  Trace& trace_;
  Grouping grouping_;
  CheckedVector<std::vector<ValueId>> roots_;  // per step: roots of a kernel's operands
  IdMap<InstrId, uint32_t> step_of_instr_;
  std::unordered_multimap<uint64_t, uint32_t> kernels_;
};

}  // namespace

LaunchPlan make_plan(Trace trace, const FusionLimits& limits) {
  LaunchPlan plan;
  plan.trace = std::move(trace);
  Planner(plan, limits).run();
  return plan;
}

void keep_off_arena(LaunchPlan& plan) {
  for (Buffer& buffer : plan.buffers)
    if (buffer.kind == Buffer::Kind::temporary) buffer.kind = Buffer::Kind::output;
  plan.slot_count = 0;
}

}  // namespace escapement
