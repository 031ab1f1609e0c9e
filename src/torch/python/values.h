// Python objects to IValues and back, for the arguments and results of a captured program.
#pragma once

#include <ATen/core/ivalue.h>
#include <Python.h>

#include <memory>

#include "torch/region/region.h"

namespace escapement {

// A Python exception, taken out of the interpreter where it is thrown and put back by the entry, which returns null. What is unwound between
// them may run Python code (the end of a recording, the end of an object's life), which needs an interpreter without an exception.
class PythonError {
 public:
  PythonError();           // the one that is set
  void restore() const;    // sets it

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

c10::IValue value_from_python(PyObject* object);          // borrowed; anything unknown is kept as itself (see values.cpp)
c10::IValue any_value_from_python(PyObject* object);      // the same, but an integer of more than 64 bits travels as a capsule
PyObject* value_to_python(const c10::IValue& value);      // new reference
PyObject* value_to_python(c10::IValue&& value);           // the same; cheaper for a tensor that nobody else holds
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
