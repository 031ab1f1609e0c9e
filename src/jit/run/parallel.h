// Parallel work: chunks claimed from a counter by whoever is awake. The thread pool is the host's (a function pointer); this
// folder starts no threads. The caller takes part, so a worker that starts late finds nothing left to do. Which thread runs which
// chunk never changes a result: chunks write disjoint memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace escapement {

struct ParallelHost {
  using Body = void (*)(int64_t begin, int64_t end, void* context);
  // Calls body on ranges that cover [0, count), possibly at once on several threads; returns when all are done.
  void (*parallel_for)(int64_t count, Body body, void* context) = nullptr;  // null: serial
  int (*threads)() = nullptr;                                               // null: one
  int thread_count() const { return parallel_for == nullptr || threads == nullptr ? 1 : threads(); }
};

// Runs chunk(0) ... chunk(count - 1), each once, on up to `threads` threads.
template <class Chunk>
void run_chunks(const ParallelHost& host, int threads, int64_t count, const Chunk& chunk) {
  if (count <= 1 || threads <= 1) {
    for (int64_t i = 0; i < count; ++i) chunk(i);
    return;
  }
  struct Claims {
    const Chunk& chunk;
    const int64_t count;
    std::atomic<int64_t> next{0};
  } claims{chunk, count};
  const auto body = [](int64_t, int64_t, void* context) {
    auto& shared = *static_cast<Claims*>(context);
    for (int64_t i; (i = shared.next.fetch_add(1, std::memory_order_relaxed)) < shared.count;) shared.chunk(i);
  };
  host.parallel_for(count < threads ? count : threads, body, &claims);
}

}  // namespace escapement
