// The Python type `escapement._C.Region`.
#pragma once

#include <Python.h>

#include <memory>

#include "torch/region/region.h"

namespace escapement {

// Adds the type to the module; false with a Python exception set on failure.
bool add_region_type(PyObject* module);

// What a Region object holds; null if it is none.
Region* region_of(PyObject* object);

// The region as the body of a higher-order operator, which keeps the object alive; null if it is no Region.
std::shared_ptr<Body> body_of(PyObject* object);

// _C.flow(kind, bodies, leading, sliced, arguments, pure): a tuple of tensors. `kind` and what it means: flow.h.
PyObject* flow(PyObject* module, PyObject* args);

}  // namespace escapement
