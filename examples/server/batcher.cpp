// See batcher.h.
#include "batcher.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "reply.h"

namespace server {

namespace {

using Item = escapement::Signature::Item;

bool is_lengths(const Item& item) {
  return item.name == "lengths" && item.dtype == c10::ScalarType::Long && item.dims.size() == 1 && item.dims[0].is_symbol;
}

bool starts_with(const Item& item, const std::string& symbol) {
  return !item.dims.empty() && item.dims[0].text == symbol;
}

}  // namespace

Layout::Layout(const escapement::Signature& signature) : inputs(signature.inputs.size()) {
  if (inputs < 2 || !is_lengths(signature.inputs.back())) return;
  const auto& first = signature.inputs[0].dims;
  if (first.empty() || !first[0].is_symbol) return;
  const std::string total = first[0].text, requests = signature.inputs.back().dims[0].text;
  for (size_t i = 0; i + 1 < inputs; ++i) {
    if (!starts_with(signature.inputs[i], total)) return;
  }
  for (const Item& output : signature.outputs) {
    if (!starts_with(output, total) && !starts_with(output, requests)) return;
    per_row.push_back(starts_with(output, total));
  }
  jagged = total != requests;
  if (jagged) --inputs;
}

Batcher::Batcher(escapement::Module module, QueueLimits limits)
    : module_(std::move(module)), layout_(module_.signature()), limits_(limits), session_(module_) {
  worker_ = std::thread([this] { work(); });
}

Batcher::~Batcher() { close(); }

void Batcher::close() {
  std::deque<Waiting> queue;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ending_, true)) return;
    queue.swap(queue_);
  }
  changed_.notify_all();
  session_.cancel();
  const auto error = std::make_exception_ptr(Refusal(503, "the server is ending", 1));
  for (Waiting& waiting : queue) waiting.answer({{}, error});
  worker_.join();
}

// Sums over a batch could hide that one request's inputs do not belong together.
void Batcher::check(const Tensors& inputs) const {
  if (!layout_.jagged) return;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& item = module_.signature().inputs[i];
    bool right = inputs[i].dim() == static_cast<int64_t>(item.dims.size()) && inputs[i].size(0) == inputs[0].size(0);
    for (size_t d = 1; right && d < item.dims.size(); ++d)
      right = !item.dims[d].value || *item.dims[d].value == inputs[i].size(static_cast<int64_t>(d));
    if (!right)
      throw escapement::ServingError(escapement::ErrorCode::invalid_input,
                                     "the shape of the input '" + item.name + "' is not that of the model's metadata");
  }
}

void Batcher::submit(Tensors inputs, Clock::time_point deadline, Answer answer) {
  check(inputs);
  {
    const std::lock_guard lock(mutex_);
    admit(deadline);
    queue_.push_back({std::move(inputs), deadline, std::move(answer)});
  }
  changed_.notify_one();
}

// With the mutex held. An empty queue takes anything, so that one slow run does not shut it for good.
void Batcher::admit(Clock::time_point deadline) {
  if (ending_) throw Refusal(503, "the server is ending", 1);
  const double wait = pace_ * static_cast<double>(queue_.size());
  const int seconds = static_cast<int>(std::clamp(std::ceil(wait), 1.0, 60.0));
  if (queue_.size() >= limits_.queued) throw Refusal(503, "too many requests wait", seconds);
  if (deadline != Clock::time_point::max() && wait > std::chrono::duration<double>(deadline - Clock::now()).count())
    if (!queue_.empty()) throw Refusal(503, "the requests that wait take longer than this one may", seconds);
}

Batcher::Counts Batcher::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.queued = queue_.size();
  return counts;
}

Batcher::Batch Batcher::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
  Batch batch;
  size_t rows = 0;
  while (!queue_.empty() && batch.size() < (layout_.jagged ? limits_.requests : 1)) {
    const size_t more = static_cast<size_t>(queue_.front().rows());
    if (!batch.empty() && rows + more > limits_.rows) break;
    rows += more;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  if (!batch.empty()) {
    ++counts_.batches;
    counts_.requests += static_cast<int64_t>(batch.size());
    counts_.largest = std::max(counts_.largest, static_cast<int64_t>(batch.size()));
  }
  return batch;
}

void Batcher::work() {
  for (Batch batch = take(); !batch.empty(); batch = take()) {
    const auto late = [](Waiting& waiting) {
      if (Clock::now() < waiting.deadline) return false;
      waiting.answer({{}, std::make_exception_ptr(Refusal(504, "the request waited until its deadline"))});
      return true;
    };
    std::erase_if(batch, late);
    if (!batch.empty()) run(batch);
  }
}

void Batcher::run(Batch& batch) {
  const auto start = Clock::now();
  const double requests = static_cast<double>(batch.size());
  answer(batch);
  const double pace = std::chrono::duration<double>(Clock::now() - start).count() / requests;
  const std::lock_guard lock(mutex_);
  pace_ += (pace - pace_) / 8;
}

// A batch that fails is answered one by one: a bad request must not fail its neighbours.
void Batcher::answer(Batch& batch) {
  std::vector<Tensors> results;
  try {
    const auto sooner = [](const Waiting& a, const Waiting& b) { return a.deadline < b.deadline; };
    session_.set_deadline(std::max_element(batch.begin(), batch.end(), sooner)->deadline);
    results = divide(session_.run(join(batch)), batch);
  } catch (...) {
    if (batch.size() == 1) return batch[0].answer({{}, std::current_exception()});
  }
  for (size_t k = 0; k < batch.size(); ++k) {
    if (!results.empty()) {
      batch[k].answer({std::move(results[k]), {}});
    } else {
      Batch single;
      single.push_back(std::move(batch[k]));
      answer(single);
    }
  }
}

Tensors Batcher::join(const Batch& batch) const {
  if (!layout_.jagged) return batch[0].inputs;
  Tensors inputs;
  for (size_t i = 0; i < layout_.inputs; ++i) {
    Tensors parts;
    for (const Waiting& waiting : batch) parts.push_back(waiting.inputs[i]);
    inputs.push_back(parts.size() == 1 ? parts[0] : at::cat(parts));
  }
  const at::Tensor lengths = at::empty({static_cast<int64_t>(batch.size())}, at::TensorOptions().dtype(at::kLong));
  for (size_t k = 0; k < batch.size(); ++k) lengths.mutable_data_ptr<int64_t>()[k] = batch[k].rows();
  inputs.push_back(lengths);
  return inputs;
}

// Copies: the session writes into the same memory in its next run.
std::vector<Tensors> Batcher::divide(const std::vector<c10::IValue>& results, const Batch& batch) const {
  std::vector<Tensors> parts(batch.size());
  int64_t row = 0;
  for (size_t k = 0; k < batch.size(); ++k) {
    const int64_t rows = batch[k].rows();
    for (size_t i = 0; i < results.size(); ++i) {
      const at::Tensor& all = results[i].toTensor();
      if (!layout_.jagged)
        parts[k].push_back(all.clone());
      else
        parts[k].push_back(
            (layout_.per_row[i] ? all.narrow(0, row, rows) : all.narrow(0, static_cast<int64_t>(k), 1)).clone());
    }
    row += rows;
  }
  return parts;
}

}  // namespace server
