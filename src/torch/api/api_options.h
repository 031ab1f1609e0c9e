// The options of the public C++ API: the process's defaults, changed by a list of names and values. std::invalid_argument: no such
// option, or no value of it.
#pragma once

#include "escapement/escapement.h"
#include "support/options.h"

namespace escapement {

Options parse_options(const OptionList& list);
OptionList option_list(const LoadOptions& options);

}  // namespace escapement
