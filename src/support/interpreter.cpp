// See interpreter.h. One for the process: a variable in the header would be another in each library.
#include "support/interpreter.h"

namespace escapement {

InterpreterLock& interpreter_lock() {
  static InterpreterLock lock;
  return lock;
}

}  // namespace escapement
