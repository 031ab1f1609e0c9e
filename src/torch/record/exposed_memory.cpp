// See exposed_memory.h.
#include "torch/record/exposed_memory.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "support/fork.h"

namespace escapement {
namespace {

constexpr uint64_t kAlways = UINT64_MAX;   // arrays come and go without a word
constexpr size_t kFewest = 256;            // entries before it is worth to look for dead ones

class Exposed {
 public:
  static Exposed& instance() {
    static Exposed* const exposed = new Exposed;   // tensors outlive static objects
    return *exposed;
  }

  void note(const c10::Storage& storage, bool for_good) {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = entries_.try_emplace(storage.unsafeGetStorageImpl(), storage.getWeakStorageImpl(), 0);
    if (entry->second.times != kAlways) entry->second.times = for_good ? kAlways : entry->second.times + 1;
    any_.store(true, std::memory_order_release);
    if (is_new && entries_.size() > limit_) drop_dead();
  }
  uint64_t times(const c10::Storage& storage) {
    if (!any_.load(std::memory_order_acquire)) return 0;
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(storage.unsafeGetStorageImpl());
    return entry == entries_.end() ? 0 : entry->second.times;
  }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;   // keeps the address from being used again
    uint64_t times;
    Entry(c10::weak_intrusive_ptr<c10::StorageImpl> of, uint64_t so_far) : storage(std::move(of)), times(so_far) {}
  };

  void drop_dead() {
    std::erase_if(entries_, [](const auto& entry) { return entry.second.storage.expired(); });
    limit_ = std::max(kFewest, 2 * entries_.size());
  }

  ForkMutex mutex_;
  std::atomic<bool> any_ = false;
  std::unordered_map<const c10::StorageImpl*, Entry> entries_;
  size_t limit_ = kFewest;
};

const c10::Storage& storage_of(const at::TensorBase& tensor) { return tensor.unsafeGetTensorImpl()->unsafe_storage(); }
bool is_resizable(const at::TensorBase& tensor) { return storage_of(tensor).unsafeGetStorageImpl()->resizable(); }

}  // namespace

void note_exposed(const at::TensorBase& tensor) {
  if (tensor.defined() && tensor.unsafeGetTensorImpl()->has_storage() && storage_of(tensor)) Exposed::instance().note(storage_of(tensor), false);
}

void note_array(const at::TensorBase& tensor) { Exposed::instance().note(storage_of(tensor), true); }

// What was handed out and is still held can be written at any time.
Exposure::Exposure(const at::Tensor& tensor) : resizable_(is_resizable(tensor)) {
  if (storage_of(tensor).use_count() == 1) times_ = Exposed::instance().times(storage_of(tensor));
}

bool Exposure::is_quiet(const at::Tensor& tensor) const {
  if (resizable_ && !is_resizable(tensor)) Exposed::instance().note(storage_of(tensor), true);
  const uint64_t now = Exposed::instance().times(storage_of(tensor));
  return now == times_ && now != kAlways;
}

}  // namespace escapement
