// The boxed fallback on the recorder's dispatch key: what happens at every ATen call of a recording thread.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace escapement {

struct Tape;

void install_fallback();   // once per process; idempotent
c10::BoxedKernel fallback_kernel();

// True while a composite is being recorded through its parts; its name, for storage accesses inside.
const char* composite_in_progress();

// Runs one operator on real tensors and appends it to the tape. The stack holds wrappers and numbers of that tape.
void record_op(Tape& tape, const c10::OperatorHandle& op, torch::jit::Stack& stack);
// Runs it unseen.
void run_unseen(const c10::OperatorHandle& op, torch::jit::Stack& stack);

// Who is told of this thread's operators instead of the recorder (replay_mode/call.h).
class OpListener {
 public:
  virtual void on_op(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;
  virtual void end_segment() = 0;   // every tensor that it handed out gets memory

 protected:
  ~OpListener() = default;
};
OpListener* op_listener();
void set_op_listener(OpListener* listener);
// While a compiled program runs, or another is recorded: it wants real tensors, and its operators are nobody's.
class ListenerPause {
 public:
  ListenerPause() : listener_(op_listener()) {
    if (listener_ == nullptr) return;
    listener_->end_segment();
    set_op_listener(nullptr);
  }
  ~ListenerPause() {
    if (listener_ != nullptr) set_op_listener(listener_);
  }
  ListenerPause(const ListenerPause&) = delete;
  ListenerPause& operator=(const ListenerPause&) = delete;

 private:
  OpListener* const listener_;
};
// Asked of every tensor that reaches the recorder, before anything else: gives it memory if it has none yet.
using MaterialiseHook = void (*)(const c10::TensorImpl& impl);
void set_materialise_hook(MaterialiseHook hook);

}  // namespace escapement
