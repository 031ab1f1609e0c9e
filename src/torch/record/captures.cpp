// See captures.h.
#include "torch/record/captures.h"

#include <algorithm>
#include <cstring>

#include "torch/record/lent_memory.h"
#include "torch/record/recorder.h"

namespace escapement {
namespace {

constexpr size_t kMostLiteralBytes = 64 * 1024;

bool may_be_literal(const at::Tensor& real) {
  return real.is_cpu() && !is_borrowed_memory(real) && real.is_contiguous() && real.nbytes() <= kMostLiteralBytes;
}

bool same_bytes(const at::Tensor& real, const std::vector<std::byte>& seen) {
  return real.nbytes() == seen.size() && (seen.empty() || std::memcmp(real.const_data_ptr(), seen.data(), seen.size()) == 0);
}

size_t count_of(const at::Tensor& real, std::span<const c10::IValue> values) {
  const auto same = [&](const c10::IValue& value) { return value.isTensor() && value.toTensor().is_same(real); };
  return static_cast<size_t>(std::count_if(values.begin(), values.end(), same));
}

// A tensor that Python knows is held by its Python object, which it holds in turn: whoever holds that one holds both.
bool held_by_somebody(const at::Tensor& real, size_t known) {
  const auto& slot = *real.unsafeGetTensorImpl()->pyobj_slot();
  if (slot.load_pyobj() == nullptr) return real.use_count() > known;
  return real.use_count() > known + 1 || !slot.has_unique_reference();
}

bool is_returned(const Trace& trace, Storage storage) {
  return std::any_of(trace.outputs.begin(), trace.outputs.end(),
                     [&](const Output& output) { return output.value && trace.type(output.value).storage == storage; });
}

// Captured tensors are the last inputs, in order.
Storage storage_of(const Trace& trace, size_t number, size_t captured) {
  return trace.type(trace.inputs[trace.inputs.size() - captured + number].value).storage;
}

}  // namespace

bool is_borrowed_memory(const at::Tensor& real) { return real.storage().allocator() == nullptr; }

void Captures::note_use(size_t number, const at::Tensor& real) {
  if (number >= known_.size()) {
    known_.resize(number + 1);
    if (!may_be_literal(real)) return;
    const auto* const bytes = static_cast<const std::byte*>(real.const_data_ptr());
    known_[number].seen.assign(bytes, bytes + real.nbytes());
  } else if (!known_[number].own && !known_[number].changed && may_be_literal(real)) {
    known_[number].changed = !same_bytes(real, known_[number].seen);
  }
}

void Captures::note_own(size_t number) {
  known_.resize(std::max(known_.size(), number + 1));
  known_[number].own = true;
}

std::optional<Captures::Refusal> Captures::refusal(const Recording& recording, std::span<const c10::IValue> outputs, long holders) const {
  const Trace& trace = recording.trace;
  for (size_t i = 0; i < recording.captured.size(); ++i) {
    const at::Tensor& real = recording.captured[i];
    if (known_[i].own || held_by_somebody(real, holders + count_of(real, outputs))) continue;
    if (is_borrowed_memory(real)) return Refusal{Reason::made_unseen, "memory that no tensor owns (from_blob, from_numpy, dlpack and the like)"};
    if (real.storage().use_count() > 1) return Refusal{Reason::made_unseen, "another name for the memory of a tensor, as of .data()"};
    if (!may_be_literal(real) || known_[i].changed) return Refusal{Reason::storage_access, "a tensor that is large, or changed through its address"};
    const Storage storage = storage_of(trace, i, recording.captured.size());
    if (is_written(trace, storage) || is_returned(trace, storage)) return Refusal{Reason::made_unseen, "a literal that the program writes or returns"};
    if (!same_bytes(real, known_[i].seen)) return Refusal{Reason::storage_access, "a literal that is changed through its address"};
  }
  return {};
}

}  // namespace escapement
