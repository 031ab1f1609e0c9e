// See call_control.h.
#include "jit/run/call_control.h"

#include <utility>

namespace escapement {
namespace {

thread_local const CallControl* t_control = nullptr;

}  // namespace

void CallControl::check() const {
  if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) throw CallStopped(CallStopped::Why::cancelled);
  if (deadline != Clock::time_point::max() && Clock::now() >= deadline) throw CallStopped(CallStopped::Why::deadline);
}

const CallControl* current_control() { return t_control; }

ControlScope::ControlScope(const CallControl* control) : before_(std::exchange(t_control, control)) {}
ControlScope::~ControlScope() { t_control = before_; }

void ControlledRun::commit() {
  control_ = nullptr;
  rest_.active = true;
  rest_.before = std::exchange(t_control, nullptr);
}

ControlledRun::Uncontrolled::~Uncontrolled() {
  if (active) t_control = before;
}

}  // namespace escapement
