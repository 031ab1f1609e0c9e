// Python objects to IValues and back, for the arguments and results of a captured program.
#pragma once

#include <Python.h>
#include <ATen/core/ivalue.h>

#include "torch/region/region.h"

namespace escapement {

// A Python exception is set; the C++ stack is unwound to the entry, which returns null.
struct PythonError {};

c10::IValue value_from_python(PyObject* object);          // borrowed; anything unknown is kept as itself (see values.cpp)
c10::IValue any_value_from_python(PyObject* object);      // the same, but an integer of more than 64 bits travels as a capsule
PyObject* value_to_python(const c10::IValue& value);      // new reference
InputSpec input_spec_from_python(PyObject* tuple, size_t position);
Options options_from_python(PyObject* dict);
void set_python_error_from_current_exception();           // call inside catch (...)

// What Python calls: no exception of C++ leaves it.
template <class Function>
PyObject* entered(Function function) {
  try {
    return function();
  } catch (...) {
    set_python_error_from_current_exception();
    return nullptr;
  }
}

}  // namespace escapement
