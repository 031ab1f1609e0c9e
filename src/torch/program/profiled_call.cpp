// See profiled_call.h.
#include "torch/program/profiled_call.h"

#include <cstdlib>
#include <string_view>

namespace escapement {

const bool kProfilesCalls = [] {
  const char* const value = std::getenv("ESCAPEMENT_PROFILE");
  return value != nullptr && std::string_view(value) == "1";
}();

namespace {

std::string name_of_step(const LaunchPlan& plan, const Step& step) {
  if (const auto* const kernel = std::get_if<KernelStep>(&step)) return "escapement::" + plan.kernels[kernel->kernel].name;
  if (const auto* const call = std::get_if<CallStep>(&step)) return "escapement::call(" + plan.trace[call->instr].attrs.target + ")";
  return "";
}

}  // namespace

ProfiledCall::ProfiledCall(at::StepCallbacks&& callbacks, const LaunchPlan& plan, Context& context)
    : plan_(plan), context_(context), version_name_("escapement::" + plan.trace.name), version_(std::move(callbacks)) {
  version_.before(std::string_view(version_name_));
  context_.observer = this;
}

ProfiledCall::~ProfiledCall() { context_.observer = nullptr; }

// The last step of an executable is none of the plan's.
void ProfiledCall::begins(uint32_t step) {
  if (step < plan_.steps.size()) step_name_ = name_of_step(plan_, plan_.steps[step]);
  else step_name_.clear();
  if (step_name_.empty()) return;
  range_.emplace(at::RecordScope::FUNCTION);
  range_->before(std::string_view(step_name_));
}

}  // namespace escapement
