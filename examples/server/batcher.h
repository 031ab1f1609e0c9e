// Batcher: requests that wait are answered by one call of the model, without padding.
//
// A model that can be batched so takes rows of all requests one after the other, and as its last input how many rows each
// request has: inputs (total, ...) ..., lengths int64 (requests,). Its results have a row for each row, or for each request.
// That this is so is read off the model's signature: first sizes that are one symbol are the total; the last input is a
// vector of integers named "lengths". Any other model is called with one request at a time.
//
// There is no waiting for company: the worker takes what is in the queue when it is free. Under load batches grow by
// themselves. The queue has an end: a request beyond it is refused at once, and so is one that would wait until it is too
// late; both are told when to come again.
#pragma once

#include <ATen/core/Tensor.h>
#include <escapement/serving.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "settings.h"

namespace server {

using Tensors = std::vector<at::Tensor>;

// How a model's inputs and results divide into requests.
struct Layout {
  explicit Layout(const escapement::Signature& signature);
  bool jagged = false;
  size_t inputs = 0;          // that a request has: without `lengths`
  std::vector<bool> per_row;  // per result: a row for each row, else one for each request
};

struct Outcome {
  Tensors results;
  std::exception_ptr error;  // or this
};
using Answer = std::function<void(Outcome)>;  // called once, on any thread; must not wait

class Batcher {
 public:
  Batcher(escapement::Module module, QueueLimits limits);
  ~Batcher();

  // ServingError where inputs do not fit; Refusal where too many wait, or what waits takes longer than there is time.
  void submit(Tensors inputs, Clock::time_point deadline, Answer answer);
  // What waits is refused, and what runs ends with its next step.
  void close();

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
    Answer answer;
    int64_t rows() const { return inputs.empty() || inputs[0].dim() == 0 ? 1 : inputs[0].size(0); }
  };
  using Batch = std::vector<Waiting>;
  void check(const Tensors& inputs) const;
  void admit(Clock::time_point deadline);
  void work();
  Batch take();  // empty: the end
  void run(Batch& batch);
  void answer(Batch& batch);
  Tensors join(const Batch& batch) const;
  std::vector<Tensors> divide(const std::vector<c10::IValue>& results, const Batch& batch) const;

  const escapement::Module module_;
  const Layout layout_;
  const QueueLimits limits_;
  escapement::Session session_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> queue_;
  bool ending_ = false;
  double pace_ = 0;  // seconds that a request takes, in its batch; of those of late
  Counts counts_;
  std::thread worker_;
};

}  // namespace server
