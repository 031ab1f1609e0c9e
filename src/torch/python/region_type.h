// The Python type `escapement._C.Region`.
#pragma once

#include <Python.h>

namespace escapement {

// Adds the type to the module; false with a Python exception set on failure.
bool add_region_type(PyObject* module);

}  // namespace escapement
