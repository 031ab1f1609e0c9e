// The state of torch's own generator as operators, for graphs that draw the same numbers twice (checkpoints whose blocks have a dropout):
//   escapement::rng_state() -> Tensor
//   escapement::set_rng_state(Tensor state) -> ()
// As library calls they keep their place among the draws.
#pragma once

namespace escapement {

void install_random_state();

}  // namespace escapement
