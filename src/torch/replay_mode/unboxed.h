// Operators without boxes. Torch's fallback for a dispatch key gets an operator's arguments in a vector of boxes, which costs
// more than all that replay mode does with a matched operator. So the operators that programs call most get a kernel of their
// own C++ signature on our key: one that continues the stream of a replayed function is matched there; everything else, a
// recording among it, goes the fallback's way.
#pragma once

namespace escapement {

void install_unboxed();   // once per process; idempotent. After the fallback.

}  // namespace escapement
