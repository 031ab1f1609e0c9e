// The table of support/stages.def with the functions behind it. pipeline.cpp runs it; escapement-opt runs any part of it on text.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/plan.h"
#include "support/options.h"
#include "trace/trace.h"

namespace escapement {

// What is being compiled: a trace, until `plan` has taken it.
struct Compiling {
  Trace trace;
  std::optional<LaunchPlan> plan;
};

struct CompileStage {
  enum class Leaves : uint8_t { trace, plan, text };
  std::string_view name, what;
  Leaves leaves;
  void (*run)(Compiling&, const Options&);        // of a stage that leaves text: does nothing
  std::string (*text)(const Compiling&);          // what it left
  bool (*is_wanted)(const Options&);
};

std::span<const CompileStage> compile_stages();   // in order

}  // namespace escapement
