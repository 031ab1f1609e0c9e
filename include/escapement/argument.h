// One argument of a call, taken apart: what the entry of compiled code looks at. Borrowed for the duration of the call.
// Users of jit.h never see it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "escapement/version.h"

namespace escapement::inline ESCAPEMENT_ABI {

struct Argument {
  enum class Kind : uint8_t {
    plain,                             // a tensor or an integer, or (`other`) neither
    boolean, real,                     // a number that is a constant of the recording; `integer` holds its bits
  };
  const at::Tensor* tensor = nullptr;  // null: an integer, or something else
  int64_t integer = 0;
  bool other = false;                  // neither: fits only an input that the trace ignores
  Kind kind = Kind::plain;
};

}  // namespace escapement
