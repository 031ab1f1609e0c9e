// See cached_calls.h.
#include "torch/python/cached_calls.h"

#include "torch/program/engine.h"

namespace escapement {
namespace {

ternaryfunc before = nullptr;   // under the GIL, as all here
PyObject* plain = nullptr;

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (!is_recording()) return before(self, args, kwargs);
  PyObject* const made = PyObject_CallFunctionObjArgs(plain, args, kwargs ? kwargs : Py_None, nullptr);
  if (made == nullptr) return nullptr;
  PyObject *positional, *named, *result = nullptr;
  if (PyArg_ParseTuple(made, "O!O", &PyTuple_Type, &positional, &named)) result = before(self, positional, named == Py_None ? nullptr : named);
  Py_DECREF(made);
  return result;
}

PyObject* cached_calls(PyObject*, PyObject* args) {
  PyObject *kind, *callback;
  if (!PyArg_ParseTuple(args, "O!O", &PyType_Type, &kind, &callback)) return nullptr;
  PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(kind);
  if (type->tp_call == nullptr || (before != nullptr && type->tp_call != call)) return PyErr_Format(PyExc_TypeError, "%R is not called, or another kind is", kind);
  if (before == nullptr) before = type->tp_call;
  type->tp_call = call;
  Py_XSETREF(plain, Py_NewRef(callback));
  Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"cached_calls", cached_calls, METH_VARARGS, "cached_calls(kind, plain): calls of objects of this kind by a recording thread have the arguments that plain(args, kwargs) gives."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_cached_calls(PyObject* module) { return PyModule_AddFunctions(module, kFunctions) == 0; }

}  // namespace escapement
