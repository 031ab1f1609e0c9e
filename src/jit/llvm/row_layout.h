// How what one stage of a row reads and writes lies, asked by the general variant: a nest is general as soon as one parameter of one stage is in the way (the
// weights of a group norm, which repeat along an inner axis and change along an outer one), and its other stages need not suffer from that.
#pragma once

#include "jit/llvm/kernel.h"

namespace escapement {

// Whether the stage can be asked: it reads no index of a reduced axis and nothing at positions.
bool has_row_layout(const KernelEmitter& kernel, const Stage& stage);

// i1, of such a stage. Along all reduced axes every parameter lies as the fast variant wants it: ...
Value* lies_flat(KernelEmitter& kernel, const Stage& stage);
// ... along the innermost one, which is as long as a vector at least.
Value* lies_in_runs(KernelEmitter& kernel, const Stage& stage, unsigned lanes);

}  // namespace escapement
