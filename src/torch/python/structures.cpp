// See structures.h.
#include "torch/python/structures.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "torch/python/values.h"

namespace escapement {
namespace {

constexpr Py_ssize_t kItems = 2;   // of a container's kind: where those of its items begin

// The same object, or a string or number that cannot be told from it.
bool is_constant(PyObject* expected, PyObject* given) {
  if (expected == given) return true;
  if (Py_TYPE(expected) != Py_TYPE(given)) return false;
  if (PyFloat_CheckExact(given))
    return std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(expected)) == std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(given));
  if (PyUnicode_CheckExact(given)) return PyUnicode_Compare(expected, given) == 0;
  return PyLong_CheckExact(given) && PyObject_RichCompareBool(expected, given, Py_EQ) == 1;
}

bool is_mutable(PyObject* container) { return !PyTuple_Check(container); }

bool take_items(PyObject* kind, PyObject* const* items, Py_ssize_t count, Parts& parts) {
  if (PyList_GET_SIZE(kind) != count + kItems) return false;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!take_apart(PyList_GET_ITEM(kind, i + kItems), items[i], parts)) return false;
  return true;
}

bool take_dict(PyObject* kind, PyObject* dict, Parts& parts) {
  PyObject* const names = PyList_GET_ITEM(kind, 1);
  if (PyTuple_GET_SIZE(names) != PyDict_GET_SIZE(dict)) return false;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  for (Py_ssize_t i = 0; PyDict_Next(dict, &at, &key, &value); ++i) {
    const bool same = is_constant(PyTuple_GET_ITEM(names, i), key) && take_apart(PyList_GET_ITEM(kind, i + kItems), value, parts);
    if (!same) return false;
  }
  return true;
}

bool take_container(PyObject* kind, PyObject* argument, Parts& parts) {
  if (PyList_GET_ITEM(kind, 0) != reinterpret_cast<PyObject*>(Py_TYPE(argument))) return false;
  parts.containers.push_back(argument);
  if (PyDict_CheckExact(argument)) return take_dict(kind, argument, parts);
  return take_items(kind, PySequence_Fast_ITEMS(argument), PySequence_Fast_GET_SIZE(argument), parts);
}

bool has_twice(std::vector<PyObject*> objects) {
  std::sort(objects.begin(), objects.end());
  return std::adjacent_find(objects.begin(), objects.end()) != objects.end();
}

struct Owned {
  explicit Owned(PyObject* made) : object(made) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object); }
  PyObject* release() { return std::exchange(object, nullptr); }
  PyObject* object;
};

// The items of a recipe's container, as a list.
PyObject* items_of(PyObject* recipe, std::span<c10::IValue>& outputs, std::span<PyObject* const> originals) {
  const Py_ssize_t count = PyList_GET_SIZE(recipe) - kItems;
  Owned items(PyList_New(count));
  for (Py_ssize_t i = 0; items.object && i < count; ++i) {
    PyObject* const item = put_together(PyList_GET_ITEM(recipe, i + kItems), outputs, originals);
    if (!item) return nullptr;
    PyList_SET_ITEM(items.object, i, item);
  }
  return items.release();
}

PyObject* dict_of(PyObject* names, PyObject* items) {
  Owned dict(PyDict_New());
  for (Py_ssize_t i = 0; dict.object && i < PyList_GET_SIZE(items); ++i)
    if (PyDict_SetItem(dict.object, PyTuple_GET_ITEM(names, i), PyList_GET_ITEM(items, i)) != 0) return nullptr;
  return dict.release();
}

// Of a class of tuples, as its `_make` does.
PyObject* tuple_of_class(PyObject* type, PyObject* items) {
  Owned tuple(PyList_AsTuple(items));
  if (!tuple.object || type == reinterpret_cast<PyObject*>(&PyTuple_Type)) return tuple.release();
  static PyObject* const name = PyUnicode_InternFromString("__new__");
  return PyObject_CallMethodObjArgs(reinterpret_cast<PyObject*>(&PyTuple_Type), name, type, tuple.object, nullptr);
}

PyObject* container_of(PyObject* recipe, std::span<c10::IValue>& outputs, std::span<PyObject* const> originals) {
  Owned items(items_of(recipe, outputs, originals));
  if (!items.object) return nullptr;
  PyObject* const type = PyList_GET_ITEM(recipe, 0);
  if (type == reinterpret_cast<PyObject*>(&PyList_Type)) return items.release();
  if (type == reinterpret_cast<PyObject*>(&PyDict_Type)) return dict_of(PyList_GET_ITEM(recipe, 1), items.object);
  return tuple_of_class(type, items.object);
}

}  // namespace

bool take_apart(PyObject* kind, PyObject* argument, Parts& parts) {
  if (PyTuple_CheckExact(kind)) return is_constant(PyTuple_GET_ITEM(kind, 0), argument);
  if (PyList_CheckExact(kind)) return take_container(kind, argument, parts);
  if (kind != reinterpret_cast<PyObject*>(Py_TYPE(argument))) return false;
  if (PyFloat_CheckExact(argument) && std::isnan(PyFloat_AS_DOUBLE(argument))) return false;   // a constant, by its bits
  parts.leaves.push_back(argument);
  return true;
}

bool all_distinct(std::span<PyObject* const> objects) {
  std::vector<PyObject*> many;
  if (objects.size() > 12) {
    std::ranges::copy_if(objects, std::back_inserter(many), [](PyObject* object) { return THPVariable_Check(object); });
    return !has_twice(std::move(many));
  }
  for (size_t i = 1; i < objects.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (objects[i] == objects[j] && THPVariable_Check(objects[i])) return false;
  return true;
}

PyObject* attributes_of(PyObject* leaf) {
  PyObject* const* const space = THPVariable_Check(leaf) ? _PyObject_GetDictPtr(leaf) : nullptr;
  return space && *space && PyDict_GET_SIZE(*space) != 0 ? *space : nullptr;
}

bool are_apart(std::span<PyObject* const> containers, PyObject* ids) {
  std::vector<PyObject*> changeable;
  std::ranges::copy_if(containers, std::back_inserter(changeable), is_mutable);
  for (PyObject* const container : changeable) {
    Owned identity(PyLong_FromVoidPtr(container));
    if (!identity.object || PySet_Contains(ids, identity.object) != 0) return PyErr_Clear(), false;
  }
  return !has_twice(std::move(changeable));
}

PyObject* tuple_of(std::span<PyObject* const> objects) {
  PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(objects.size()));
  for (size_t i = 0; tuple && i < objects.size(); ++i) PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), Py_NewRef(objects[i]));
  return tuple;
}

PyObject* put_together(PyObject* recipe, std::span<c10::IValue>& outputs, std::span<PyObject* const> originals) {
  if (recipe == Py_None) {
    PyObject* const value = value_to_python(std::move(outputs.front()));
    outputs = outputs.subspan(1);
    return value;
  }
  if (PyTuple_CheckExact(recipe)) return Py_NewRef(PyTuple_GET_ITEM(recipe, 0));
  if (PyLong_CheckExact(recipe)) return Py_NewRef(originals[PyLong_AsSize_t(recipe)]);
  return container_of(recipe, outputs, originals);
}

}  // namespace escapement
