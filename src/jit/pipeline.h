// From a generic trace to something that runs: the stages, in order, are support/stages.def.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/run/guard_code.h"
#include "jit/run/kernel_code.h"
#include "jit/run/object_code.h"
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

// What runs the kernels: this processor, or a device, where memory is the host's business alone (docs/cuda.md).
enum class Target : uint8_t { processor, device };

// `objects`: code that may be linked instead of being made; null: none. Throws InternalError.
std::shared_ptr<const Compiled> compile(const Trace& generic, const Options& options, const ObjectCode* objects = nullptr, Target target = Target::processor);
// The code of a compiled program as bytes: what has been made of it so far, made once more. Throws InternalError.
ObjectCode object_code(const Compiled& compiled);

}  // namespace escapement
