// Test-only module: the recorder and the replay for test_recorder*.py, in plain CPython. Not shipped.
#include <Python.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>

#include "recorder/replay.h"
#include "support/error.h"
#include "torch/python/symnode_python.h"
#include "torch/record/recorder.h"
#include "trace/verifier.h"

namespace {

using escapement::Dim;
using escapement::Recorder;
using escapement::Recording;

c10::IValue to_value(PyObject* o) {
  if (THPVariable_Check(o)) return THPVariable_Unpack(o);
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_Check(o)) return static_cast<int64_t>(PyLong_AsLongLong(o));
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (escapement::is_symbolic(o)) return escapement::symbolic_from_python(o);
  return {};
}

PyObject* to_object(const c10::IValue& v) {
  if (v.isTensor()) return THPVariable_Wrap(v.toTensor());
  if (v.isInt()) return PyLong_FromLongLong(v.toInt());
  if (v.isBool()) return PyBool_FromLong(v.toBool());
  if (v.isDouble()) return PyFloat_FromDouble(v.toDouble());
  Py_RETURN_NONE;
}

template <class T>
T* pointer(PyObject* capsule) { return static_cast<T*>(PyCapsule_GetPointer(capsule, nullptr)); }
template <class T>
PyObject* capsule(T* object) {
  return PyCapsule_New(object, nullptr, [](PyObject* c) { delete pointer<T>(c); });
}

template <class F>
PyObject* guarded(F body) {
  try {
    return body();
  } catch (const escapement::UserError& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const escapement::InternalError& e) {
    PyErr_SetString(PyExc_SystemError, e.what());
  } catch (const std::exception& e) {
    torch::translate_exception_to_python(std::current_exception());
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}

PyObject* begin(PyObject*, PyObject*) {
  return guarded([] { return capsule(new Recorder("test")); });
}

// tensor(recorder, tensor, sizes or None, parameter): sizes hold ints (constants) or capsules' symbol numbers as negative - 1.
PyObject* tensor(PyObject*, PyObject* args) {
  PyObject *rec, *t, *sizes;
  int parameter;
  if (!PyArg_ParseTuple(args, "OOOp", &rec, &t, &sizes, &parameter)) return nullptr;
  return guarded([&]() -> PyObject* {
    Recorder& r = *pointer<Recorder>(rec);
    const at::Tensor real = THPVariable_Unpack(t);
    if (sizes == Py_None && !parameter) return THPVariable_Wrap(r.tensor(real, ""));
    std::vector<Dim> dims;
    for (int64_t d = 0; d < real.dim(); ++d) {
      if (parameter) {
        dims.push_back(r.dims().constant(real.size(d)));
      } else {
        dims.push_back(Dim(static_cast<uint32_t>(PyLong_AsLongLong(PyList_GetItem(sizes, d)))));
      }
    }
    return THPVariable_Wrap(r.tensor(real, std::move(dims), "", parameter != 0));
  });
}

// symbol(recorder, hint) -> Dim number, for tensor()
PyObject* symbol(PyObject*, PyObject* args) {
  PyObject* rec;
  long long hint;
  if (!PyArg_ParseTuple(args, "OL", &rec, &hint)) return nullptr;
  return guarded([&] {
    return PyLong_FromLong(pointer<Recorder>(rec)->dims().new_symbol(escapement::SymbolKind::size, {}, hint).index);
  });
}

PyObject* integer(PyObject*, PyObject* args) {
  PyObject* rec;
  long long value;
  if (!PyArg_ParseTuple(args, "OL", &rec, &value)) return nullptr;
  return guarded([&] {
    Recorder& r = *pointer<Recorder>(rec);
    return escapement::symint_to_python(r.as_symint(r.integer(value, "")));
  });
}

PyObject* enter(PyObject*, PyObject* rec) { return guarded([&]() -> PyObject* { pointer<Recorder>(rec)->enter(); Py_RETURN_NONE; }); }
PyObject* leave(PyObject*, PyObject* rec) { return guarded([&]() -> PyObject* { pointer<Recorder>(rec)->leave(); Py_RETURN_NONE; }); }

// finish(recorder, outputs list) -> (recording, real outputs)
PyObject* finish(PyObject*, PyObject* args) {
  PyObject *rec, *list;
  if (!PyArg_ParseTuple(args, "OO!", &rec, &PyList_Type, &list)) return nullptr;
  return guarded([&]() -> PyObject* {
    std::vector<c10::IValue> outputs;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) outputs.push_back(to_value(PyList_GET_ITEM(list, i)));
    auto recording = std::make_unique<Recording>(pointer<Recorder>(rec)->finish(outputs));
    PyObject* real = PyList_New(0);
    for (const c10::IValue& v : outputs) PyList_Append(real, to_object(v));
    return Py_BuildValue("(NN)", capsule(recording.release()), real);
  });
}

