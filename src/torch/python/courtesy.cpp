// See courtesy.h.
#include "torch/python/courtesy.h"

#include <unistd.h>

#include <memory>

namespace escapement {
namespace {

struct Raised {
  PyObject *type, *value, *trace;
};

int raise_again(void* held) {
  const std::unique_ptr<Raised> raised(static_cast<Raised*>(held));
  PyErr_Restore(raised->type, raised->value, raised->trace);
  return -1;
}

// Of ourselves, where there is no room left: no interrupt.
bool is_own(PyObject* type) { return PyErr_GivenExceptionMatches(type, PyExc_MemoryError) || PyErr_GivenExceptionMatches(type, PyExc_RecursionError); }

// Handlers of signals run in the main thread, and so does what is pending; of another thread the class alone can be asked for. A thread without frames of
// Python (one of torch's, that runs a fork of TorchScript) has nobody whom an exception could interrupt: asked for there it would stay asked for when the thread's
// state is gone, and an interpreter of 3.11 that has a profiler would then wait for it for ever at the next function.
void comes_again(PyObject* type, PyObject* value, PyObject* trace) {
  if (!is_own(type) && gettid() == getpid()) {
    auto raised = std::make_unique<Raised>(Raised{type, value, trace});
    if (Py_AddPendingCall(raise_again, raised.get()) == 0) {
      static_cast<void>(raised.release());
      return;
    }
  }
  if (!is_own(type) && PyEval_GetFrame() != nullptr) PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), type);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

}  // namespace

Courtesy::~Courtesy() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (type != nullptr) comes_again(type, value, trace);
  PyErr_Restore(type_, value_, trace_);
}

}  // namespace escapement
