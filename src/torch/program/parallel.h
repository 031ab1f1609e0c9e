// Torch's thread pool for our kernels: torch_parallel_for behind the function pointers of jit/run/parallel.h.
//
// The pool joins all its threads at the end of a region, so a worker that the system does not run (its core is taken by someone else)
// holds up the caller for a time slice although the caller has done all the work. Chunks cannot help against that; staying
// serial can: a join that took longer than the work is noticed, and for a while, proportional to the time lost, nothing is forked.
// That bounds the loss to a few per cent of the time without a thread pool of our own, and never changes a result.
#pragma once

#include <atomic>
#include <cstdint>

#include "jit/run/parallel.h"

namespace escapement {

ParallelHost torch_parallel_host();

// Decides from the past whether forking pays at present. All times in nanoseconds; any number of threads may ask and report.
class ForkJudge {
 public:
  bool may_fork(int64_t now) const { return now >= serial_until_.load(std::memory_order_relaxed); }
  // `work`: how long the caller worked; `wait`: how long it then waited for the others.
  void report(int64_t now, int64_t work, int64_t wait);

 private:
  static constexpr int64_t kPatience = 200'000;  // a wait that is always forgiven
  static constexpr int64_t kPenalty = 64;        // serial time per time lost
  std::atomic<int64_t> serial_until_{0};
};

}  // namespace escapement
