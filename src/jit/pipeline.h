// From a generic trace to something that runs: the list of steps, in order, is pipeline.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/run/guard_code.h"
#include "jit/run/kernel_code.h"
#include "kernels/plan.h"
#include "support/options.h"

namespace escapement {

struct StepTime {
  std::string name;
  double milliseconds;
};

// Immutable result of one compile; shared by any number of running calls.
struct Compiled {
  LaunchPlan plan;
  std::vector<std::shared_ptr<KernelCode>> code;  // per plan.kernels
  std::vector<StepTime> times;
  GuardCompiler guards = nullptr;                 // for entry checks; null: they are interpreted
};

std::shared_ptr<const Compiled> compile(const Trace& generic, const Options& options);  // throws InternalError

}  // namespace escapement
