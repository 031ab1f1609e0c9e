// See plan_compiler.h.
#include "jit/run/plan_compiler.h"

#include <algorithm>
#include <map>

#include "support/error.h"
#include "trace/effects.h"

namespace escapement {
namespace {

constexpr uint32_t kNone = Id<void>::kNone;

bool contains(const std::vector<ValueId>& values, ValueId value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

const std::vector<ValueId>& written_by(const LaunchPlan& plan, const Step& step) {
  static const std::vector<ValueId> nothing;
  if (const auto* kernel = std::get_if<KernelStep>(&step)) return kernel->writes;
  if (const auto* call = std::get_if<CallStep>(&step)) return plan.trace[call->instr].results;
  return nothing;
}

// Which steps write a value: found once for all values, since hundreds of symbols ask.
class Writers {
 public:
  explicit Writers(const LaunchPlan& plan)
      : plan_(plan), first_(plan.trace.values.size(), kNone), last_(plan.trace.values.size(), kNone) {
    for (uint32_t step = 0; step < plan.steps.size(); ++step)
      for (const ValueId value : written_by(plan, plan.steps[step])) note(value, step);
  }

  // The step after which a value's sizes or contents can be read; kNone if it is there from the start.
  uint32_t materialised_after(ValueId value) const {
    if (first_[value] != kNone) return first_[value];
    const ValueId root = plan_.trace.type(value).root;
    return root ? last_[root] : kNone;
  }

 private:
  void note(ValueId value, uint32_t step) {
    if (!value) return;
    first_[value] = std::min(first_[value], step);
    last_[value] = step;
  }

  const LaunchPlan& plan_;
  IdMap<ValueId, uint32_t> first_, last_;
};

bool is_born(const Source& source) {
  return source.kind == Source::Kind::value_size || source.kind == Source::Kind::value_stride || source.kind == Source::Kind::item;
}

}  // namespace

std::vector<BornLevel> find_born_levels(const LaunchPlan& plan) {
  const Writers writers(plan);
  std::map<uint32_t, BornLevel> by_step;
  for (uint32_t symbol = 0; symbol < plan.trace.dims.symbol_count(); ++symbol) {
    const Source& source = plan.trace.dims.info(Symbol(symbol)).source;
    if (!is_born(source) || !source.value) continue;
    const uint32_t step = writers.materialised_after(source.value);
    if (step == kNone) continue;  // of an input: the caller binds it at entry
    if (plan.buffer_of[source.value.index] == kNone) continue;  // of dead code: nobody asks
    BornLevel& level = by_step[step];
    level.step = step;
    level.symbols.emplace_back(symbol, source);
  }
  std::vector<BornLevel> levels;
  for (auto& [step, level] : by_step) levels.push_back(std::move(level));
  return levels;
}

std::vector<uint32_t> level_of_symbols(const LaunchPlan& plan, const std::vector<BornLevel>& born) {
  CheckedVector<uint32_t> levels(plan.trace.dims.symbol_count(), 0);
  for (uint32_t i = 0; i < born.size(); ++i) {
    for (const auto& [slot, source] : born[i].symbols) levels[slot] = i + 1;
  }
  return levels;
}

StepCode PlanCompiler::compile(const KernelStep& step, std::span<const std::shared_ptr<KernelCode>> code) {
  StepCode result;
  result.kind = StepCode::Kind::kernel;
  result.index = static_cast<uint32_t>(result_.recipes_.size());
  KernelCode& kernel = *code[step.kernel];
  result_.recipes_.push_back(make_recipe(step, kernel, result_.shapes_));
  for (size_t i = 0; i < step.operands.size(); ++i) {
    result.dirties |= kernel.nest().params[i].written && given_.holds(plan_.buffers[step.operands[i].buffer].root);
  }
  return result;
}

StepCode PlanCompiler::compile(const CheckStep& step) {
  const Guard& guard = plan_.trace.guards[step.guard];
  StepCode result;
  result.kind = StepCode::Kind::check;
  result.index = static_cast<uint32_t>(result_.checks_.size());
  result_.checks_.push_back({guard.kind, result_.shapes_.add(guard.left), result_.shapes_.add(guard.right)});
  return result;
}

// They look at each probability or rate when they have drawn for those before.
static bool draws_before_it_raises(const Instr& instr) {
  const std::string& target = instr.attrs.target;
  return instr.why == Reason::call_random && (target.starts_with("aten::bernoulli") || target.starts_with("aten::poisson"));
}

StepCode PlanCompiler::compile(const CallStep& step) const {
  const Instr& instr = plan_.trace[step.instr];
  StepCode result;
  result.kind = StepCode::Kind::call;
  result.dirties_when_done = acts_outside(instr);
  for (const uint32_t operand : instr.writes) result.dirties |= given_.holds(instr.operands[operand]);
  result.dirties |= draws_before_it_raises(instr);
  return result;
}

void PlanCompiler::compile_steps(std::span<const std::shared_ptr<KernelCode>> code) {
  ESCAPEMENT_CHECK(code.size() == plan_.kernels.size(), "one code per kernel");
  result_.code_.assign(code.begin(), code.end());
  for (const Step& step : plan_.steps) {
    if (const auto* kernel = std::get_if<KernelStep>(&step)) {
      result_.steps_.push_back(compile(*kernel, code));
    } else if (const auto* call = std::get_if<CallStep>(&step)) {
      result_.steps_.push_back(compile(*call));
    } else {
      result_.steps_.push_back(compile(std::get<CheckStep>(step)));
    }
  }
  result_.steps_.emplace_back();  // allocates what no step uses
  for (uint32_t i = 0; i < result_.born_.size(); ++i) result_.steps_[result_.born_[i].step].level = i + 1;
}

void PlanCompiler::use(CheckedVector<uint32_t>& first, uint32_t buffer, uint32_t step) const {
  if (buffer != kNone) first[buffer] = std::min(first[buffer], step);
}

CheckedVector<uint32_t> PlanCompiler::first_uses() const {
  const auto end = static_cast<uint32_t>(plan_.steps.size());
  CheckedVector<uint32_t> first(plan_.buffers.size(), end);
  for (uint32_t step = 0; step < end; ++step) {
    if (const auto* kernel = std::get_if<KernelStep>(&plan_.steps[step])) {
      for (const KernelOperand& operand : kernel->operands) use(first, operand.buffer, step);
    } else if (const auto* call = std::get_if<CallStep>(&plan_.steps[step])) {
      const Instr& instr = plan_.trace[call->instr];
      for (const ValueId value : instr.operands) {
        if (value) use(first, plan_.buffer_of[value.index], step);
      }
      for (const ValueId value : instr.results) use(first, plan_.buffer_of[value.index], step);
    }
  }
  return first;
}

// The result of a library call: the host brings its memory with the call.
bool PlanCompiler::comes_from_call(uint32_t buffer, uint32_t step) const {
  if (step >= plan_.steps.size()) return false;
  const auto* call = std::get_if<CallStep>(&plan_.steps[step]);
  return call != nullptr && contains(plan_.trace[call->instr].results, plan_.buffers[buffer].root);
}

void PlanCompiler::compile_memory() {
  std::vector<std::vector<uint32_t>> outputs_at(result_.steps_.size());   // by the step that uses them first
  const CheckedVector<uint32_t> first = first_uses();
  for (uint32_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    const bool output = plan_.buffers[buffer].kind == Buffer::Kind::output;
    if (output && !comes_from_call(buffer, first[buffer])) outputs_at.at(first[buffer]).push_back(buffer);
  }
  result_.slot_count_ = plan_.slot_count;
  result_.buffer_count_ = static_cast<uint32_t>(plan_.buffers.size());
  result_.late_of_buffer_.assign(plan_.buffers.size(), kNone);
  for (uint32_t step = 0; step < result_.steps_.size(); ++step) {
    StepCode& code = result_.steps_[step];
    code.allocate_begin = static_cast<uint32_t>(result_.allocations_.size());
    result_.allocations_.insert(result_.allocations_.end(), outputs_at[step].begin(), outputs_at[step].end());
    code.allocate_end = static_cast<uint32_t>(result_.allocations_.size());
  }
  for (uint32_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    const Buffer& info = plan_.buffers[buffer];
    if (info.kind != Buffer::Kind::temporary) continue;
    result_.early_.push_back({buffer, info.slot, result_.shapes_.add(info.bytes)});
  }
}

void PlanCompiler::settle() {
  for (LaunchRecipe& recipe : result_.recipes_) settle_level(recipe, result_.shapes_);
  // A slot that any late buffer shares is late for all of them.
  std::vector<uint8_t> late(plan_.slot_count, 0);
  for (const TemporaryCode& t : result_.early_) late[t.slot] |= result_.shapes_.level(t.bytes) > 0;
  std::erase_if(result_.early_, [&](const TemporaryCode& t) {
    if (!late[t.slot]) return false;
    result_.late_of_buffer_[t.buffer] = static_cast<uint32_t>(result_.late_.size());
    result_.late_.push_back(t);
    return true;
  });
  if (result_.late_.empty()) return;
  const CheckedVector<uint32_t> first = first_uses();
  std::vector<std::vector<uint32_t>> late_at(result_.steps_.size());
  for (const TemporaryCode& t : result_.late_) late_at.at(first[t.buffer]).push_back(t.buffer);
  std::vector<uint32_t> allocations;
  for (uint32_t step = 0; step < result_.steps_.size(); ++step) {
    StepCode& code = result_.steps_[step];
    const auto begin = static_cast<uint32_t>(allocations.size());
    allocations.insert(allocations.end(), result_.allocations_.begin() + code.allocate_begin,
                       result_.allocations_.begin() + code.allocate_end);
    allocations.insert(allocations.end(), late_at[step].begin(), late_at[step].end());
    code.allocate_begin = begin;
    code.allocate_end = static_cast<uint32_t>(allocations.size());
  }
  result_.allocations_ = std::move(allocations);
}

}  // namespace escapement
