// Which of Python's C functions a program calls while it is recorded. Clocks, the system's random numbers and what it says of files are read anew at
// each call of the program, and no audit hook tells of them; a profile function sees each call.
//
//   outside_calls(functions, told, collect)   told(function, frame) is called for each call of one of these by the thread that is watched
//   watch_calls(code, asides)                 for this thread, as long as what it gives lives; a profiler that is there already goes on. `code`: None, or a
//                                             dict that gets the code objects of Python that run, each under its id; not those of the tuple
//                                             `asides`, nor what they call
//   collection(phase, info)                   stands in gc.callbacks: collections come at any time, and run the finalizers of anybody's garbage
#pragma once

#include <Python.h>

namespace escapement {

bool add_outside_calls(PyObject* module);

}  // namespace escapement
