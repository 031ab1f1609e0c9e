// Contents: what a set of dicts held when it was made, and whether they still hold it. The modules of a jitted function keep parameters,
// buffers, submodules and hooks in such dicts, and every way of replacing one of them changes a dict.
//
//   Contents(dicts, slots)      slots: (dict, key, value), of which only that key is looked at; (cell, None, value); (list or dict, None, copy);
//                               (function, None, (code, defaults, keyword defaults)); (context variable, None, value)
//   Contents(dicts, slots, owners)   owners: (object, dict of its attributes), whose class and number of attributes are looked at
//   contents.same()             the same keys and values in the same order: those of dicts by identity (keys that are numbers, as of hooks, may be
//                               others); those of slots too, but numbers and texts by value, lists, dicts and tuples by what they hold (in a slot
//                               stands a copy of a list or dict)
#pragma once

#include <Python.h>

namespace escapement {

// Of a Contents object. Cannot fail, and runs no Python code but what a class of thread locals does for a thread that it has not met.
bool is_contents(PyObject* object);
bool holds_still(PyObject* contents);

bool add_contents_type(PyObject* module);

}  // namespace escapement
