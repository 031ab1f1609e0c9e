// A list that only grows. A longer list takes the place of the one there is, by an atomic pointer, so that readers take no lock; old lists stay, since somebody
// may be walking one. For lists of few items that are read at every call.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace escapement {

template <class T>
class GrowOnly {
 public:
  using List = std::vector<T>;

  GrowOnly() { publish(std::make_unique<const List>()); }

  // As it is now; it stays as long as this does.
  const List& list() const { return *current_.load(std::memory_order_acquire); }

  const List& add(T item) {
    const std::lock_guard lock(mutex_);
    auto next = std::make_unique<List>(list());
    next->push_back(std::move(item));
    return publish(std::move(next));
  }

 private:
  const List& publish(std::unique_ptr<const List> list) {
    lists_.push_back(std::move(list));
    current_.store(lists_.back().get(), std::memory_order_release);
    return *lists_.back();
  }

  std::atomic<const List*> current_;
  std::mutex mutex_;                                // of those that add
  std::vector<std::unique_ptr<const List>> lists_;
};

}  // namespace escapement
