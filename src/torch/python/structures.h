// Arguments taken apart and results put together without Python code, for the quick way into a jitted function (entrance.cpp).
//
// A kind says what an argument must be: the type of a tensor or number, which may have any value; a tuple with one constant in it; or a list,
// which is a container: [type, names, kind of each item...], where `names` are a dict's keys in order, else None. A recipe says the same of a
// result: None for the next output, a number for one of the caller's containers, a tuple with one constant, or a list as above.
// jit_entry.py makes both; containers are tuples (also of classes of their own, without attributes), lists and dicts.
#pragma once

#include <ATen/core/ivalue.h>
#include <Python.h>
#include <c10/util/SmallVector.h>

#include <span>

namespace escapement {

// What an argument list consists of; borrowed, as long as nobody changes the containers.
struct Parts {
  c10::SmallVector<PyObject*, 40> leaves;      // tensors and numbers
  c10::SmallVector<PyObject*, 8> containers;   // the outer ones first
};

// Whether the argument is of this kind; runs no Python code.
bool take_apart(PyObject* kind, PyObject* argument, Parts& parts);
bool all_distinct(std::span<PyObject* const> leaves);              // no tensor stands twice
bool are_apart(std::span<PyObject* const> containers, PyObject* ids);   // none that can be changed stands twice, or is one of this set of identities
PyObject* attributes_of(PyObject* leaf);                            // those that Python code has put on a tensor, a borrowed dict; null where there are none
PyObject* tuple_of(std::span<PyObject* const> objects);

// Null with an exception. Outputs are moved from. `originals`: the caller's containers.
PyObject* put_together(PyObject* recipe, std::span<c10::IValue>& outputs, std::span<PyObject* const> originals);

}  // namespace escapement
