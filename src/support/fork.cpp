// See fork.h. The locks are taken by trying, all or none, so that their order does not matter; only for the one that was found taken
// is waited, while none of the others is held. Registered before any thread of ours runs: handlers that are registered later come
// first before a fork, so that the compiler is at rest when the locks are taken.
#include "support/fork.h"

#include <pthread.h>

namespace escapement {

std::atomic<int> fork_count::forks{0};

class ForkMutexes {
 public:
  static ForkMutexes& all() {
    static ForkMutexes* const one = new ForkMutexes;  // never destroyed: locks of static objects outlive it
    return *one;
  }

  void add(ForkMutex& mutex) {
    const std::lock_guard lock(list_);
    mutex.next_ = first_;
    if (first_ != nullptr) first_->before_ = &mutex;
    first_ = &mutex;
  }
  void remove(ForkMutex& mutex) {
    const std::lock_guard lock(list_);
    (mutex.before_ != nullptr ? mutex.before_->next_ : first_) = mutex.next_;
    if (mutex.next_ != nullptr) mutex.next_->before_ = mutex.before_;
  }

  // --- around fork
  void take() {
    list_.lock();
    ForkMutex* waited_for = nullptr;
    while (ForkMutex* const busy = try_all(waited_for)) {
      waited_for = busy;
      busy->lock();
    }
  }
  void release() {
    for (ForkMutex* each = first_; each != nullptr; each = each->next_) each->unlock();
    list_.unlock();
  }
  void release_in_child() {
    fork_count::forks.fetch_add(1, std::memory_order_relaxed);
    release();
  }

 private:
  // All but `mine`, which is held already. One that another thread holds; then none is held any more, nor `mine`.
  ForkMutex* try_all(ForkMutex* mine) {
    ForkMutex* busy = first_;
    while (busy != nullptr && (busy == mine || busy->try_lock())) busy = busy->next_;
    if (busy == nullptr) return nullptr;
    for (ForkMutex* each = first_; each != busy; each = each->next_) {
      if (each != mine) each->unlock();
    }
    if (mine != nullptr) mine->unlock();
    return busy;
  }

  std::mutex list_;
  ForkMutex* first_ = nullptr;
};

namespace {

[[maybe_unused]] const int registered =
    pthread_atfork([] { ForkMutexes::all().take(); }, [] { ForkMutexes::all().release(); },
                   [] { ForkMutexes::all().release_in_child(); });

}  // namespace

ForkMutex::ForkMutex() { ForkMutexes::all().add(*this); }
ForkMutex::~ForkMutex() { ForkMutexes::all().remove(*this); }

}  // namespace escapement
