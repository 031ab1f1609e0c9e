// Batcher: requests that wait are answered by one call of the model, without padding.
//
// A model that can be batched so takes rows of all requests one after the other, and as its last input how many rows each
// request has: inputs (total, ...) ..., lengths int64 (requests,). Its results have a row for each row, or for each request.
// That this is so is read off the model's signature: first sizes that are one symbol are the total; the last input is a
// vector of integers named "lengths". Any other model is called with one request at a time.
//
// There is no waiting for company: a worker takes what is in the queue when it is free. Under load batches grow by
// themselves.
#pragma once

#include <ATen/core/Tensor.h>
#include <escapement/serving.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace server {

using Tensors = std::vector<at::Tensor>;
using Clock = std::chrono::steady_clock;

// How a model's inputs and results divide into requests.
struct Layout {
  explicit Layout(const escapement::Signature& signature);
  bool jagged = false;
  size_t inputs = 0;          // that a request has: without `lengths`
  std::vector<bool> per_row;  // per result: a row for each row, else one for each request
};

struct Limits {
  size_t requests = 32, rows = 4096;  // of one batch; a single request may have more rows
  size_t queued = 1024;               // waiting; more are refused
  size_t workers = 1;
};

struct Overloaded : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Batcher {
 public:
  Batcher(escapement::Module module, Limits limits);
  ~Batcher();  // waits for what is queued

  // Blocks until the results are there. ServingError, Overloaded.
  Tensors run(Tensors inputs, Clock::time_point deadline);

  struct Counts {
    int64_t batches = 0, requests = 0, largest = 0;
    size_t queued = 0;
  };
  Counts counts() const;
  const Layout& layout() const { return layout_; }

 private:
  struct Waiting {
    Tensors inputs;
    Clock::time_point deadline;
    std::promise<Tensors> results;
    int64_t rows() const { return inputs.empty() || inputs[0].dim() == 0 ? 1 : inputs[0].size(0); }
  };
  using Batch = std::vector<Waiting>;
  void check(const Tensors& inputs) const;
  void work();
  Batch take();  // empty: the end
  void answer(escapement::Session& session, Batch& batch) const;
  Tensors join(const Batch& batch) const;
  void divide(const std::vector<c10::IValue>& results, Batch& batch) const;
  static void fail(Batch& batch, std::exception_ptr error);

  const escapement::Module module_;
  const Layout layout_;
  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> queue_;
  bool ending_ = false;
  Counts counts_;
  std::vector<std::thread> workers_;
};

}  // namespace server
