// The queue of a module and the worker that empties it (include/escapement/batcher.h).
#include "escapement/batcher.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "support/fork.h"
#include "torch/serving/batch_form.h"
#include "torch/serving/module_impl.h"

namespace escapement {

namespace {

using Clock = Batcher::Clock;

struct Waiting {
  Values inputs;
  Module::Done done;
  Clock::time_point deadline;
  std::vector<int64_t> key;  // what is joined has the same
  int64_t rows = 1;
};

thread_local const void* t_works_for = nullptr;   // whose worker this thread is

constexpr std::chrono::milliseconds kSoonest{1}, kLatest{60'000};

void check_settings(const BatchSettings& settings) {
  if (settings.max_requests > 0 && settings.max_rows > 0 && settings.max_queued > 0) return;
  throw ServingError(ErrorCode::invalid_input, "escapement: a limit of a batcher is 0: max_requests, max_rows and max_queued are 1 at least");
}

std::exception_ptr error(ErrorCode code, const std::string& module, const char* text) {
  return std::make_exception_ptr(ServingError(code, "escapement: " + std::string(text) + " of '" + module + "'"));
}

}  // namespace

struct Batcher::Impl {
  Impl(Module given, const std::shared_ptr<Module::Impl>& impl, BatchSettings wanted)
      : module(std::move(given)), inner(impl), form(inner->facts, wanted.batching), settings(wanted), session(module) {
    check_settings(settings);
    worker = std::thread([this] {
      t_works_for = this;
      work();
      if (left_to_worker) delete this;
    });
  }
  ~Impl() { close(); }

  bool in_child() const { return forks_ != forks(); }
  void require_home() const {
    if (in_child())
      throw ServingError(ErrorCode::unsupported, "escapement: this process was forked from the one whose batcher this is: make one here");
  }
  void require_other_thread() const {
    if (is_worker())
      throw ServingError(ErrorCode::unsupported, "escapement: a callback of a batcher would wait for itself: `submit` from there, and close it elsewhere");
  }
  bool is_worker() const { return t_works_for == this; }
  void submit(Waiting request);
  void close();   // for the worker: without waiting for itself
  void work();

  const Module module;
  const std::shared_ptr<Module::Impl> inner;
  const BatchForm form;
  const BatchSettings settings;
  Session session;
  std::thread worker;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Waiting> queue;
  Counts counts;
  bool ending = false;
  bool left_to_worker = false;   // the worker's own: a callback dropped the batcher

 private:
  using Batch = std::vector<Waiting>;
  void admit(const Waiting& request);
  Batch take();  // empty: the end
  void run(Batch& batch);
  void answer(std::span<Waiting> batch);
  std::vector<Values> call(std::span<const Waiting> batch);
  void hand_over(Waiting& request, std::exception_ptr problem, Values results = {}) const {
    escapement::hand_over(*inner, std::exchange(request.done, {}), std::move(problem), std::move(results));
  }

  double pace_ = 0;  // seconds that a request takes, in its batch; of those of late
  const int forks_ = forks();
};

void Batcher::Impl::submit(Waiting request) {
  require_home();
  serving(module.name(), [&] { form.check(inner->facts, request.inputs); });
  request.key = form.key(request.inputs);
  request.rows = form.rows(request.inputs);
  {
    const std::lock_guard lock(mutex);
    admit(request);
    queue.push_back(std::move(request));
  }
  changed.notify_one();
}

// With the mutex held. An empty queue takes anything, so that one slow run does not shut it for good.
void Batcher::Impl::admit(const Waiting& request) {
  if (ending) std::rethrow_exception(error(ErrorCode::closed, module.name(), "the batcher was closed"));
  const std::chrono::duration<double> wait(pace_ * static_cast<double>(queue.size()));
  const bool full = queue.size() >= settings.max_queued;
  const bool late = request.deadline != Clock::time_point::max() && !queue.empty() && wait > request.deadline - Clock::now();
  if (!full && !late) return;
  ++counts.refused;
  throw Overloaded(full ? "escapement: too many requests wait for '" + module.name() + "'"
                        : "escapement: the requests that wait for '" + module.name() + "' take longer than this one may",
                   std::clamp(std::chrono::ceil<std::chrono::milliseconds>(wait), kSoonest, kLatest));
}

void Batcher::Impl::close() {
  std::deque<Waiting> left;
  {
    const std::lock_guard lock(mutex);
    if (std::exchange(ending, true)) return;
    left.swap(queue);
  }
  changed.notify_all();
  session.cancel();
  for (Waiting& request : left) hand_over(request, error(ErrorCode::closed, module.name(), "the batcher was closed"));
  if (is_worker()) {
    worker.detach();
  } else {
    worker.join();
  }
}

// The oldest request, and of those behind it what fits to it, in order.
Batcher::Impl::Batch Batcher::Impl::take() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ending || !queue.empty(); });
  if (queue.empty()) return {};
  const size_t most = form.batching == Batching::none ? 1 : std::min(settings.max_requests, form.most_requests);
  const size_t most_rows = std::min(settings.max_rows, form.most_rows);
  Batch batch;
  size_t rows = 0;
  for (auto each = queue.begin(); each != queue.end() && batch.size() < most;) {
    const size_t more = static_cast<size_t>(each->rows);
    const bool fits = batch.empty() || (each->key == batch[0].key && rows + more <= most_rows);
    if (!fits) {
      ++each;
      continue;
    }
    rows += more;
    batch.push_back(std::move(*each));
    each = queue.erase(each);
  }
  ++counts.batches;
  counts.requests += static_cast<int64_t>(batch.size());
  counts.largest = std::max(counts.largest, static_cast<int64_t>(batch.size()));
  return batch;
}

