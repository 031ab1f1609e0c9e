// The Python type `escapement._C.Replay`: a function in replay mode.
#pragma once

#include <Python.h>

namespace escapement {

// Adds the type to the module; false with a Python exception set on failure.
bool add_replay_type(PyObject* module);

}  // namespace escapement
