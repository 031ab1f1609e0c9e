// See launch.h.
#include "torch/replay_mode/launch.h"

#include <algorithm>
#include <chrono>

#include "support/error.h"
#include "support/events.h"
#include "support/limits.h"
#include "torch/program/cpp_location.h"
#include "torch/program/program_info.h"
#include "trace/guard_relation.h"

namespace escapement {
namespace {

bool includes(const Slots& all, const Slots& some) { return std::includes(all.begin(), all.end(), some.begin(), some.end()); }

}  // namespace

SegmentLaunch::SegmentLaunch(Recording recording, Slots results) : recording_(std::move(recording)), results_(std::move(results)) {
  if (recording_.refused) fail(*recording_.refused);
  else if (!recording_.captured.empty()) fail(Reason::recorder_refused);
}

SegmentLaunch::~SegmentLaunch() {
  for (Ready* ready = programs_.load(); ready != nullptr;) delete std::exchange(ready, ready->next.load());
  delete next.load();
}

SegmentLaunch::Ready* SegmentLaunch::find(const Slots& live) const {
  for (Ready* ready = programs_.load(std::memory_order_acquire); ready != nullptr; ready = ready->next.load())
    if (ready->results == live) return ready;
  return nullptr;
}

SegmentLaunch::Ready* SegmentLaunch::ready(const Slots& live, const Options& options, std::string& failure) {
  if (Ready* known = find(live)) return known;
  if (!includes(results_, live)) return nullptr;
  const std::lock_guard turn(making_);
  if (Ready* known = find(live)) return known;
  if (failed()) return nullptr;
  try {
    // Past the bound one program serves all: it returns whatever the recording knows.
    const bool all = count_ >= limits::programs_of_a_segment;
    if (Ready* known = all ? find(results_) : nullptr) return known;
    auto made = compile_for(all ? results_ : live, options);
    if (!made) return fail(Reason::data_dependent_guard), nullptr;
    ++count_;
    Ready* const result = made.release();
    result->next.store(programs_.load());
    programs_.store(result, std::memory_order_release);
    return result;
  } catch (const InternalError& error) {
    fail(error.reason);
    failure = error.what();
  } catch (const std::exception& error) {
    fail(Reason::compile_failed);
    failure = error.what();
  }
  return nullptr;
}

std::unique_ptr<SegmentLaunch::Ready> SegmentLaunch::compile_for(const Slots& live, const Options& options) const {
  Recording recording = recording_;
  auto& outputs = recording.trace.outputs;
  for (size_t i = results_.size(); i-- > 0;)
    if (!std::binary_search(live.begin(), live.end(), results_[i])) outputs.erase(outputs.begin() + static_cast<std::ptrdiff_t>(i));
  const auto start = std::chrono::steady_clock::now();
  if (!options.dump.empty()) make_readable(recording.trace.locations);
  auto compiled = compile(recording.trace, options);
  count(Stat::compile_nanoseconds, std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  if (checks_follow_effects(compiled->plan)) return nullptr;
  return std::make_unique<Ready>(live, Program(std::move(compiled), std::move(recording), options));
}

std::vector<std::string> SegmentLaunch::relations() const {
  const DimTable& dims = recording_.trace.dims;
  std::vector<std::string> texts;
  for (const Guard& guard : recording_.trace.guards) {
    const std::string relation = dims.to_string(guard.left) + " " + std::string(relation_text(guard.kind)) + " " + dims.to_string(guard.right);
    texts.push_back(guard.because.empty() ? relation : relation + " (" + guard.because + ")");
  }
  return texts;
}

void SegmentLaunch::write(Json& json) const {
  json.open_object().field("operators", static_cast<int64_t>(recording_.ops));
  if (failed()) json.field("failed", reason_name(*failed()));
  json.key("programs").open_array();
  for (const Ready* ready = first(); ready != nullptr; ready = ready->next.load()) {
    json.open_object().field("hits", ready->hits.load()).field("results", static_cast<int64_t>(ready->results.size()));
    write_program(json, ready->program);
    json.close();
  }
  json.close().close();
}

}  // namespace escapement
