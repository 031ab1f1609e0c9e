// What functions, modules and engines tell while they work. Nothing is written to standard error or anywhere else by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "escapement/version.h"

namespace escapement::inline ESCAPEMENT_ABI {

struct LogLine {
  enum class Level : uint8_t { info, warning } level = Level::info;
  std::string module, event;  // a function's or module's name; "recorded", "compiled", "not_compiled", "eager", "loaded", "not_restored",
                              // "weights_swapped", "saved", "closed"
  std::string text;
  double milliseconds = 0;    // of what took time
};

// Called from any thread, several at once; exceptions of it are dropped. "recorded", "compiled", "not_compiled" and "eager" are told from inside of
// the call: a callback that closes the module then, swaps its weights or warms it up may wait for itself.
using Log = std::function<void(const LogLine&)>;

}  // namespace escapement
