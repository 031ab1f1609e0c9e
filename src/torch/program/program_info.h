// What a report says about a compiled program: one object of facts, written as JSON; Python makes text and pages of it.
#pragma once

#include <string>

#include "escapement/escape.h"
#include "support/json.h"
#include "torch/program/program.h"
#include "torch/record/flow.h"

namespace escapement {

// Fields kernels, apart, calls, guards, symbols, timings into the object that is open.
void write_program(Json& json, const Program& program);
std::string describe(const Miss& miss);
// A call that fits at its entry, and for which a relation of values that the program reads does not hold.
std::string describe_inner_miss(const Trace& trace);
// Entry guards and checks inside that are there because the program itself looked at a size, a number or a value.
void append_escapes(std::vector<Escape>& found, const Trace& trace);

// Whether a check of the plan stands behind a step that changes memory outside, or draws random numbers.
bool checks_follow_effects(const LaunchPlan& plan);
// Of library calls and indices; a call that writes what is given may refuse as well. `acted`: there has been an effect before the plan begins.
bool errors_follow_effects(const LaunchPlan& plan, bool acted = false);

// Of a program that is the body of another one's operator (flow.h).
BodyEffects effects_of(const Trace& trace);
std::vector<std::vector<Dim>> translated_sizes(const Trace& body, DimTable& dims, std::span<const std::vector<Dim>> arguments);

}  // namespace escapement
