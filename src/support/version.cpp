// The only file that is compiled with ESCAPEMENT_VERSION, so that a new version recompiles this line and nothing else.
#include "support/version.h"

namespace escapement {

std::string_view build_version() { return ESCAPEMENT_VERSION; }

}  // namespace escapement
