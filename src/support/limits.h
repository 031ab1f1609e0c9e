// limits::name for each row of limits.def.
#pragma once

namespace escapement::limits {

#define LIMIT(name, value, what) inline constexpr int name = value;
#include "support/limits.def"
#undef LIMIT

}  // namespace escapement::limits
