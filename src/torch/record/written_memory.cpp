// See written_memory.h.
#include "torch/record/written_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "torch/record/captures.h"
#include "torch/record/each_tensor.h"
#include "torch/record/lower.h"

namespace escapement {
namespace {

const c10::StorageImpl* storage_of(const at::Tensor& real) {
  return real.defined() && real.has_storage() ? real.storage().unsafeGetStorageImpl() : nullptr;
}

// Each step is invertible, so that one changed word changes it for sure, and others but for one chance in 2^64.
uint64_t digest_of(const c10::StorageImpl& storage) {
  const auto* const bytes = static_cast<const std::byte*>(storage.data());
  const size_t count = storage.nbytes();
  uint64_t digest = count;
  for (size_t i = 0; i < count; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min(sizeof word, count - i));
    digest = std::rotl((digest ^ word) * 0x9e3779b97f4a7c15u, 29);
  }
  return digest;
}

// Of arguments that the schema does not call written.
bool is_written_silently(const OpPlan& plan, size_t argument) {
  std::vector<std::string_view> hidden;
  return writes_silently(plan.base, hidden) &&
         std::find(hidden.begin(), hidden.end(), plan.schema->arguments()[argument].name()) != hidden.end();
}

bool is_written(const OpPlan& plan, size_t argument) {
  return std::find(plan.writes.begin(), plan.writes.end(), argument) != plan.writes.end() || is_written_silently(plan, argument);
}

}  // namespace

bool WrittenMemory::is_made(const at::Tensor& real) const {
  const c10::StorageImpl* const storage = storage_of(real);
  return storage != nullptr && made_.contains(storage);
}

WrittenMemory::Given WrittenMemory::before(const OpPlan& plan, std::span<const c10::IValue> arguments) {
  Given given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool written = is_written(plan, i);
    each_tensor_of(arguments[i], [&](const at::Tensor& real) {
      given.push_back(storage_of(real));
      if (!written || !real.defined() || is_made(real)) return;
      written_ = true;
      if (undo_) undo_->keep(real);
    });
  }
  return given;
}

void WrittenMemory::after(const OpPlan& plan, const Given& given, std::span<const c10::IValue> results) {
  if (undo_) undo_->settle();
  const bool literal = plan.base == "lift_fresh" || plan.base == "lift";   // hands over what torch has made outside of all operators
  for (const c10::IValue& result : results) {
    each_tensor_of(result, [&](const at::Tensor& real) {
      const c10::StorageImpl* const storage = storage_of(real);
      if (storage == nullptr || made_.contains(storage)) return;
      if ((literal && !is_borrowed_memory(real)) || std::find(given.begin(), given.end(), storage) == given.end()) made_.emplace(storage, real.storage().getWeakStorageImpl());
    });
  }
}

void WrittenMemory::note() {
  written_ = true;
  undo_.reset();
}

void WrittenMemory::lend(const at::Tensor& real) {
  const c10::StorageImpl* const storage = storage_of(real);
  if ((written_ && !undo_) || storage == nullptr || is_made(real) || lent_.contains(storage)) return;
  if (!real.is_cpu()) return note();   // nobody could tell
  lent_.emplace(storage, Lent{real.storage().getWeakStorageImpl(), digest_of(*storage)});
}

void WrittenMemory::keep_undo() {
  if (!written_) undo_.emplace();
}

bool WrittenMemory::any() const { return written_ || wrote_lent(); }

UndoLog WrittenMemory::take_undo() {
  UndoLog undo = undo_ ? std::move(*undo_) : UndoLog();
  if (!undo_ || wrote_lent()) undo.give_up();
  undo_.reset();
  return undo;
}

bool WrittenMemory::wrote_lent() const {
  return std::any_of(lent_.begin(), lent_.end(), [](const auto& entry) {
    const auto storage = entry.second.storage.lock();
    return storage && digest_of(*storage) != entry.second.seen;
  });
}

}  // namespace escapement
