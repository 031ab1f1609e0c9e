// Pass before fusion: an element-wise op on a cat that nobody else reads becomes one op per part and a cat of the results, so that
// each part is computed straight into its place. relu(cat(a, b)) -> cat(relu(a), relu(b)).
#pragma once

#include "trace/trace.h"

namespace escapement {

Trace distribute_cat(Trace trace);

}  // namespace escapement
