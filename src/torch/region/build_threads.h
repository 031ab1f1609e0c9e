// Threads that compile in the background for one region. What the work touches must outlive this: the destructor waits for them.
#pragma once

#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace escapement {

class BuildThreads {
 public:
  BuildThreads() = default;
  ~BuildThreads() {
    for (std::thread& thread : threads_) thread.join();
  }
  BuildThreads(const BuildThreads&) = delete;
  BuildThreads& operator=(const BuildThreads&) = delete;

  // `work` throws nothing.
  void start(const std::function<void()>& work) {
    try {
      const std::lock_guard lock(mutex_);
      threads_.emplace_back(work);
      return;
    } catch (const std::system_error&) {  // no thread is to be had
    }
    work();
  }

 private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

}  // namespace escapement
