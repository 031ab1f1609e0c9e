// See wasted_runs.h.
#include "torch/region/wasted_runs.h"

#include <utility>

namespace escapement {

WastedRuns::Verdict WastedRuns::note(int runs, const VersionList& versions) {
  if (runs_.fetch_add(runs, std::memory_order_relaxed) + runs < kMost) return Verdict::go_on;
  const std::lock_guard lock(mutex_);
  if (runs_.exchange(0) < kMost) return Verdict::go_on;   // another thread was here
  const int64_t answered = versions.hits(), lately = answered - std::exchange(answered_, answered);
  if (lately > 2 * kMost) return Verdict::go_on;          // most calls meet the right version first
  if (lately < kFew) return ++fruitless_ < kMostFruitless ? Verdict::go_on : Verdict::useless;
  return exits_everywhere_.exchange(true) ? Verdict::too_many_ways : Verdict::share;
}

}  // namespace escapement
