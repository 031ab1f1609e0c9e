// Functions behind functools.lru_cache, called while a program is recorded. The cache is Python's, in C, and outlives the recording: a symbol among its
// keys would be found by later calls with an equal int, and what the function made of symbols would be handed to them. As a key a number is compared by
// value, which is a guard in any case, so the function gets the numbers themselves.
//
// Of functions that compute from their arguments alone nobody can tell whether a cache answered: they may be run on the symbols instead.
//
//   cached_calls(kind, instead)   from now on, of a call of an object of this kind by a recording thread, instead(object, args, kwargs) gives
//                                 (what is called, or None for the object itself; args; kwargs)
#pragma once

#include <Python.h>

namespace escapement {

bool add_cached_calls(PyObject* module);

}  // namespace escapement
