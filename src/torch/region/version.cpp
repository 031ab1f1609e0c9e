// See version.h.
#include "torch/region/version.h"

#include <algorithm>

#include "support/events.h"
#include "support/json.h"
#include "torch/program/program_info.h"

namespace escapement {
namespace {

// What names the tensors, objects or numbers of one process is none for another.
bool may_be_kept(const Version& version) {
  const Origin& origin = version.origin;
  if (version.exit || !version.generic || !origin.pinned.empty() || !origin.kinds.empty()) return false;
  return version.program.host_objects().empty() && !version.program.inference();
}

void make_code(KernelCode& code) {
  for (size_t variant = 0; variant < kVariants; ++variant) {
    if (code.has(static_cast<Variant>(variant))) code.function(static_cast<Variant>(variant));
  }
}

}  // namespace

std::string Version::why_missed(std::span<const Argument> arguments) const {
  if (origin.ground != Ground::now()) return "the call: expected torch's flags and default dtype as they were when recorded";
  if (const Miss miss = program.explain_miss(arguments)) return describe(miss);
  const Trace& trace = program.compiled()->plan.trace;
  for (const ArgumentKind& kind : origin.kinds) {
    if (!kind.holds(*arguments[kind.input].tensor)) return trace.inputs[kind.input].name + ": expected that it " + kind.text() + ", seen otherwise";
  }
  if (origin.pinned.hold(arguments)) return describe_inner_miss(trace);
  return "the call: expected the numbers and truth values seen when recorded, seen others";
}

void Version::append_escapes(std::vector<Escape>& found) const {
  escapement::append_escapes(found, program.compiled()->plan.trace);
  if (exit) exit->append_escapes(found);
}

void Version::write(Json& json) const {
  json.open_object();
  json.field("hits", hits.load()).field("ops", static_cast<int64_t>(origin.ops));
  json.field("record_ms", origin.record_milliseconds);
  json.field("retired", retired.load());
  write_program(json, program);
  if (exit) json.key("exit"), exit->write(json);
  json.close();
}

void VersionList::publish(std::shared_ptr<const Version> version) {
  if (list_.add(std::move(version)).size() > 1) count(Stat::recompiles);
}

// Those of the versions that are asked before it, too.
void VersionList::compile_guards(const List& walked, const Version& hot) {
  for (const auto& version : walked) {
    version->program.compile_guards();
    if (version.get() == &hot) return;
  }
}

int VersionList::retire_checked() const {
  const auto checks = [](const Step& step) { return std::holds_alternative<CheckStep>(step); };
  int retired = 0;
  for (const auto& version : all()) {
    const auto& steps = version->program.compiled()->plan.steps;
    if (!version->exit && std::any_of(steps.begin(), steps.end(), checks) && !version->retired.exchange(true)) ++retired;
  }
  return retired;
}

int64_t VersionList::hits() const {
  int64_t sum = 0;
  for (const auto& version : all()) sum += version->hits.load(std::memory_order_relaxed);
  return sum;
}

std::string VersionList::why_missed(std::span<const c10::IValue> arguments) const {
  const List& versions = all();
  return versions.empty() ? "nothing has been recorded" : versions.back()->why_missed(ArgumentList(arguments).span());
}

VersionList::Fit VersionList::fit(std::span<const c10::IValue> arguments) const {
  const ArgumentList list(arguments);
  const Ground ground = Ground::now();
  for (const auto& version : all()) {
    if (version->fits(ground, list.span())) return {true, "", version->program.measure(list.span())};
  }
  return {false, why_missed(arguments), {}};
}

std::vector<KeptVersion> VersionList::kept() const {
  std::vector<KeptVersion> found;
  for (const auto& version : all()) {
    if (!may_be_kept(*version)) continue;
    const auto captured = version->program.captured();
    found.push_back({version->generic, version->program.compiled(), {captured.begin(), captured.end()}, version->origin.ground});
  }
  return found;
}

void VersionList::make_all_code() const {
  for (const auto& version : all()) {
    version->program.compile_guards();
    for (const auto& code : version->program.compiled()->code) make_code(*code);
  }
}

std::vector<Escape> VersionList::escapes() const {
  std::vector<Escape> found;
  for (const auto& version : all()) version->append_escapes(found);
  return found;
}

void VersionList::write(Json& json) const {
  json.key("versions").open_array();
  for (const auto& version : all()) version->write(json);
  json.close();
}

}  // namespace escapement
