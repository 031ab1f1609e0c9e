// Contents: what a set of dicts held when it was made, and whether they still hold it. The modules of a jitted function keep parameters,
// buffers, submodules and hooks in such dicts, and every way of replacing one of them changes a dict.
//
//   Contents(dicts, slots)      slots: (dict, key, value), of which only that key is looked at
//   contents.same()             the same values, by identity, in the same order
#pragma once

#include <Python.h>

namespace escapement {

// Of a Contents object. Cannot fail, and runs no Python code.
bool is_contents(PyObject* object);
bool holds_still(PyObject* contents);

bool add_contents_type(PyObject* module);

}  // namespace escapement
