// Dynamic batching without padding: requests that wait are answered by one call of a module.
//
//   escapement::Batcher batcher(model, {.batching = escapement::Batching::rows});
//   batcher.submit({x}, [](std::exception_ptr error, std::vector<c10::IValue> results) { ... });   // from any thread
//   std::vector<c10::IValue> results = batcher.run({y});                                           // or wait for them
//
// Nothing waits for company: a worker takes what is in the queue when it is free, so that batches grow with the load. The queue has an
// end: what comes when it is full, or when what waits takes longer than the request may, is refused at once with the time to come again.
// docs/serving.md tells more.
#pragma once

#include <ATen/core/ivalue.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "escapement/error.h"
#include "escapement/load.h"

namespace escapement::inline ESCAPEMENT_ABI {

// How requests are joined: what a model's inputs and results are must say so, or its owner.
enum class Batching : uint8_t {
  automatic,  // `lengths` where the signature has that form and the program writes neither inputs nor weights, else `none`
  none,       // one request a call
  rows,       // each input and each result begins with the batch, one symbol, and no row's result depends on another row: requests whose
              // other sizes and integers are equal are joined. Only the model's owner knows that it is so
  lengths,    // inputs (total, ...) ..., and as the last one `lengths`, int64 (requests,): rows of all requests one after the other, and
              // how many each has. Requests leave `lengths` out. A result begins with the total, or with the requests
};

struct BatchSettings {
  Batching batching = Batching::automatic;
  size_t max_requests = 32;  // of one batch
  size_t max_rows = 4096;    // of one; a single request may have more
  size_t max_queued = 256;   // requests that wait; more are refused
};

// Code overloaded: the queue is full, or what waits takes longer than the request may.
class ESCAPEMENT_API Overloaded : public ServingError {
 public:
  Overloaded(const std::string& text, std::chrono::milliseconds retry_after)
      : ServingError(ErrorCode::overloaded, text), retry_after_(retry_after) {}
  std::chrono::milliseconds retry_after() const noexcept { return retry_after_; }  // what waits now is answered by then, at the pace of late

 private:
  std::chrono::milliseconds retry_after_;
};

// One worker thread. Members may be called from any number of threads at once, but `close` and `run`, which wait for the worker, not from within a
// callback (unsupported). The end waits for the worker, too, but where it comes from within a callback: what waits is answered then and there.
// A child after fork has no worker: everything but the end is unsupported there; make another one. One that was moved from: invalid_input.
class ESCAPEMENT_API Batcher {
 public:
  using Clock = std::chrono::steady_clock;

  // invalid_input: the module's signature has not the form that is asked for (the text says where), its program writes inputs or weights and is to
  // be joined, or a limit of 0.
  explicit Batcher(Module module, BatchSettings settings = {});
  ~Batcher();  // closes
  Batcher(Batcher&&) noexcept;
  Batcher& operator=(Batcher&&) noexcept;

  // Asks. `done` is called exactly once, on the worker's thread: with the results, which are the request's own, or with what went wrong.
  // It should not wait; what it throws is dropped and logged. Thrown here, and `done` not called: invalid_input, where the inputs do not fit the
  // module; Overloaded; closed. From the deadline on a request that waits is not run (deadline_exceeded); of a batch the last one counts.
  void submit(std::vector<c10::IValue> inputs, Module::Done done, Clock::time_point deadline = Clock::time_point::max());
  // The same, waiting for the results; throws what `done` would be given.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, Clock::time_point deadline = Clock::time_point::max());

  // Refuses requests from now on; what waits is answered with code closed, what runs ends with its next step (cancelled) or is finished.
  void close();

  struct Counts {
    int64_t batches = 0, requests = 0;  // that were run
    int64_t largest = 0;                // requests of one batch
    int64_t refused = 0;                // Overloaded
    size_t queued = 0;                  // now
  };
  Counts counts() const;
  Batching batching() const;  // never automatic
  size_t inputs() const;      // of a request: the module's first ones
  const Module& module() const;

 private:
  struct Impl;
  explicit Batcher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace escapement
