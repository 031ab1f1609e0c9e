// Meter: counts a module's calls as they end. Relaxed atomics; errors and reasons, which are rare, take a lock.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <string>

#include "escapement/error.h"
#include "escapement/metrics.h"
#include "support/fork.h"
#include "torch/region/region.h"

namespace escapement {

class Meter {
 public:
  // Upper ends of the latency's buckets, in nanoseconds: 1, 2.5, 5 and so on, from a microsecond to ten seconds.
  static constexpr std::array<int64_t, 22> kBounds{
      1'000,       2'500,       5'000,         10'000,        25'000,        50'000,        100'000,    250'000,
      500'000,     1'000'000,   2'500'000,     5'000'000,     10'000'000,    25'000'000,    50'000'000, 100'000'000,
      250'000'000, 500'000'000, 1'000'000'000, 2'500'000'000, 5'000'000'000, 10'000'000'000};

  void answered(const Region::Answer& answer, int64_t nanoseconds);
  void failed(ErrorCode code);
  void heard(const RegionEvent& event);
  void swapped() { swaps_.fetch_add(1, std::memory_order_relaxed); }
  Metrics read() const;

 private:
  std::atomic<int64_t> hits_{0}, recordings_{0}, swaps_{0}, record_ns_{0}, compile_ns_{0}, latency_ns_{0};
  std::array<std::atomic<int64_t>, kBounds.size() + 1> latency_{};
  mutable ForkMutex mutex_;
  std::map<std::string, int64_t> eager_, errors_;
};

}  // namespace escapement
