// What may end a call before it is done: a flag that another thread sets, and a deadline. They belong to the thread's
// current call.
//
// Where they are looked at: before each step of a plan (kernel, library call, check) and before each node of an exported
// program that runs eagerly or is recorded, as long as the call has changed nothing that its caller can see. From the first
// such effect on the call runs to its end: a call that was stopped has changed nothing. A kernel or library call that has
// begun is never interrupted, nor is the compiler.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>

namespace escapement {

class CallStopped : public std::exception {
 public:
  enum class Why : uint8_t { cancelled, deadline };
  explicit CallStopped(Why given) : why(given) {}
  const char* what() const noexcept override { return why == Why::cancelled ? "cancelled" : "deadline exceeded"; }
  Why why;
};

struct CallControl {
  using Clock = std::chrono::steady_clock;
  const std::atomic<bool>* cancelled = nullptr;
  Clock::time_point deadline = Clock::time_point::max();

  bool wanted() const { return cancelled != nullptr || deadline != Clock::time_point::max(); }
  void check() const;  // throws CallStopped
};

// The control of the thread's current call; null: nothing can stop it.
const CallControl* current_control();

// For the scope's life the thread's control is this one, or none.
class ControlScope {
 public:
  explicit ControlScope(const CallControl* control);
  ~ControlScope();
  ControlScope(const ControlScope&) = delete;
  ControlScope& operator=(const ControlScope&) = delete;

 private:
  const CallControl* const before_;
};

// How a run looks at its thread's control: until the first effect.
class ControlledRun {
 public:
  ControlledRun() : control_(current_control()) {}
  // Before a step. `effect`: the step changes something; then nothing stops this run any more, nor what it calls.
  void step(bool effect) {
    if (control_ == nullptr) return;
    control_->check();
    if (effect) commit();
  }

 private:
  void commit();

  const CallControl* control_;
  struct Uncontrolled {
    bool active = false;
    const CallControl* before = nullptr;
    ~Uncontrolled();
  } rest_;
};

}  // namespace escapement
