// See parallel.h. Kernels never call ATen, so nothing can be recorded inside a parallel region and no dispatch key needs excluding.
#include "torch/program/parallel.h"

#include <torch/csrc/stable/c/shim.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace escapement {
namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ForkJudge& judge() {
  static ForkJudge instance;
  return instance;
}

struct Region {
  ParallelHost::Body body;
  void* context;
  std::thread::id caller;
  int64_t caller_done = 0;
};

void run_part(int64_t begin, int64_t end, void* argument) {
  auto& region = *static_cast<Region*>(argument);
  region.body(begin, end, region.context);
  if (std::this_thread::get_id() == region.caller) region.caller_done = now();
}

// A nested call runs the body once, for the whole range, on the calling thread: torch sees to that.
void parallel_for(int64_t count, ParallelHost::Body body, void* context) {
  const int64_t start = now();
  if (!judge().may_fork(start)) return body(0, count, context);
  Region region{body, context, std::this_thread::get_id(), 0};
  if (torch_parallel_for(0, count, 1, &run_part, &region) != AOTI_TORCH_SUCCESS) {
    throw std::runtime_error("torch_parallel_for failed");
  }
  const int64_t end = now();
  judge().report(end, region.caller_done - start, end - region.caller_done);
}

int threads() {
  uint32_t count = 1;
  torch_get_num_threads(&count);
  return static_cast<int>(count);
}

}  // namespace

void ForkJudge::report(int64_t now, int64_t work, int64_t wait) {
  // The last chunk of a busy worker takes less than the caller's share; more than that is a worker that did not run.
  if (wait < kPatience || wait < work) return;
  serial_until_.store(now + kPenalty * wait, std::memory_order_relaxed);
}

ParallelHost torch_parallel_host() { return {&parallel_for, &threads}; }

}  // namespace escapement
