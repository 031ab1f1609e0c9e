// Precompiled for the module: see torch_headers.h.
#include <Python.h>   // before the standard library's

#include <torch/csrc/autograd/python_variable.h>

#include "torch_headers.h"
