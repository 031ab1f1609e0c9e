// What eager raises where one of our kernels found a position out of range: the same exception class, the same message.
#pragma once

#include <string>

namespace escapement {

[[noreturn]] void raise_gather_failure(const std::string& operation);

}  // namespace escapement
