// What a user is told by something that fails.
#pragma once

#include <string>

#include "support/error.h"

namespace escapement {

template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace escapement
