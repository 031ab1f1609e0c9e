// What servers ask of a Region (region.h): versions from a package or from a region with other weights, all code made
// beforehand, whether a call would fit.
#include <algorithm>

#include "support/events.h"
#include "torch/region/trace_tree.h"

namespace escapement {

std::vector<Region::Kept> Region::kept() const {
  const Versions* const versions = versions_.load(std::memory_order_acquire);
  std::vector<Kept> found;
  for (const auto& version : *versions) {
    if (version->exit || !version->generic || !version->pinned.empty() || !version->kinds.empty() || !version->program.host_objects().empty() || version->program.inference()) continue;
    const auto captured = version->program.captured();
    found.push_back({version->generic, version->program.compiled(), {captured.begin(), captured.end()}, version->ground});
  }
  return found;
}

void Region::restore(Recording recording, const ObjectCode* objects) {
  note_effects(recording);
  if (auto version = make_version(std::move(recording), {}, 0, objects)) {
    publish(std::move(version));
    count(Stat::package_versions);
  }
}

void Region::take_over(const Region& other, const std::function<at::Tensor(const at::Tensor&)>& replaced) {
  const Versions* const versions = other.versions_.load(std::memory_order_acquire);
  for (const auto& old : *versions) {
    if (old->exit) continue;   // its side traces name the tensors of its own recording
    Recording recording;
    for (const at::Tensor& tensor : old->program.captured()) recording.captured.push_back(replaced(tensor));
    recording.host_objects = old->program.host_objects();
    recording.inference = old->program.inference();
    std::shared_ptr<const Version> version(
        new Version{Program(old->program.compiled(), std::move(recording), program_options()),
                    old->record_milliseconds,
                    old->ops,
                    old->pinned,
                    old->kinds,
                    old->ground,
                    old->generic,
                    {},
                    nullptr,
                    {}});
    version->hits.store(old->hits.load());
    publish(std::move(version));
  }
  on_miss(other.on_miss_.load());
  if (on_miss_.load() != OnMiss::record) make_all_code();  // the guards' code is each version's own
  const std::lock_guard lock(other.mutex_);
  recordings_ = other.recordings_;
  fallbacks_ = other.fallbacks_;
  misses_ = other.misses_;
  effects_ = other.effects_;
}

void Region::make_all_code() const {
  const Versions* const versions = versions_.load(std::memory_order_acquire);
  for (const auto& version : *versions) {
    version->program.compile_guards();
    for (const auto& code : version->program.compiled()->code) {
      for (size_t variant = 0; variant < kVariants; ++variant) {
        if (code->has(static_cast<Variant>(variant))) code->function(static_cast<Variant>(variant));
      }
    }
  }
}

Region::Fit Region::fit(const Values& arguments) const {
  const Versions* const versions = versions_.load(std::memory_order_acquire);
  const ArgumentList list(arguments);
  const Ground ground = Ground::now();
  for (const auto& version : *versions) {
    if (version->ground == ground && version->program.fits(list.span()) && pinned_hold(version->pinned, list.span()) &&
        kinds_hold(version->kinds, list.span()))
      return {true, "", version->program.measure(list.span())};
  }
  return {false, versions->empty() ? "nothing has been recorded" : why_missed(*versions->back(), arguments), {}};
}

}  // namespace escapement
