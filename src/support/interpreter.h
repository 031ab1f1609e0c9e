// The lock of an interpreter that calls come from, Python's: let go of while work takes long, so that other threads go on, and around
// operators of somebody else's, which may wait for a thread that wants it (a collective waits for its library's).
#pragma once

#include "escapement/export.h"

namespace escapement {

struct InterpreterLock {
  void* (*let_go)() = nullptr;    // what `take` wants; null: this thread does not hold it
  void (*take)(void*) = nullptr;
};

// Set once, by a binding when it is loaded; else there is none.
ESCAPEMENT_API InterpreterLock& interpreter_lock();

// While this lives the thread that made it does not hold the lock: nothing of the interpreter's may be touched.
class WithoutInterpreter {
 public:
  WithoutInterpreter() : held_(interpreter_lock().let_go != nullptr ? interpreter_lock().let_go() : nullptr) {}
  ~WithoutInterpreter() {
    if (held_ != nullptr) interpreter_lock().take(held_);
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  void* const held_;
};

}  // namespace escapement
