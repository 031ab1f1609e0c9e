// See number_calls.h.
#include "torch/python/number_calls.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "torch/program/engine.h"
#include "torch/record/libm.h"

namespace escapement {
namespace {

struct Callee {
  PyObject* object;
  vectorcallfunc before;   // null: it takes its arguments in a tuple
  PyObject* ours;
  bool of_tensors;
};

std::vector<Callee> callees;   // under the GIL, as all here
std::array<PyTypeObject*, 2> numbers{};
std::vector<PyTypeObject*> tensors;

bool is_number(PyObject* value) {
  PyTypeObject* const base = Py_TYPE(value)->tp_base;
  return base != nullptr && std::ranges::find(numbers, base) != numbers.end();
}

bool is_tensor(PyObject* value) { return std::ranges::find(tensors, Py_TYPE(value)) != tensors.end(); }

bool concerns(const Callee& callee, std::span<PyObject* const> arguments, PyObject* names) {
  if (names != nullptr || !is_recording() || (PyType_Check(callee.object) && arguments.size() != 1)) return false;
  return std::ranges::any_of(arguments, is_number) || (callee.of_tensors && arguments.size() == 1 && is_tensor(arguments[0]));
}

PyObject* in_a_tuple(PyObject* callee, std::span<PyObject* const> arguments, PyObject* names) {
  PyObject* const positional = PyTuple_New(static_cast<Py_ssize_t>(arguments.size()));
  PyObject* const named = names != nullptr && positional != nullptr ? PyDict_New() : nullptr;
  bool fine = positional != nullptr && (names == nullptr || named != nullptr);
  for (size_t i = 0; fine && i < arguments.size(); ++i) PyTuple_SET_ITEM(positional, static_cast<Py_ssize_t>(i), Py_NewRef(arguments[i]));
  for (Py_ssize_t i = 0; fine && named != nullptr && i < PyTuple_GET_SIZE(names); ++i)
    fine = PyDict_SetItem(named, PyTuple_GET_ITEM(names, i), arguments.data()[arguments.size() + static_cast<size_t>(i)]) == 0;
  PyObject* const result = fine ? Py_TYPE(callee)->tp_call(callee, positional, named) : nullptr;
  Py_XDECREF(positional);
  Py_XDECREF(named);
  return result;
}

PyObject* call(PyObject* object, PyObject* const* arguments, size_t flags, PyObject* names) {
  const std::span<PyObject* const> given{arguments, static_cast<size_t>(PyVectorcall_NARGS(flags))};
  const auto found = std::ranges::find(callees, object, &Callee::object);
  if (found == callees.end()) return in_a_tuple(object, given, names);   // a class that has it from one of these
  const Callee callee = *found;
  if (concerns(callee, given, names)) return PyObject_Vectorcall(callee.ours, arguments, given.size(), nullptr);
  return callee.before != nullptr ? callee.before(object, arguments, flags, names) : in_a_tuple(object, given, names);
}

// Where an object keeps how it is called; null: it is called in no such way.
vectorcallfunc* way_of(PyObject* object) {
  if (PyType_Check(object)) return &reinterpret_cast<PyTypeObject*>(object)->tp_vectorcall;
  return PyCFunction_Check(object) ? &reinterpret_cast<PyCFunctionObject*>(object)->vectorcall : nullptr;
}

bool add(PyObject* object, PyObject* ours, bool of_tensors) {
  vectorcallfunc* const way = way_of(object);
  if (way == nullptr) return PyErr_Format(PyExc_TypeError, "%R is neither a function of C nor a class", object) != nullptr;
  const auto known = std::ranges::find(callees, object, &Callee::object);
  if (known != callees.end()) {
    Py_SETREF(known->ours, Py_NewRef(ours));
    return true;
  }
  callees.push_back({Py_NewRef(object), *way, Py_NewRef(ours), of_tensors});
  *way = call;
  return true;
}

bool add_all(PyObject* table, bool of_tensors) {
  PyObject *key, *value;
  for (Py_ssize_t place = 0; PyDict_Next(table, &place, &key, &value) != 0;)
    if (!add(key, value, of_tensors)) return false;
  return true;
}

PyObject* number_calls(PyObject*, PyObject* arguments) {
  PyObject *integer, *real, *kinds, *of_numbers, *of_tensors;
  if (!PyArg_ParseTuple(arguments, "O!O!O!O!O!", &PyType_Type, &integer, &PyType_Type, &real, &PyTuple_Type, &kinds, &PyDict_Type, &of_numbers, &PyDict_Type, &of_tensors))
    return nullptr;
  define_libm();
  numbers = {reinterpret_cast<PyTypeObject*>(Py_NewRef(integer)), reinterpret_cast<PyTypeObject*>(Py_NewRef(real))};
  tensors.clear();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kinds); ++i) tensors.push_back(reinterpret_cast<PyTypeObject*>(Py_NewRef(PyTuple_GET_ITEM(kinds, i))));
  if (!add_all(of_tensors, true) || !add_all(of_numbers, false)) return nullptr;   // those that are called the most are found the soonest
  Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"number_calls", number_calls, METH_VARARGS,
     "number_calls(SymInt, SymFloat, tensors, of_numbers, of_tensors): from now on the callables of these dicts, given a number of a subclass, the last ones also a tensor of these "
     "classes, by a recording thread, call what the dicts name instead."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_number_calls(PyObject* module) { return PyModule_AddFunctions(module, kFunctions) == 0; }

}  // namespace escapement
