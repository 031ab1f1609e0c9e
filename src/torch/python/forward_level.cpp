// See forward_level.h.
#include "torch/python/forward_level.h"

namespace escapement {
namespace {

// Of the module that counts, which lives as long as torch; null where this torch has none.
PyObject* globals_of_the_module() {
  PyObject* const module = PyImport_ImportModule("torch.autograd.forward_ad");
  if (!module) PyErr_Clear();
  return module ? PyModule_GetDict(module) : nullptr;
}

}  // namespace

bool forward_level_is_open() {
  static PyObject* const globals = globals_of_the_module();
  static PyObject* const name = PyUnicode_InternFromString("_current_level");
  PyObject* const level = globals ? PyDict_GetItem(globals, name) : nullptr;
  return level && PyLong_Check(level) && PyLong_AsLong(level) >= 0;
}

}  // namespace escapement
