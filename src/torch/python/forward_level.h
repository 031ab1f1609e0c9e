// Derivatives that are taken forward (torch.autograd.forward_ad): nothing that a recording holds carries tangents.
#pragma once

#include <Python.h>

namespace escapement {

// Whether a level of them is open in this process, which torch counts in a global of Python's. The GIL is held.
bool forward_level_is_open();

}  // namespace escapement
