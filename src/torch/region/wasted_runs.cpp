// See wasted_runs.h.
#include "support/limits.h"
#include "torch/region/wasted_runs.h"

#include <utility>

namespace escapement {

using limits::wasted_runs;
constexpr int kFew = wasted_runs / 16;   // calls that were answered meanwhile: hardly any

WastedRuns::Verdict WastedRuns::note(int runs, const VersionList& versions) {
  if (runs_.fetch_add(runs, std::memory_order_relaxed) + runs < wasted_runs) return Verdict::go_on;
  const std::lock_guard lock(mutex_);
  if (runs_.exchange(0) < wasted_runs) return Verdict::go_on;   // another thread was here
  const int64_t answered = versions.hits(), lately = answered - std::exchange(answered_, answered);
  if (lately > 2 * wasted_runs) return Verdict::go_on;          // most calls meet the right version first
  // The first calls record, and their values may come again.
  if (lately < kFew) return ++fruitless_ < limits::fruitless_rounds ? Verdict::go_on : Verdict::useless;
  return exits_everywhere_.exchange(true) ? Verdict::too_many_ways : Verdict::share;
}

}  // namespace escapement
