// Who is inside, and how much they hold: counted when they come, released by scope whichever way they leave.
//
// A Ticket is held by a request from the end of its header until its answer is sent; a Hold by the bytes that it keeps in
// memory. Both are thread safe where they are shared: Door and Budget outlive all of theirs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "settings.h"

namespace server {

class Door;

class Ticket {
 public:
  Ticket() = default;  // of a request that is not counted
  explicit Ticket(Door* door) : door_(door) {}
  Ticket(Ticket&& other) noexcept : door_(std::exchange(other.door_, nullptr)) {}
  Ticket& operator=(Ticket&& other) noexcept {
    std::swap(door_, other.door_);
    return *this;
  }
  ~Ticket();
  void answered(int status) const;  // once, with the answer that is about to be sent

 private:
  Door* door_ = nullptr;
};

class Door {
 public:
  bool enter(Ticket& ticket) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    ++inside_;
    ticket = Ticket(this);
    return true;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  bool empty_within(Milliseconds time) {
    std::unique_lock lock(mutex_);
    return empty_.wait_for(lock, time, [&] { return inside_ == 0; });
  }
  void note(int status) {
    const std::lock_guard lock(mutex_);
    ++answers_[status];
  }
  std::map<int, int64_t> answers() const {  // by status
    const std::lock_guard lock(mutex_);
    return answers_;
  }

 private:
  friend class Ticket;
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) empty_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable empty_;
  bool closed_ = false;
  int64_t inside_ = 0;
  std::map<int, int64_t> answers_;
};

inline Ticket::~Ticket() {
  if (door_) door_->leave();
}
inline void Ticket::answered(int status) const {
  if (door_) door_->note(status);
}

class Budget {
 public:
  explicit Budget(size_t most) : most_(most) {}
  size_t held() const { return held_; }

 private:
  friend class Hold;
  const size_t most_;
  std::atomic<size_t> held_ = 0;
};

class Hold {
 public:
  explicit Hold(Budget& budget) : budget_(budget) {}
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() { set(0); }
  // What this one holds from now on. False where all together hold too much: then it is to be given up.
  bool set(size_t bytes) {
    const size_t before = std::exchange(bytes_, bytes);
    const size_t all = budget_.held_ += bytes - before;  // modulo 2^64: also downwards
    return all <= budget_.most_;
  }

 private:
  Budget& budget_;
  size_t bytes_ = 0;
};

}  // namespace server
