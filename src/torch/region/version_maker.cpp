// See version_maker.h.
#include "torch/region/version_maker.h"

#include <algorithm>

#include "support/error.h"
#include "support/events.h"
#include "support/stopwatch.h"
#include "torch/program/cpp_location.h"
#include "torch/program/program_info.h"

namespace escapement {
namespace {

Target target_of(const Recording& recording) { return recording.device.is_cpu() ? Target::processor : Target::device; }

// What a part of a recording needs of it beside its trace.
Recording part_of(const Recording& whole, std::span<const at::Tensor> captured) {
  Recording part;
  part.device = whole.device;
  part.captured.assign(captured.begin(), captured.end());
  part.host_objects = whole.host_objects;
  part.inference = whole.inference;
  return part;
}

// Of the recording's tensors those that it had captured where `before` ends.
std::vector<at::Tensor> captured_before(const Recording& recording, const Trace& before) {
  const size_t given = recording.trace.inputs.size() - recording.captured.size();
  const auto first = recording.captured.begin();
  return {first, first + static_cast<std::ptrdiff_t>(before.inputs.size() - given)};
}

// Behind an effect a check cannot start again.
void refuse_checks(const LaunchPlan& plan) {
  const auto is_check = [](const Step& step) { return std::holds_alternative<CheckStep>(step); };
  if (std::any_of(plan.steps.begin(), plan.steps.end(), is_check))
    throw InternalError("a relation of values is needed inside of an operator, behind an effect", Reason::data_dependent_guard);
}

// What is handed on was made in the mode of the results that the way taken before has. Where this way has them in the other mode, it may hand back
// nothing of that.
void refuse_other_mode(const Recording& recording, const ExitNode& from, bool ends) {
  if (recording.inference == from.inference) return;
  const Trace& trace = recording.trace;
  const std::vector<ValueId>& live = from.exit.at.live;
  const auto was_made = [&](const Output& output) {
    return output.value && std::find(live.begin(), live.end(), trace.type(output.value).root) != live.end();
  };
  if (ends && std::none_of(trace.outputs.begin(), trace.outputs.end(), was_made)) return;
  throw InternalError("one way behind an exit makes its results in inference mode, another does not", Reason::state_changed);
}

std::string contents(const Version& version, size_t exits) {
  const std::string kernels = std::to_string(version.program.compiled()->plan.kernels.size()) + " kernels";
  return exits == 0 ? kernels : kernels + ", and " + std::to_string(exits) + " exits";
}

}  // namespace

std::shared_ptr<const Version> VersionMaker::make(Recording recording, Pinned pinned, double record_milliseconds, const ObjectCode* objects) const {
  Origin origin{std::move(pinned), recording.kinds, recording.ground, recording.ops, record_milliseconds};
  const size_t exits = recording.exits.size();
  double milliseconds = 0;
  auto version = exits ? make_tree(recording, std::move(origin), milliseconds) : make_whole(std::move(recording), std::move(origin), objects, milliseconds);
  if (version) journal_.tell(RegionEvent::Kind::compiled, milliseconds, contents(*version, exits));
  return version;
}

std::shared_ptr<const Version> VersionMaker::make_whole(Recording recording, Origin origin, const ObjectCode* objects, double& milliseconds) const {
  if (!options_.dump.empty()) make_readable(recording.trace.locations);
  auto compiled = code_for(recording.trace, recording, objects, milliseconds);
  if (checks_follow_effects(compiled->plan)) return nullptr;
  refuse_late_errors(compiled->plan, false);
  std::shared_ptr<const Trace> generic;
  if (keep_traces_) generic = std::make_shared<const Trace>(std::move(recording.trace));
  Program program(std::move(compiled), std::move(recording), options_);
  return std::shared_ptr<const Version>(new Version{std::move(program), std::move(origin), std::move(generic), nullptr});
}

std::shared_ptr<const Version> VersionMaker::make_tree(const Recording& recording, Origin origin, double& milliseconds) const {
  const Trace& first = *recording.exits.front().before;
  auto compiled = code_for(first, recording, nullptr, milliseconds);
  if (checks_follow_effects(compiled->plan)) return nullptr;
  refuse_late_errors(compiled->plan, false);
  const auto captured = captured_before(recording, first);
  auto exit = make_exit(recording, 0, captured, milliseconds);
  Program program(std::move(compiled), part_of(recording, captured), options_);
  return std::shared_ptr<const Version>(new Version{std::move(program), std::move(origin), nullptr, std::move(exit)});
}

std::unique_ptr<ExitNode> VersionMaker::make_exit(const Recording& recording, size_t number, std::span<const at::Tensor> captured,
                                                  double& milliseconds) const {
  auto exit = std::make_unique<ExitNode>(recording, number, captured);
  exit->sides.add(make_side(recording, *exit, milliseconds));
  return exit;
}

std::shared_ptr<const SideTrace> VersionMaker::make_side(const Recording& recording, const ExitNode& from) const {
  double milliseconds = 0;
  return make_side(recording, from, milliseconds);
}

std::shared_ptr<const SideTrace> VersionMaker::make_side(const Recording& recording, const ExitNode& from, double& milliseconds) const {
  const size_t next = from.number + 1;
  const bool ends = next == recording.exits.size();
  const Trace& whole = ends ? recording.trace : *recording.exits[next].before;
  refuse_other_mode(recording, from, ends);
  auto compiled = code_for(side_trace(whole, from.exit.at), recording, nullptr, milliseconds);
  refuse_checks(compiled->plan);
  refuse_late_errors(compiled->plan, true);
  auto captured = captured_before(recording, whole);
  auto exit = ends ? nullptr : make_exit(recording, next, captured, milliseconds);
  Program program(std::move(compiled), part_of(recording, {}), options_);
  return std::shared_ptr<const SideTrace>(new SideTrace{std::move(program), std::move(captured), std::move(exit)});
}

std::shared_ptr<const Version> VersionMaker::rebind(const Version& version, const std::function<at::Tensor(const at::Tensor&)>& replaced) const {
  Recording recording;
  for (const at::Tensor& tensor : version.program.captured()) recording.captured.push_back(replaced(tensor));
  recording.host_objects = version.program.host_objects();
  recording.inference = version.program.inference();
  Program program(version.program.compiled(), std::move(recording), options_);
  auto made = std::shared_ptr<const Version>(new Version{std::move(program), version.origin, version.generic, nullptr});
  made->hits.store(version.hits.load());
  return made;
}

// Weights that were made in inference mode count no writes, so that they are packed anew at each call or not at all: nothing is laid out for packed ones.
Options VersionMaker::options_for(const Recording& recording) const {
  Options options = options_;
  if (std::ranges::any_of(recording.captured, [](const at::Tensor& weight) { return weight.is_inference() && weight.dim() > 1; })) options.pack_weights = false;
  return options;
}

std::shared_ptr<const Compiled> VersionMaker::code_for(const Trace& trace, const Recording& recording, const ObjectCode* objects,
                                                       double& milliseconds) const {
  const Stopwatch watch;
  auto compiled = compile(trace, options_for(recording), objects, target_of(recording));
  const double took = watch.milliseconds();
  count(Stat::compile_nanoseconds, static_cast<int64_t>(took * 1e6));
  milliseconds += took;
  return compiled;
}

// `acted`: there has been an effect before the plan begins.
void VersionMaker::refuse_late_errors(const LaunchPlan& plan, bool acted) const {
  if (hooks_.late_errors && !hooks_.late_errors() && errors_follow_effects(plan, acted))
    throw InternalError("an operator may refuse behind what the caller can see, and the program catches errors or binds variables anew",
                        Reason::data_dependent_guard);
}

}  // namespace escapement
