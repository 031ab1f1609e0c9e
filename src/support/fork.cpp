// See fork.h. The locks are taken by trying, all or none, so that their order does not matter; only for the one that was found taken
// is waited, while none of the others is held. Registered before any thread of ours runs: handlers that are registered later come
// first before a fork, so that the compiler is at rest when the locks are taken.
#include "support/fork.h"

#include <pthread.h>

namespace escapement {

std::atomic<int> fork_count::forks{0};

class MutexesOfForks {
 public:
  static MutexesOfForks& all() {
    static MutexesOfForks* const one = new MutexesOfForks;  // never destroyed: locks of static objects outlive it
    return *one;
  }

  void add(HeldOverForks& held) {
    const std::lock_guard lock(list_);
    held.next_ = first_;
    if (first_ != nullptr) first_->before_ = &held;
    first_ = &held;
  }
  void remove(HeldOverForks& held) {
    const std::lock_guard lock(list_);
    (held.before_ != nullptr ? held.before_->next_ : first_) = held.next_;
    if (held.next_ != nullptr) held.next_->before_ = held.before_;
  }

  // --- around fork
  void take() {
    list_.lock();
    HeldOverForks* waited_for = nullptr;
    while (HeldOverForks* const busy = try_all(waited_for)) {
      waited_for = busy;
      busy->mutex_.lock();
    }
  }
  void release() {
    for (HeldOverForks* each = first_; each != nullptr; each = each->next_) each->mutex_.unlock();
    list_.unlock();
  }
  void release_in_child() {
    fork_count::forks.fetch_add(1, std::memory_order_relaxed);
    release();
  }

 private:
  // All but `mine`, which is held already. One that another thread holds; then none is held any more, nor `mine`.
  HeldOverForks* try_all(HeldOverForks* mine) {
    HeldOverForks* busy = first_;
    while (busy != nullptr && (busy == mine || busy->mutex_.try_lock())) busy = busy->next_;
    if (busy == nullptr) return nullptr;
    for (HeldOverForks* each = first_; each != busy; each = each->next_) {
      if (each != mine) each->mutex_.unlock();
    }
    if (mine != nullptr) mine->mutex_.unlock();
    return busy;
  }

  std::mutex list_;
  HeldOverForks* first_ = nullptr;
};

namespace {

[[maybe_unused]] const int registered =
    pthread_atfork([] { MutexesOfForks::all().take(); }, [] { MutexesOfForks::all().release(); },
                   [] { MutexesOfForks::all().release_in_child(); });

}  // namespace

HeldOverForks::HeldOverForks(std::mutex& mutex) : mutex_(mutex) { MutexesOfForks::all().add(*this); }
HeldOverForks::~HeldOverForks() { MutexesOfForks::all().remove(*this); }

}  // namespace escapement
