// See cached_calls.h.
#include "torch/python/cached_calls.h"

#include "torch/program/engine.h"

namespace escapement {
namespace {

ternaryfunc before = nullptr;   // under the GIL, as all here
PyObject* instead = nullptr;

// Most that is cached is called with texts and the like, by libraries and by this package, and holds no symbol.
bool is_plain(PyObject* value) {
  const PyTypeObject* const type = Py_TYPE(value);
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type || type == &PyBytes_Type || value == Py_None ||
         type == &PyFunction_Type || type == &PyCode_Type || type == &PyType_Type;
}

bool are_plain(PyObject* args, PyObject* kwargs) {
  if (kwargs != nullptr) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    if (!is_plain(PyTuple_GET_ITEM(args, i))) return false;
  return true;
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (!is_recording() || are_plain(args, kwargs)) return before(self, args, kwargs);
  PyObject* const made = PyObject_CallFunctionObjArgs(instead, self, args, kwargs ? kwargs : Py_None, nullptr);
  if (made == nullptr) return nullptr;
  PyObject *callee, *positional, *named, *result = nullptr;
  if (PyArg_ParseTuple(made, "OO!O", &callee, &PyTuple_Type, &positional, &named)) {
    if (named == Py_None) named = nullptr;
    result = callee == Py_None ? before(self, positional, named) : PyObject_Call(callee, positional, named);
  }
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
  Py_XSETREF(instead, Py_NewRef(callback));
  Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"cached_calls", cached_calls, METH_VARARGS,
     "cached_calls(kind, instead): of calls of objects of this kind by a recording thread, instead(object, args, kwargs) says what is called and with what."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_cached_calls(PyObject* module) { return PyModule_AddFunctions(module, kFunctions) == 0; }

}  // namespace escapement