void Batcher::Impl::work() {
  const at::NoGradGuard no_gradients;
  while (true) {   // a batch ends with its turn: nothing of a request is held while the worker waits
    Batch batch = take();
    if (batch.empty()) return;
    std::erase_if(batch, [&](Waiting& request) {
      if (Clock::now() < request.deadline) return false;
      hand_over(request, error(ErrorCode::deadline_exceeded, module.name(), "the deadline passed before a call"));
      return true;
    });
    if (!batch.empty()) run(batch);
  }
}

void Batcher::Impl::run(Batch& batch) {
  const auto start = Clock::now();
  answer(batch);
  const double pace = std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(batch.size());
  const std::lock_guard lock(mutex);
  pace_ += (pace - pace_) / 8;
}

// A batch that fails is answered one by one: a bad request must not fail its neighbours.
void Batcher::Impl::answer(std::span<Waiting> batch) {
  std::vector<Values> results;
  std::exception_ptr problem;
  try {
    results = call(batch);
  } catch (...) {
    problem = std::current_exception();
  }
  if (problem && batch.size() > 1) {
    for (Waiting& request : batch) answer({&request, 1});
    return;
  }
  for (size_t k = 0; k < batch.size(); ++k) hand_over(batch[k], problem, problem ? Values() : std::move(results[k]));
}

std::vector<Values> Batcher::Impl::call(std::span<const Waiting> batch) {
  std::vector<const Values*> requests;
  std::vector<int64_t> rows;
  Clock::time_point deadline = Clock::time_point::min();
  for (const Waiting& request : batch) {
    requests.push_back(&request.inputs);
    rows.push_back(request.rows);
    deadline = std::max(deadline, request.deadline);
  }
  session.set_deadline(deadline);
  return serving(module.name(), [&] { return form.divide(session.run(form.join(requests)), rows); });
}

// --- what users call

Batcher::Batcher(Module module, BatchSettings settings) {
  const std::shared_ptr<Module::Impl> inner = module.impl_;
  impl_ = std::make_unique<Impl>(std::move(module), inner, settings);
}
// In a child there is no such thread to be joined, and what it waited on would wait for it: both are left. The worker goes on with what it works on.
Batcher::~Batcher() {
  if (!impl_) return;
  if (impl_->in_child()) {
    static_cast<void>(impl_.release());
  } else if (impl_->is_worker()) {
    impl_->close();
    impl_.release()->left_to_worker = true;
  }
}
Batcher::Batcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Batcher::Batcher(Batcher&&) noexcept = default;
Batcher& Batcher::operator=(Batcher&& other) noexcept {
  const Batcher before(std::exchange(impl_, std::move(other.impl_)));
  return *this;
}

namespace {

template <class Impl>
Impl& there(const std::unique_ptr<Impl>& impl) {
  if (!impl) throw ServingError(ErrorCode::invalid_input, "escapement: this batcher was moved from: use the one that it was moved into");
  return *impl;
}

}  // namespace

void Batcher::submit(std::vector<c10::IValue> inputs, Module::Done done, Clock::time_point deadline) {
  there(impl_).submit({std::move(inputs), std::move(done), deadline, {}});
}

std::vector<c10::IValue> Batcher::run(std::vector<c10::IValue> inputs, Clock::time_point deadline) {
  there(impl_).require_other_thread();
  const auto promise = std::make_shared<std::promise<Values>>();   // the worker may be the last to leave it
  std::future<Values> results = promise->get_future();
  submit(std::move(inputs), [promise](std::exception_ptr problem, Values found) {
    if (problem) {
      promise->set_exception(std::move(problem));
    } else {
      promise->set_value(std::move(found));
    }
  }, deadline);
  return results.get();
}

void Batcher::close() {
  there(impl_).require_home();
  there(impl_).require_other_thread();
  there(impl_).close();
}

Batcher::Counts Batcher::counts() const {
  Impl& own = there(impl_);
  const std::lock_guard lock(own.mutex);
  Counts counts = own.counts;
  counts.queued = own.queue.size();
  return counts;
}

Batching Batcher::batching() const { return there(impl_).form.batching; }
size_t Batcher::inputs() const { return there(impl_).form.inputs; }
const Module& Batcher::module() const { return there(impl_).module; }

}  // namespace escapement
