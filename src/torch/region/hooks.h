// What a front end wants to be asked or told while a region records and compiles. To be set before the first call; what is empty is not asked.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "support/reason.h"

namespace escapement {

struct RegionEvent {
  enum class Kind : uint8_t { recorded, compiled, not_compiled } kind;
  double milliseconds = 0;
  std::string text;
};

struct Hooks {
  // Number of the user's line that is being run, and its text, which is asked for once the recording is made.
  std::function<int()> location;
  std::function<std::string(int)> location_text;
  // Asked after each recording, with the tensors that it found by itself: why it must not be kept, if so.
  std::function<std::optional<Reason>(std::span<const at::Tensor> captured)> accept;
  // Asked when somebody seems to keep what the program made while it was recorded: let go of what nobody can reach, a little or `everything`.
  std::function<void(bool everything)> let_go;
  // Asked after each recording: may a version end with an error behind something that its caller can see? The program may do there what no
  // version knows of.
  std::function<bool()> late_errors;
  // Called on the thread where it happens, no lock held; must not throw.
  std::function<void(const RegionEvent&)> listener;
};

}  // namespace escapement
