// A pool of contexts for concurrent calls: take one, give it back. A thread that calls again and again gets the context it used
// last, whose shapes and memory are warm. Idle contexts beyond kKept are freed, and with them their memory.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

namespace escapement {

template <class T>
class ContextPool {
 public:
  static constexpr size_t kKept = 16;

  ContextPool() = default;
  ContextPool(const ContextPool&) = delete;
  ContextPool& operator=(const ContextPool&) = delete;
  ~ContextPool() {
    for (auto& place : places_) delete place.load();
  }

  template <class Make>
  std::unique_ptr<T> take(const Make& make) {
    const size_t first = home();
    for (size_t i = 0; i < kKept; ++i) {
      auto& place = places_[(first + i) % kKept];
      if (place.load(std::memory_order_relaxed) == nullptr) continue;
      if (T* taken = place.exchange(nullptr, std::memory_order_acquire)) return std::unique_ptr<T>(taken);
    }
    return make();
  }

  void give(std::unique_ptr<T> context) {
    const size_t first = home();
    for (size_t i = 0; i < kKept; ++i) {
      T* expected = nullptr;
      auto& place = places_[(first + i) % kKept];
      if (place.load(std::memory_order_relaxed) != nullptr) continue;
      if (place.compare_exchange_strong(expected, context.get(), std::memory_order_release)) {
        context.release();
        return;
      }
    }
  }

 private:
  static size_t home() {
    static std::atomic<size_t> last{0};
    static thread_local constinit size_t mine = 0;   // not yet numbered; a number that C++ had to compute would be asked for twice at each call
    if (mine == 0) mine = last.fetch_add(1, std::memory_order_relaxed) + 1;
    return mine % kKept;
  }

  std::array<std::atomic<T*>, kKept> places_{};
};

}  // namespace escapement
