// What torch.profiler and other observers of torch (at::RecordFunction) see of a call of compiled code: a range for the version, named
// "escapement::" and the program's name, and inside of it one for each kernel (escapement::k0_layer_norm_gelu) and library call
// (escapement::call(aten::mm)). Made only where the environment asks for it,
// and for calls that somebody observes.
#pragma once

#include <ATen/record_function.h>

#include <optional>
#include <string>

#include "jit/run/executable.h"

namespace escapement {

// Whether the process is to be seen by profilers: the environment variable ESCAPEMENT_PROFILE is 1. Asking torch at each call would cost 10 ns
// of some 300.
extern const bool kProfilesCalls;
inline bool profiles_calls() { return __builtin_expect(kProfilesCalls, false); }

class ProfiledCall final : public StepObserver {
 public:
  ProfiledCall(at::StepCallbacks&& callbacks, const LaunchPlan& plan, Context& context);
  ~ProfiledCall() override;

  void begins(uint32_t step) override;
  void ends() noexcept override { range_.reset(); }

 private:
  const LaunchPlan& plan_;
  Context& context_;
  std::string version_name_, step_name_;
  at::RecordFunction version_;
  std::optional<at::RecordFunction> range_;   // of the step that runs
};

}  // namespace escapement
