// Masked stores whose lanes the optimiser has found out become plain stores of those lanes. LLVM 22 and earlier write too much for some: a
// truncation and a masked store of one known lane become a store as wide as the lane was before (llvm-project issue 179489, x86 with
// AVX512BW). A plain store is also what such a mask deserves.
#pragma once

#include <llvm/IR/Module.h>

namespace escapement {

void store_known_lanes(llvm::Module& module);

}  // namespace escapement
