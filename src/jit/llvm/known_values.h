// Values that are the same for all operands (x ^ x, n * 0, and what is made of those) become constants before instructions are selected.
//
// LLVM 22 and earlier find such values only while selecting, and make 0 of `select(c, 0 / 0, 0)` where both zeros are found then: a division of what
// is always zero by zero is NaN. As constants of the IR they are divided by the IR's own folder. Only functions that divide floats are looked at.
#pragma once

#include <llvm/IR/Function.h>

namespace escapement {

void settle_known_values(llvm::Function& function);

}  // namespace escapement
