// From a LaunchPlan to the tables of an Executable: when each symbol is known, which buffer is first used where, which step
// changes what the caller can see. Runs once per program.
#pragma once

#include "jit/run/executable.h"
#include "kernels/given_memory.h"

namespace escapement {

// Levels of born symbols, in the order of the steps after which they are known.
std::vector<BornLevel> find_born_levels(const LaunchPlan& plan);
std::vector<uint32_t> level_of_symbols(const LaunchPlan& plan, const std::vector<BornLevel>& born);

class PlanCompiler {
 public:
  PlanCompiler(const LaunchPlan& plan, Executable& result) : plan_(plan), given_(plan.trace), result_(result) {}
  void compile_steps(std::span<const std::shared_ptr<KernelCode>> code);
  void compile_memory();   // before the shape program is finished
  void settle();           // after: levels of recipes and slots are known

 private:
  StepCode compile(const KernelStep& step, std::span<const std::shared_ptr<KernelCode>> code);
  StepCode compile(const CheckStep& step);
  StepCode compile(const CallStep& step) const;
  bool comes_from_call(uint32_t buffer, uint32_t step) const;
  CheckedVector<uint32_t> first_uses() const;
  void use(CheckedVector<uint32_t>& first, uint32_t buffer, uint32_t step) const;

  const LaunchPlan& plan_;
  const GivenMemory given_;
  Executable& result_;
};

}  // namespace escapement
