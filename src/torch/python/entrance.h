// The quick way into a jitted function: Entrance, the base type of escapement.jit's callable, with a raw vectorcall entry.
#pragma once

#include <Python.h>

namespace escapement {

bool add_entrance_type(PyObject* module);

}  // namespace escapement
