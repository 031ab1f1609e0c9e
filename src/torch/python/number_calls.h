// Functions of Python in C that read a number before anybody can answer otherwise: `math.log(n)`, `int(n * 0.5)`, `float(n)`. Given a symbolic number by a
// recording thread they ask the Python side, which goes on with the symbol or reads the value; all other calls are what they were. Whoever holds such a function,
// under whatever name, holds the same object: how that is called is changed, and for good, but not what it is (its hash comes from the function in C). Code that
// Python has made quicker calls that function at once, but none does while calls are watched (outside_calls.h), as they are in a recording.
//
//   number_calls(SymInt, SymFloat, tensors, {callable: ours}, {callable: ours})   the classes whose subclasses are such numbers; classes of tensors; functions
//                        of C, and classes that are called with one argument, each with what is called instead; such that are asked of tensors, too: `len(x)`
#pragma once

#include <Python.h>

namespace escapement {

bool add_number_calls(PyObject* module);

}  // namespace escapement
