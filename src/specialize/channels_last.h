// Convolutions of images or volumes that feed one another work channels last: the library computes that way, and between two of them would otherwise bring every
// element into the usual order and back. The layout of a value that only operators see is ours to choose; what leaves the program, what a view
// of another shape is taken of, and what an operator reads whose result depends on layouts keeps eager's.
#pragma once

#include "trace/trace.h"

namespace escapement {

// Equal but for strides of values between convolutions, and of views of them. A trace without two such convolutions comes back as it is.
Trace make_channels_last(const Trace& trace);

}  // namespace escapement
