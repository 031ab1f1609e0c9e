// What is thrown inside as the ServingError that users see (include/escapement/error.h).
#include "escapement/error.h"

#include <c10/util/Exception.h>

#include <new>

#include "support/error.h"
#include "torch/serving/module_impl.h"

namespace escapement::inline ESCAPEMENT_ABI {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_input:
      return "invalid_input";
    case ErrorCode::would_compile:
      return "would_compile";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::deadline_exceeded:
      return "deadline_exceeded";
    case ErrorCode::closed:
      return "closed";
    case ErrorCode::bad_file:
      return "bad_file";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::execution_failed:
      return "execution_failed";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::internal:
      return "internal";
    case ErrorCode::overloaded:
      return "overloaded";
  }
  return "";
}

}  // namespace escapement

namespace escapement {

namespace {

std::string refused_text(const std::string& module, const std::string& miss) {
  return "escapement: the call of '" + module + "' would compile (" + miss +
         ") and the module only serves: warm it up with such shapes, or let it record or run eagerly (Module::on_miss)";
}

std::string stopped_text(const std::string& module, CallStopped::Why why) {
  return "escapement: the call of '" + module + "' " +
         (why == CallStopped::Why::cancelled ? "was cancelled" : "passed its deadline") + "; it has changed nothing";
}

}  // namespace

void throw_serving_error(const std::string& module) {
  try {
    throw;
  } catch (const ServingError&) {
    throw;
  } catch (const WouldCompile& error) {
    throw ServingError(ErrorCode::would_compile, refused_text(module, error.what()));
  } catch (const CallStopped& stopped) {
    const bool cancelled = stopped.why == CallStopped::Why::cancelled;
    throw ServingError(cancelled ? ErrorCode::cancelled : ErrorCode::deadline_exceeded, stopped_text(module, stopped.why));
  } catch (const UserError& error) {
    throw ServingError(ErrorCode::invalid_input, error.what());
  } catch (const InternalError& error) {
    throw ServingError(ErrorCode::internal, std::string("escapement: internal error: ") + error.what());
  } catch (const c10::Error& error) {
    throw ServingError(ErrorCode::execution_failed,
                       std::string("escapement: '") + module + "' failed: " + error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    throw ServingError(ErrorCode::out_of_memory, "escapement: not enough memory for a call of '" + module + "'");
  } catch (const std::exception& error) {
    throw ServingError(ErrorCode::execution_failed, std::string("escapement: '") + module + "' failed: " + error.what());
  }
}

ErrorCode code_of_current_exception() {
  try {
    throw_serving_error("");
  } catch (const ServingError& error) {
    return error.code();
  } catch (...) {
    return ErrorCode::internal;
  }
}

}  // namespace escapement
