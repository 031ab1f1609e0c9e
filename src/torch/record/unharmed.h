// What goes wrong in writing an operator down is no business of the program, which has its results: the recording ends, under a reason.
#pragma once

#include <c10/util/Exception.h>

#include <new>
#include <stdexcept>

#include "support/error.h"
#include "torch/record/recorder_tape.h"

namespace escapement {

// Exceptions of other kinds are not ours (Python's, a server's that stops the call) and pass.
template <class Function>
void unharmed(Tape& tape, Function function) {
  try {
    function();
  } catch (const InternalError& error) {
    tape.refuse(error.reason, error.what());
  } catch (const UserError& error) {   // what it takes cannot be written down: a relation of sizes beyond 64 bits, say
    tape.refuse(Reason::recorder_refused, error.what());
  } catch (const std::runtime_error& error) {
    tape.refuse(Reason::internal_error, error.what());
  } catch (const std::logic_error& error) {
    tape.refuse(Reason::internal_error, error.what());
  } catch (const c10::Error& error) {
    tape.refuse(Reason::internal_error, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    tape.refuse(Reason::internal_error, "out of memory");
  }
}

}  // namespace escapement
