// Threads that compile in the background for one region. What the work touches must outlive this: the destructor waits for them.
#pragma once

#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "support/fork.h"

namespace escapement {

class BuildThreads {
 public:
  BuildThreads() = default;
  ~BuildThreads() {
    leave_those_of_the_parent();
    for (std::thread& thread : threads_) thread.join();
  }
  BuildThreads(const BuildThreads&) = delete;
  BuildThreads& operator=(const BuildThreads&) = delete;

  // `work` throws nothing.
  void start(const std::function<void()>& work) {
    try {
      const std::lock_guard lock(mutex_);
      leave_those_of_the_parent();
      threads_.emplace_back(work);
      return;
    } catch (const std::system_error&) {  // no thread is to be had
    }
    work();
  }

 private:
  // A fork left them behind: handles of threads that are not there can be neither joined nor detached.
  void leave_those_of_the_parent() {
    if (forks_ == forks()) return;
    forks_ = forks();
    for (std::thread& thread : threads_) new (&thread) std::thread;
    threads_.clear();
  }

  ForkMutex mutex_;
  std::vector<std::thread> threads_;
  int forks_ = forks();   // the process that they are of
};

}  // namespace escapement
