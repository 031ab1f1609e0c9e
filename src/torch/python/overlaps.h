// Which arguments of a call may share memory: asked in front of graphs of AOTAutograd that write an argument.
#pragma once

#include <Python.h>

namespace escapement {

// near(arguments, written): pairs (position written, other position) of the tensors in a sequence whose storages lie in one memory. Their elements
// may still be apart (`x[:3]` and `x[3:]`), but what autograd counts of writes is one then. Arguments without memory of their own (meta,
// sparse, of a storage of no bytes) share nothing.
PyObject* near(PyObject* module, PyObject* args);

}  // namespace escapement
