// What a report says about one escape: a size, an integer or a value that the program's own code looked at, so that the
// code compiled from that recording holds only where the answer is the same.
#pragma once

#include <string>

#include "escapement/version.h"

namespace escapement::inline ESCAPEMENT_ABI {

struct Escape {
  std::string relation;  // what must hold: "s0 == 128"; s0 is the first size, see "symbols" in explain()
  std::string because;   // "size(0) read as a number"
  std::string where;     // "file:line" of the read; "function in library" without debug information; empty if not known
};

}  // namespace escapement
