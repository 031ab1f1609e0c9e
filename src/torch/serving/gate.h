// Gate: what calls run on, handed out per call, so that it can be replaced and closed while calls go on. A call that entered
// keeps what it got until it leaves; `close` refuses new ones and waits for those inside. In a forked child nobody is inside:
// whoever was is inside of the parent's gate.
//
// A mutex and a counter: 20 ns a side where nobody waits, and nothing to reason about.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "escapement/error.h"
#include "support/fork.h"

namespace escapement {

template <class T>
class Gate {
 public:
  class Pass {
   public:
    Pass(Gate& gate, std::shared_ptr<T> state) : gate_(&gate), state_(std::move(state)), forks_(gate.forks_) {}
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    ~Pass() {
      state_.reset();  // before `close` may return
      gate_->leave(forks_);
    }
    T* operator->() const { return state_.get(); }
    T& operator*() const { return *state_; }

   private:
    Gate* gate_;
    std::shared_ptr<T> state_;
    int forks_;
  };

  explicit Gate(std::shared_ptr<T> state) : state_(std::move(state)) {}

  Pass enter() {  // ServingError closed
    const std::lock_guard lock(mutex_);
    notice_fork();
    if (!state_) throw ServingError(ErrorCode::closed, "escapement: the module is closed");
    ++inside_;
    return Pass(*this, state_);
  }

  void replace(std::shared_ptr<T> state) {  // for those who enter from now on; nothing happens if it is closed
    const std::lock_guard lock(mutex_);
    if (state_) std::swap(state_, state);
  }

  void close() {
    std::shared_ptr<T> last;
    std::unique_lock<std::mutex> lock(mutex_);
    notice_fork();
    std::swap(last, state_);
    empty_.wait(lock, [&] { return inside_ == 0; });
  }

  bool is_closed() const {
    const std::lock_guard lock(mutex_);
    return !state_;
  }
  int64_t inside() const {
    const std::lock_guard lock(mutex_);
    return forks_ == forks() ? inside_ : 0;
  }

 private:
  void leave(int entered) {
    const std::lock_guard lock(mutex_);
    notice_fork();
    if (entered == forks_ && --inside_ == 0) empty_.notify_all();
  }

  void notice_fork() {
    if (forks_ == forks()) return;
    forks_ = forks();
    inside_ = 0;
    new (&empty_) std::condition_variable;  // whoever waited on it is not there
  }

  mutable ForkMutex mutex_;
  int forks_ = forks();
  std::condition_variable empty_;
  std::shared_ptr<T> state_;
  int64_t inside_ = 0;
};

}  // namespace escapement
