// Runs a launch plan as the product does (jit/run), with any code for its kernels: the loop interpreter's, or machine code.
//
// Every buffer lies against a page that may not be touched, so that code which reads or writes outside faults; the bytes on its other side
// are checked afterwards. Memory holds a pattern before its first use, so that reading what was not written shows. "Threads" are chunks in
// another order: nothing may depend on which chunk is first.
#pragma once

#include <memory>

#include "fuzz/ir/trace_case.h"
#include "jit/run/executable.h"

namespace escapement::fuzz {

class PlanExecutor {
 public:
  PlanExecutor(const LaunchPlan& plan, std::span<const std::shared_ptr<KernelCode>> code);
  ~PlanExecutor();

  // `symbols`: of the call, as make_inputs left them.
  Result run(const std::vector<HostInput>& inputs, const std::vector<int64_t>& symbols, int threads);

 private:
  const LaunchPlan& plan_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<Context> context_;
};

std::vector<std::shared_ptr<KernelCode>> interpreted(const std::vector<Kernel>& kernels);

}  // namespace escapement::fuzz
