// The version of this build, as the build system knows it: part of reports and of the disk cache's key.
#pragma once

#include <string_view>

namespace escapement {

std::string_view build_version();  // "0.1.0"

}  // namespace escapement
