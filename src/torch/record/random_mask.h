// Which elements a dropout keeps, as an operator without operands, so that what is multiplied by it fuses with what stands around it:
//   escapement::random_mask(SymInt[] size, float keep) -> Tensor
// A contiguous bool tensor on the CPU, drawn from torch's own generator: the values, and the state that it leaves, are those of
// `torch.empty(size, dtype=bool).bernoulli_(keep)`, some ten times as fast.
#pragma once

#include <ATen/core/Tensor.h>

namespace escapement {

void install_random_mask();
at::Tensor random_mask(c10::SymIntArrayRef size, double keep);   // dispatched

}  // namespace escapement
