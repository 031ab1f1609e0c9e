// See background.h. The state is never destroyed: a thread of the program may ask for work while the process ends.
#include "support/background.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

namespace escapement {
namespace {

constexpr int kNiceness = 10;

class Worker {
 public:
  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    work_.push_back(std::move(work));
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
    ready_.notify_one();
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      work_.clear();
      ready_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

  // --- around fork: only the forking thread lives on in the child
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void restart_in_child() {
    new (&thread_) std::thread;      // the handle of a thread that is not there: neither joined nor detached
    new (&ready_) std::condition_variable;
    work_.clear();
    mutex_.unlock();
  }

 private:
  void loop() {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNiceness);
    std::unique_lock lock(mutex_);
    while (true) {
      ready_.wait(lock, [&] { return ending_ || !work_.empty(); });
      if (ending_) return;
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      try {
        work();
      } catch (...) {  // nobody waits for it
      }
      work = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> work_;
  std::thread thread_;
  bool ending_ = false;
};

Worker& worker() {
  static Worker* const instance = [] {
    auto* made = new Worker;
    std::atexit([] { worker().end(); });
    pthread_atfork([] { worker().lock(); }, [] { worker().unlock(); }, [] { worker().restart_in_child(); });
    return made;
  }();
  return *instance;
}

}  // namespace

void run_in_background(std::function<void()> work) { worker().add(std::move(work)); }

}  // namespace escapement
