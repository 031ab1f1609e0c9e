// See batcher.h.
#include "batcher.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

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

Batcher::Batcher(escapement::Module module, Limits limits)
    : module_(std::move(module)), layout_(module_.signature()), limits_(limits) {
  for (size_t i = 0; i < limits_.workers; ++i) workers_.emplace_back([this] { work(); });
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
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

Tensors Batcher::run(Tensors inputs, Clock::time_point deadline) {
  check(inputs);
  Waiting waiting{std::move(inputs), deadline, {}};
  std::future<Tensors> results = waiting.results.get_future();
  {
    const std::lock_guard lock(mutex_);
    if (ending_ || queue_.size() >= limits_.queued) throw Overloaded("too many requests wait");
    queue_.push_back(std::move(waiting));
  }
  changed_.notify_one();
  return results.get();
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
  escapement::Session session(module_);
  for (Batch batch = take(); !batch.empty(); batch = take()) {
    const auto late = [](Waiting& waiting) {
      if (Clock::now() < waiting.deadline) return false;
      waiting.results.set_exception(std::make_exception_ptr(
          escapement::ServingError(escapement::ErrorCode::deadline_exceeded, "the request waited until its deadline")));
      return true;
    };
    std::erase_if(batch, late);
    if (!batch.empty()) answer(session, batch);
  }
}

// A batch that fails is answered one by one: a bad request must not fail its neighbours.
void Batcher::answer(escapement::Session& session, Batch& batch) const {
  try {
    divide(session.run(join(batch)), batch);
  } catch (...) {
    if (batch.size() == 1) return fail(batch, std::current_exception());
    for (Waiting& waiting : batch) {
      Batch single;
      single.push_back(std::move(waiting));
      answer(session, single);
    }
  }
}

void Batcher::fail(Batch& batch, std::exception_ptr error) {
  for (Waiting& waiting : batch) waiting.results.set_exception(error);
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
void Batcher::divide(const std::vector<c10::IValue>& results, Batch& batch) const {
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
  for (size_t k = 0; k < batch.size(); ++k) batch[k].results.set_value(std::move(parts[k]));
}

}  // namespace server
