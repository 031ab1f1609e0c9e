// What Python hands over as a number beside a tensor, where the recorder does not look.
#pragma once

namespace escapement {

// Once, and for good.
void mend_wrapped_numbers();

}  // namespace escapement
