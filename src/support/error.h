// Two kinds of error (ARCHITECTURE.md, "Errors"). UserError names the user's mistake and the remedy; InternalError is our
// bug: it is caught where a compile or a recording ends, counted under its Reason, and the program runs eagerly.
#pragma once

#include <stdexcept>
#include <string>

#include "escapement/export.h"
#include "support/reason.h"

namespace escapement {

class ESCAPEMENT_API UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ESCAPEMENT_API InternalError : public std::runtime_error {
 public:
  explicit InternalError(const std::string& what, Reason why = Reason::internal_error)
      : std::runtime_error(what), reason(why) {}
  Reason reason;
};

}  // namespace escapement

// An invariant of ours. Never reachable from user input; throws, so that an embedding server survives it.
#define ESCAPEMENT_CHECK(condition, message)                                                    \
  do {                                                                                          \
    if (!(condition)) [[unlikely]]                                                              \
      throw ::escapement::InternalError(std::string(__FILE__ ":") + std::to_string(__LINE__) +  \
                                        ": " #condition ": " + (message));                      \
  } while (0)
