// Makes a failing trace small: outputs and effects are left out, results become inputs, what nothing needs goes, as long as it fails.
#pragma once

#include <functional>

#include "trace/trace.h"

namespace escapement::fuzz {

Trace shrink(const Trace& trace, const std::function<bool(const Trace&)>& fails);

}  // namespace escapement::fuzz
