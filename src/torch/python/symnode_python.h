// Symbolic numbers between Python and C++. The one place that needs torch's pybind11 casters is symnode_python.cpp; everybody else
// sees Python objects only.
#pragma once

#include <ATen/core/ivalue.h>
#include <Python.h>
#include <c10/core/SymInt.h>

namespace escapement {

// Gives the recorder what only Python knows (symnode_hooks.h). Once, when the module is imported.
void install_python_hooks();

bool is_symbolic(PyObject* object);                     // a torch.SymInt, SymFloat or SymBool
c10::SymNode node_of(PyObject* number);                 // the node of C++ inside of such a number; null: another tracer's
bool is_wide(PyObject* node);                           // of a SymInt: one of ours, whose value does not fit 32 bits
c10::IValue symbolic_from_python(PyObject* object);     // borrowed; nodes of ours come without torch's shell
PyObject* symint_to_python(const c10::SymInt& value);   // new reference; an int if the value is known

}  // namespace escapement
