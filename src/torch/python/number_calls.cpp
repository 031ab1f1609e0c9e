// See number_calls.h.
#include "torch/python/number_calls.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "torch/program/engine.h"
#include "torch/record/libm.h"

namespace escapement {
namespace {

constexpr size_t kMost = 24;

struct Function {
  PyMethodDef* method = nullptr;   // null: this place is free
  PyCFunction before = nullptr;
  PyObject* ours = nullptr;
};

struct Class {
  PyTypeObject* type = nullptr;
  vectorcallfunc before = nullptr;   // null: none of its own (int before Python 3.12)
  PyObject* ours = nullptr;
};

std::array<Function, kMost> functions;   // under the GIL, as all here
std::array<Class, 2> classes;
std::array<PyTypeObject*, 2> numbers{};

bool is_number(PyObject* value) {
  PyTypeObject* const base = Py_TYPE(value)->tp_base;
  return base != nullptr && std::ranges::find(numbers, base) != numbers.end();
}

bool concerns(std::span<PyObject* const> arguments) { return is_recording() && std::ranges::any_of(arguments, is_number); }

// One for each place, since a function of C is not told which it is.
template <size_t at>
struct Hook {
  static PyObject* one(PyObject* self, PyObject* argument) {
    return concerns({&argument, 1}) ? PyObject_CallOneArg(functions[at].ours, argument) : functions[at].before(self, argument);
  }

  static PyObject* many(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    if (concerns({arguments, static_cast<size_t>(count)})) return PyObject_Vectorcall(functions[at].ours, arguments, static_cast<size_t>(count), nullptr);
    return reinterpret_cast<_PyCFunctionFast>(reinterpret_cast<void (*)()>(functions[at].before))(self, arguments, count);
  }

  static PyObject* packed(PyObject* self, PyObject* arguments) {
    const std::span<PyObject* const> items{&PyTuple_GET_ITEM(arguments, 0), static_cast<size_t>(PyTuple_GET_SIZE(arguments))};
    return concerns(items) ? PyObject_CallObject(functions[at].ours, arguments) : functions[at].before(self, arguments);
  }
};

template <size_t at>
PyCFunction hook_for(int flags) {
  switch (flags) {
    case METH_O: return Hook<at>::one;
    case METH_FASTCALL: return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Hook<at>::many));
    case METH_VARARGS: return Hook<at>::packed;
    default: return nullptr;
  }
}

template <size_t... at>
PyCFunction hook_at(size_t place, int flags, std::index_sequence<at...>) {
  PyCFunction found = nullptr;
  ((at == place ? void(found = hook_for<at>(flags)) : void()), ...);
  return found;
}

bool add_function(PyObject* function, PyObject* ours) {
  PyMethodDef* const method = PyCFunction_Check(function) ? reinterpret_cast<PyCFunctionObject*>(function)->m_ml : nullptr;
  const auto known = std::ranges::find_if(functions, [&](const Function& f) { return f.method == method || f.method == nullptr; });
  if (method == nullptr || known == functions.end()) return PyErr_Format(PyExc_TypeError, "%R is no function of C, or one too many", function) != nullptr;
  if (known->method == nullptr) {
    const PyCFunction hook = hook_at(static_cast<size_t>(known - functions.begin()), method->ml_flags, std::make_index_sequence<kMost>());
    if (hook == nullptr) return true;   // called in some other way: it reads numbers as ever
    *known = {method, std::exchange(method->ml_meth, hook), nullptr};
  }
  Py_XSETREF(known->ours, Py_NewRef(ours));
  return true;
}

// As a class is called that takes its arguments in a tuple.
PyObject* in_a_tuple(PyObject* type, PyObject* const* arguments, size_t count, PyObject* names) {
  PyObject* const positional = PyTuple_New(static_cast<Py_ssize_t>(count));
  PyObject* const named = names != nullptr && positional != nullptr ? PyDict_New() : nullptr;
  bool fine = positional != nullptr && (names == nullptr || named != nullptr);
  for (size_t i = 0; fine && i < count; ++i) PyTuple_SET_ITEM(positional, static_cast<Py_ssize_t>(i), Py_NewRef(arguments[i]));
  for (Py_ssize_t i = 0; fine && named != nullptr && i < PyTuple_GET_SIZE(names); ++i)
    fine = PyDict_SetItem(named, PyTuple_GET_ITEM(names, i), arguments[count + static_cast<size_t>(i)]) == 0;
  PyObject* const result = fine ? PyType_Type.tp_call(type, positional, named) : nullptr;
  Py_XDECREF(positional);
  Py_XDECREF(named);
  return result;
}

template <size_t at>
PyObject* made(PyObject* type, PyObject* const* arguments, size_t flags, PyObject* names) {
  const auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  if (count == 1 && names == nullptr && type == reinterpret_cast<PyObject*>(classes[at].type) && concerns({arguments, 1}))
    return PyObject_CallOneArg(classes[at].ours, arguments[0]);
  return classes[at].before != nullptr ? classes[at].before(type, arguments, flags, names) : in_a_tuple(type, arguments, count, names);
}

bool add_class(PyObject* object, PyObject* ours) {
  auto* const type = reinterpret_cast<PyTypeObject*>(object);
  constexpr std::array<vectorcallfunc, classes.size()> kHooks{made<0>, made<1>};
  const auto known = std::ranges::find_if(classes, [&](const Class& c) { return c.type == type || c.type == nullptr; });
  if (!PyType_Check(object) || known == classes.end()) return PyErr_Format(PyExc_TypeError, "%R is no class, or one too many", object) != nullptr;
  if (known->type == nullptr) *known = {type, std::exchange(type->tp_vectorcall, kHooks[static_cast<size_t>(known - classes.begin())]), nullptr};
  Py_XSETREF(known->ours, Py_NewRef(ours));
  return true;
}

bool add_all(PyObject* table, bool (*add)(PyObject*, PyObject*)) {
  PyObject *key, *value;
  Py_ssize_t place = 0;
  while (PyDict_Next(table, &place, &key, &value) != 0)
    if (!add(key, value)) return false;
  return true;
}

PyObject* number_calls(PyObject*, PyObject* arguments) {
  PyObject *integer, *real, *called, *made_of;
  if (!PyArg_ParseTuple(arguments, "O!O!O!O!", &PyType_Type, &integer, &PyType_Type, &real, &PyDict_Type, &called, &PyDict_Type, &made_of)) return nullptr;
  define_libm();
  numbers = {reinterpret_cast<PyTypeObject*>(Py_NewRef(integer)), reinterpret_cast<PyTypeObject*>(Py_NewRef(real))};
  if (!add_all(called, add_function) || !add_all(made_of, add_class)) return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"number_calls", number_calls, METH_VARARGS,
     "number_calls(SymInt, SymFloat, functions, classes): from now on these, given a number of a subclass by a recording thread, call what the dicts name instead."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_number_calls(PyObject* module) { return PyModule_AddFunctions(module, kFunctions) == 0; }

}  // namespace escapement
