// Runs of versions that ended at a check that failed, before any effect. Versions that differ by what their values were do the same up to the check
// that tells them apart, one after the other. Where that comes again and again the program is recorded anew with exits at such checks, so that what the
// ways have in common is one trace. Where that does not end it, or hardly any call finds its values again, no version with such a check is tried any more.
#pragma once

#include <atomic>
#include <mutex>

#include "support/fork.h"
#include "torch/region/version.h"

namespace escapement {

class WastedRuns {
 public:
  enum class Verdict : uint8_t { go_on, share, useless, too_many_ways };

  explicit WastedRuns(bool exits_everywhere) : exits_everywhere_(exits_everywhere) {}   // true: for tests

  Verdict note(int runs, const VersionList& versions);
  bool exits_everywhere() const { return exits_everywhere_.load(std::memory_order_relaxed); }   // of recordings to come

 private:
  std::atomic<int> runs_{0};
  std::atomic<bool> exits_everywhere_;
  ForkMutex mutex_;                         // of these two:
  int64_t answered_ = 0;
  int fruitless_ = 0;
};

}  // namespace escapement
