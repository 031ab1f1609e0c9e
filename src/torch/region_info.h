// What a report says about a compiled program: one object of facts, written as JSON; Python makes text and pages of it.
#pragma once

#include <string>

#include "support/json.h"
#include "torch/program.h"

namespace escapement {

// Fields kernels, apart, calls, guards, symbols, timings into the object that is open.
void write_program(Json& json, const Program& program);
std::string describe(const Miss& miss);

// Whether a check of the plan stands behind a step that changes memory outside, or draws random numbers.
bool checks_follow_effects(const LaunchPlan& plan);

}  // namespace escapement
