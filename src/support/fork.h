// What a child after fork needs to go on: locks that somebody will release, and to know what was begun in the parent. Of the parent's
// threads the child has only the one that forked: what another was inside of is never left there, what it held never released.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>

namespace escapement {

namespace fork_count {
extern std::atomic<int> forks;
}
// How many forks lie behind this process: what was begun at another count was begun in the parent.
inline int forks() { return fork_count::forks.load(std::memory_order_relaxed); }

// While one lives, no other thread holds `mutex` while the process forks, since the forking thread takes all of these first: what a
// mutex protects is whole in the child. One at a time for a mutex. To be held for moments: never around the program's own code, a
// callback, the compiler, the release of compiled code, or the making or end of a HeldOverForks, and never by a thread that forks.
// Making and ending one wait for a fork that is under way: not to be done under a lock of another kind, which the child would then
// find taken.
class HeldOverForks {
 public:
  explicit HeldOverForks(std::mutex& mutex);
  ~HeldOverForks();
  HeldOverForks(const HeldOverForks&) = delete;
  HeldOverForks& operator=(const HeldOverForks&) = delete;

 private:
  friend class MutexesOfForks;
  std::mutex& mutex_;
  HeldOverForks *next_ = nullptr, *before_ = nullptr;  // among all that there are
};

// A std::mutex that is held over forks for as long as there is one.
class ForkMutex : public std::mutex {
  HeldOverForks held_{*this};
};

// One thread at a time, for as long as it takes. It is free in a child, whoever has it in the parent, and so protects no data by itself.
class ForkTurn {
 public:
  void lock() {
    std::unique_lock<std::mutex> lock(mutex_);
    notice_fork();
    free_.wait(lock, [&] { return !taken_; });
    taken_ = true;
  }
  void unlock() {
    const std::lock_guard lock(mutex_);
    notice_fork();
    taken_ = false;
    free_.notify_one();
  }

 private:
  void notice_fork() {
    if (forks_ == forks()) return;
    forks_ = forks();
    taken_ = false;
    new (&free_) std::condition_variable;  // whoever waited on it is not there
  }

  ForkMutex mutex_;
  std::condition_variable free_;
  int forks_ = forks();
  bool taken_ = false;
};

}  // namespace escapement
