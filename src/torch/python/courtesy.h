// Python code of ours that is called from the middle of a recording, and must not fail the program: where an operator stands, what may be let go.
//
// Such code can be interrupted like any other: a signal's handler raises in it (Ctrl-C, a time limit), or another thread has asked for an exception. That one is the
// program's. It is set again as soon as the program goes on, and who called is told that the code has not ended.
#pragma once

#include <Python.h>

namespace escapement {

// What is set already stays set. The GIL is held.
class Courtesy {
 public:
  Courtesy() { PyErr_Fetch(&type_, &value_, &trace_); }
  Courtesy(const Courtesy&) = delete;
  Courtesy& operator=(const Courtesy&) = delete;
  ~Courtesy();

 private:
  PyObject *type_, *value_, *trace_;
};

}  // namespace escapement