PyObject* facts(PyObject*, PyObject* rec) {
  return guarded([&]() -> PyObject* {
    const Recording& r = *pointer<Recording>(rec);
    PyObject* specialised = PyList_New(0);
    for (const std::string& s : r.specialised) PyList_Append(specialised, PyUnicode_FromString(s.c_str()));
    PyObject* calls = PyList_New(0);
    for (const auto& i : r.trace.instrs)
      if (i.op == escapement::Op::call)
        PyList_Append(calls, PyUnicode_FromString((i.attrs.target + ":" + std::string(escapement::reason_name(i.why))).c_str()));
    const std::string refused = r.refused ? std::string(escapement::reason_name(*r.refused)) + ": " + r.refused_detail : "";
    return Py_BuildValue("{s:s,s:n,s:n,s:n,s:n,s:N,s:N}", "refused", refused.c_str(), "ops", (Py_ssize_t)r.ops, "instrs",
                         (Py_ssize_t)r.trace.instrs.size(), "guards", (Py_ssize_t)r.trace.guards.size(), "captured",
                         (Py_ssize_t)r.captured.size(), "specialised", specialised, "calls", calls);
  });
}

PyObject* text(PyObject*, PyObject* rec) {
  return guarded([&] { return PyUnicode_FromString(escapement::print(pointer<Recording>(rec)->trace).c_str()); });
}

PyObject* check(PyObject*, PyObject* rec) {
  return guarded([&]() -> PyObject* { escapement::verify(pointer<Recording>(rec)->trace); Py_RETURN_NONE; });
}

// replay(recording, arguments) -> outputs, or the text of the guard that failed
PyObject* replay(PyObject*, PyObject* args) {
  PyObject *rec, *list;
  if (!PyArg_ParseTuple(args, "OO!", &rec, &PyList_Type, &list)) return nullptr;
  return guarded([&]() -> PyObject* {
    const Recording& recording = *pointer<Recording>(rec);
    std::vector<c10::IValue> arguments;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) arguments.push_back(to_value(PyList_GET_ITEM(list, i)));
    const escapement::ReplayResult result = escapement::replay(recording, arguments);
    if (result.failed) {
      const auto& dims = recording.trace.dims;
      return PyUnicode_FromString((dims.to_string(result.failed->left) + " ? " + dims.to_string(result.failed->right) + ": " + result.failed->because).c_str());
    }
    PyObject* out = PyList_New(0);
    for (const c10::IValue& v : result.outputs) PyList_Append(out, to_object(v));
    return out;
  });
}

PyMethodDef methods[] = {
    {"begin", begin, METH_NOARGS, ""}, {"tensor", tensor, METH_VARARGS, ""}, {"symbol", symbol, METH_VARARGS, ""},
    {"integer", integer, METH_VARARGS, ""}, {"enter", enter, METH_O, ""}, {"leave", leave, METH_O, ""},
    {"finish", finish, METH_VARARGS, ""}, {"facts", facts, METH_O, ""}, {"text", text, METH_O, ""}, {"check", check, METH_O, ""},
    {"replay", replay, METH_VARARGS, ""}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "recorder_module", "", -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_recorder_module() {
  escapement::install_python_hooks();
  return PyModule_Create(&definition);
}
