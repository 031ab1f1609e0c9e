// The one exception of the serving interface: a code to act upon, and a text that names the cause and the remedy.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "escapement/export.h"
#include "escapement/version.h"

namespace escapement::inline ESCAPEMENT_ABI {

enum class ErrorCode : uint8_t {
  invalid_input,       // a call's inputs, outputs or new weights do not fit the module: the caller's mistake
  would_compile,       // the module only serves, and no version fits the call: warm up with such shapes
  cancelled,           // the session was cancelled; the call has changed nothing
  deadline_exceeded,   // the deadline passed; the call has changed nothing
  closed,              // the module or engine was closed
  bad_file,            // cannot be opened, is damaged, or holds what is not supported; the text says which
  unsupported,         // this module cannot do that
  execution_failed,    // an operator of the program failed, as it would in eager PyTorch
  out_of_memory,
  internal,            // a mistake of the library
  overloaded,          // too much waits already: come again later (Batcher)
};

ESCAPEMENT_API const char* to_string(ErrorCode code);   // "invalid_input"

class ESCAPEMENT_API ServingError : public std::runtime_error {
 public:
  ServingError(ErrorCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace escapement
