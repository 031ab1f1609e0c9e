// See contents.h.
#include "torch/python/contents.h"

#include <algorithm>
#include <vector>

#include "torch/python/values.h"

namespace escapement {
namespace {

struct Slot {
  PyObject *dict, *key, *value;
};

struct ContentsObject {
  PyObject_HEAD
  PyObject* owner;                  // the arguments: they own everything below
  PyObject* kept;                   // a list that owns the values
  std::vector<PyObject*>* dicts;
  std::vector<PyObject*>* values;   // of all dicts, one after the other
  std::vector<Slot>* slots;
};

PyTypeObject* contents_type = nullptr;

bool read_dicts(ContentsObject* self, PyObject* dicts) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(dicts); ++i) {
    PyObject* const dict = PyList_GET_ITEM(dicts, i);
    if (!PyDict_Check(dict)) return PyErr_Format(PyExc_TypeError, "Contents looks at dicts, not at %s", Py_TYPE(dict)->tp_name), false;
    self->dicts->push_back(dict);
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, nullptr, &value);) {
      if (PyList_Append(self->kept, value) != 0) return false;
      self->values->push_back(value);
    }
  }
  return true;
}

bool read_slots(ContentsObject* self, PyObject* slots) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(slots); ++i) {
    Slot slot{};
    if (!PyArg_ParseTuple(PyList_GET_ITEM(slots, i), "O!OO", &PyDict_Type, &slot.dict, &slot.key, &slot.value)) return false;
    self->slots->push_back(slot);
  }
  return true;
}

PyObject* make_contents(PyTypeObject* type, PyObject* args) {
  PyObject *dicts, *slots;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &dicts, &PyList_Type, &slots)) return nullptr;
  auto* const self = reinterpret_cast<ContentsObject*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->dicts = new std::vector<PyObject*>;
  self->values = new std::vector<PyObject*>;
  self->slots = new std::vector<Slot>;
  self->kept = PyList_New(0);
  // Copies: the caller may change its lists.
  PyObject *const own_dicts = PySequence_Tuple(dicts), *const own_slots = PySequence_Tuple(slots);
  self->owner = own_dicts && own_slots ? PyTuple_Pack(2, own_dicts, own_slots) : nullptr;
  Py_XDECREF(own_dicts);
  Py_XDECREF(own_slots);
  if (self->kept && self->owner && read_dicts(self, dicts) && read_slots(self, slots)) return reinterpret_cast<PyObject*>(self);
  Py_DECREF(self);
  return nullptr;
}

PyObject* new_contents(PyTypeObject* type, PyObject* args, PyObject*) {
  return entered([&] { return make_contents(type, args); });
}

// Walks dict and expected values side by side; the answer is in what is left of them.
bool same_values(PyObject* dict, PyObject* const*& expected, PyObject* const* end) {
  if (PyDict_GET_SIZE(dict) == 0) return true;  // most are: this reads one cache line less
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, nullptr, &value); ++expected) {
    if (expected == end || *expected != value) return false;
  }
  return true;
}

int visit(PyObject* object, visitproc visit, void* arg) {
  auto* const self = reinterpret_cast<ContentsObject*>(object);
  Py_VISIT(self->owner);
  Py_VISIT(self->kept);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

int clear(PyObject* object) {
  auto* const self = reinterpret_cast<ContentsObject*>(object);
  if (self->dicts) self->dicts->clear();   // nothing below may be looked at once its owners are gone
  if (self->values) self->values->clear();
  if (self->slots) self->slots->clear();
  Py_CLEAR(self->owner);
  Py_CLEAR(self->kept);
  return 0;
}

void free_contents(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  auto* const self = reinterpret_cast<ContentsObject*>(object);
  PyObject_GC_UnTrack(object);
  clear(object);
  delete self->dicts;
  delete self->values;
  delete self->slots;
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* same(PyObject* object, PyObject*) { return PyBool_FromLong(holds_still(object)); }

PyMethodDef kMethods[] = {{"same", same, METH_NOARGS, "Whether the dicts still hold what they held."}, {nullptr, nullptr, 0, nullptr}};

PyType_Slot kSlots[] = {{Py_tp_new, reinterpret_cast<void*>(new_contents)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(free_contents)},
                        {Py_tp_traverse, reinterpret_cast<void*>(visit)},
                        {Py_tp_clear, reinterpret_cast<void*>(clear)},
                        {Py_tp_methods, kMethods},
                        {Py_tp_doc, const_cast<char*>("Contents(dicts, slots): what dicts held when this was made.")},
                        {0, nullptr}};

PyType_Spec kSpec = {"escapement._C.Contents", sizeof(ContentsObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, kSlots};

}  // namespace

bool is_contents(PyObject* object) { return Py_TYPE(object) == contents_type; }

bool holds_still(PyObject* contents) {
  const auto* const self = reinterpret_cast<ContentsObject*>(contents);
  PyObject* const* expected = self->values->data();
  PyObject* const* const end = expected + self->values->size();
  for (PyObject* const dict : *self->dicts) {
    if (!same_values(dict, expected, end)) return false;
  }
  return expected == end && std::all_of(self->slots->begin(), self->slots->end(), [](const Slot& slot) {
    return PyDict_GetItem(slot.dict, slot.key) == slot.value;
  });
}

bool add_contents_type(PyObject* module) {
  contents_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kSpec));
  return contents_type && PyModule_AddObjectRef(module, "Contents", reinterpret_cast<PyObject*>(contents_type)) == 0;
}

}  // namespace escapement
