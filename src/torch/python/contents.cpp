// See contents.h.
#include "torch/python/contents.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <vector>

#include "torch/python/values.h"

namespace escapement {
namespace {

// Python counts the changes of each dict (PEP 509): while it has counted none since the last look, the same objects are there.
// From 3.13 on an object's attributes may change beside its dict, and the count goes.
#if PY_VERSION_HEX < 0x030d0000
uint64_t changes_of(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
#else
uint64_t changes_of(PyObject*) { return 0; }
#endif

struct Slot {
  PyObject *container, *key, *value;
};

struct Entry {
  PyObject *key, *value;
};

// What one dict holds: of `Contents::entries` or `Contents::named` a part.
struct Part {
  PyObject* dict;
  size_t begin, end;
  uint64_t changes = 0;   // when it was last found as it was; 0: not yet
  bool numbered = false;  // `dicts` only: its keys are numbers
};

// An object and the dict of its attributes. One that has other attributes, or is of another class, is met anew.
struct Owner {
  PyObject *object, *space;
  PyTypeObject* type;
  Py_ssize_t size;
  PyObject* bases;   // of a class, all of them, in the order in which they are asked
};

struct ContentsObject {
  PyObject_HEAD
  PyObject* owner;                  // the arguments: they own everything below
  PyObject* kept;                   // a list that owns the keys and values
  std::vector<Part>* dicts;
  std::vector<Entry>* entries;         // of all dicts, one after the other
  std::vector<Part>* spaces;
  std::vector<Slot>* named;         // in dicts, by identity or as numbers and texts: those of one dict, one after the other
  std::vector<Slot>* slots;         // all others
  std::vector<Owner>* owners;
};

PyTypeObject* contents_type = nullptr;
PyTypeObject *thread_local_type = nullptr, *queue_type = nullptr;

bool read_dicts(ContentsObject* self, PyObject* dicts) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(dicts); ++i) {
    PyObject* const dict = PyList_GET_ITEM(dicts, i);
    if (!PyDict_Check(dict)) return PyErr_Format(PyExc_TypeError, "Contents looks at dicts, not at %s", Py_TYPE(dict)->tp_name), false;
    Part part{dict, self->entries->size(), 0};
    Entry entry{};
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &entry.key, &entry.value);) {
      if (PyList_Append(self->kept, entry.key) != 0 || PyList_Append(self->kept, entry.value) != 0) return false;
      part.numbered |= PyLong_CheckExact(entry.key) != 0;
      self->entries->push_back(entry);
    }
    part.end = self->entries->size();
    self->dicts->push_back(part);
  }
  return true;
}

// The same object is as it was. (A container is not: what is expected of it is a copy, or a tuple with one.)
bool stays_itself(PyObject* expected) { return !PyTuple_Check(expected) && !PyList_Check(expected) && !PyDict_Check(expected) && !PyAnySet_Check(expected); }

void group_by_dict(ContentsObject* self) {
  std::stable_sort(self->named->begin(), self->named->end(), [](const Slot& a, const Slot& b) { return std::less<>{}(a.container, b.container); });
  for (size_t i = 0; i < self->named->size(); ++i) {
    PyObject* const dict = (*self->named)[i].container;
    if (self->spaces->empty() || self->spaces->back().dict != dict) self->spaces->push_back({dict, i, i});
    self->spaces->back().end = i + 1;
  }
}

bool read_slots(ContentsObject* self, PyObject* slots) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(slots); ++i) {
    Slot slot{};
    if (!PyArg_ParseTuple(PyList_GET_ITEM(slots, i), "OOO", &slot.container, &slot.key, &slot.value)) return false;
    const bool item = PyList_Check(slot.container) && PyLong_Check(slot.key), attribute = PyUnicode_Check(slot.key);
    const bool known = item || attribute || PyContextVar_CheckExact(slot.container) || PyDict_Check(slot.container) || PyCell_Check(slot.container) || PyList_Check(slot.container) ||
                       (PyFunction_Check(slot.container) && PyTuple_Check(slot.value) && PyTuple_GET_SIZE(slot.value) == 3);
    if (!known) return PyErr_Format(PyExc_TypeError, "no slot of %s", Py_TYPE(slot.container)->tp_name), false;
    (attribute && PyDict_Check(slot.container) && stays_itself(slot.value) ? self->named : self->slots)->push_back(slot);
  }
  group_by_dict(self);
  return true;
}

bool read_owners(ContentsObject* self, PyObject* owners) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(owners); ++i) {
    Owner owner{};
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(owners, i), "OO!", &owner.object, &PyDict_Type, &owner.space)) return false;
    owner.type = Py_TYPE(owner.object), owner.size = PyDict_GET_SIZE(owner.space);
    owner.bases = PyType_Check(owner.object) ? reinterpret_cast<PyTypeObject*>(owner.object)->tp_mro : nullptr;
    if (owner.bases && PyList_Append(self->kept, owner.bases) != 0) return false;
    if (PyList_Append(self->kept, reinterpret_cast<PyObject*>(owner.type)) != 0) return false;
    self->owners->push_back(owner);
  }
  return true;
}

PyObject* make_contents(PyTypeObject* type, PyObject* args) {
  PyObject *dicts, *slots, *owners = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!|O!", &PyList_Type, &dicts, &PyList_Type, &slots, &PyList_Type, &owners)) return nullptr;
  auto* const self = reinterpret_cast<ContentsObject*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->dicts = new std::vector<Part>;
  self->entries = new std::vector<Entry>;
  self->spaces = new std::vector<Part>;
  self->named = new std::vector<Slot>;
  self->slots = new std::vector<Slot>;
  self->owners = new std::vector<Owner>;
  self->kept = PyList_New(0);
  // Copies: the caller may change its lists.
  PyObject *const own_dicts = PySequence_Tuple(dicts), *const own_slots = PySequence_Tuple(slots), *const own_owners = owners ? PySequence_Tuple(owners) : PyTuple_New(0);
  self->owner = own_dicts && own_slots && own_owners ? PyTuple_Pack(3, own_dicts, own_slots, own_owners) : nullptr;
  for (PyObject* const own : {own_dicts, own_slots, own_owners}) Py_XDECREF(own);
  if (self->kept && self->owner && read_dicts(self, dicts) && read_slots(self, slots) && read_owners(self, own_owners)) return reinterpret_cast<PyObject*>(self);
  Py_DECREF(self);
  return nullptr;
}

PyObject* new_contents(PyTypeObject* type, PyObject* args, PyObject*) {
  return entered([&] { return make_contents(type, args); });
}

// Hooks have numbers, which say only what belongs together in several dicts (a hook, and that it wants keywords): others that do are as good.
class Numbers {
 public:
  bool same(PyObject* now, PyObject* expected) {
    const int64_t a = PyLong_AsLongLong(now), b = PyLong_AsLongLong(expected);
    if (PyErr_Occurred()) return PyErr_Clear(), false;
    return now_.try_emplace(b, a).first->second == a && expected_.try_emplace(a, b).first->second == b;
  }

 private:
  std::unordered_map<int64_t, int64_t> now_, expected_;
};

bool same_key(PyObject* now, PyObject* expected, Numbers& numbers) {
  if (PyLong_CheckExact(now) && PyLong_CheckExact(expected)) return numbers.same(now, expected);
  return now == expected || (PyUnicode_CheckExact(now) && PyUnicode_CheckExact(expected) && PyUnicode_Compare(now, expected) == 0);
}

bool same_entries(const Part& part, const Entry* expected, Numbers& numbers) {
  if (static_cast<size_t>(PyDict_GET_SIZE(part.dict)) != part.end - part.begin) return false;
  Entry now{};
  expected += part.begin;
  for (Py_ssize_t at = 0; PyDict_Next(part.dict, &at, &now.key, &now.value); ++expected)
    if (expected->value != now.value || !same_key(now.key, expected->key, numbers)) return false;
  return true;
}

// None of the program's code runs in `same`, which therefore changes nothing.
template <class Same>
bool unchanged(Part& part, const Same& same) {
  const uint64_t changes = changes_of(part.dict);
  if (changes != 0 && changes == part.changes) return true;
  if (!same()) return false;
  part.changes = changes;
  return true;
}

// Of dicts with numbers all are looked at where one has changed.
bool same_dicts(std::vector<Part>& dicts, const Entry* entries) {
  const auto has_changed = [](const Part& part) { return part.numbered && part.changes != changes_of(part.dict); };
  if (std::ranges::any_of(dicts, has_changed)) std::ranges::for_each(dicts, [](Part& part) { part.changes = part.numbered ? 0 : part.changes; });
  Numbers numbers;
  return std::ranges::all_of(dicts, [&](Part& part) { return unchanged(part, [&] { return same_entries(part, entries, numbers); }); });
}

// --- slots

// Of these types comparing runs none of the program's code.
bool is_compared(const PyTypeObject* type) {
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type;
}

bool same_value(PyObject* now, PyObject* expected);

template <class Item>
bool same_items(Py_ssize_t size, Py_ssize_t expected_size, const Item& same) {
  for (Py_ssize_t i = 0; i < size && size == expected_size; ++i)
    if (!same(i)) return false;
  return size == expected_size;
}

bool same_dict(PyObject* dict, PyObject* expected) {
  if (PyDict_GET_SIZE(dict) != PyDict_GET_SIZE(expected)) return false;
  PyObject *key = nullptr, *value = nullptr, *expected_key = nullptr, *expected_value = nullptr;
  for (Py_ssize_t at = 0, expected_at = 0; PyDict_Next(dict, &at, &key, &value);) {
    if (!PyDict_Next(expected, &expected_at, &expected_key, &expected_value)) return false;
    if (!same_value(key, expected_key) || !same_value(value, expected_value)) return false;
  }
  return true;
}

bool same_float(PyObject* now, PyObject* expected) {   // 0.0 and -0.0 are two numbers, and a NaN is itself
  const double a = PyFloat_AS_DOUBLE(now), b = PyFloat_AS_DOUBLE(expected);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// Of values of one type: an equal one of another type (`1` and `True`) is another one.
bool same_set(PyObject* set, PyObject* expected) {
  if (PySet_GET_SIZE(set) != PySet_GET_SIZE(expected)) return false;
  PyObject *const items = PySequence_Tuple(set), *const expected_items = PySequence_Tuple(expected);
  bool same = items && expected_items;
  for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(items); ++i) {
    PyObject* const item = PyTuple_GET_ITEM(items, i);
    same = Py_TYPE(item) == Py_TYPE(PyTuple_GET_ITEM(expected_items, 0)) && PySet_Contains(expected, item) == 1;
  }
  Py_XDECREF(items);
  Py_XDECREF(expected_items);
  if (!same) PyErr_Clear();
  return same;
}

// In the order in which they come, by types of C: none of the program's code runs.
bool same_walk(PyObject* queue, PyObject* expected) {
  PyObject* const walk = PyObject_GetIter(queue);
  const Py_ssize_t size = PyList_GET_SIZE(expected);
  Py_ssize_t i = 0;
  bool same = walk != nullptr;
  for (PyObject* item = nullptr; same && (item = PyIter_Next(walk)) != nullptr; ++i) {
    same = i < size && same_value(item, PyList_GET_ITEM(expected, i));
    Py_DECREF(item);
  }
  Py_XDECREF(walk);
  if (PyErr_Occurred()) return PyErr_Clear(), false;
  return same && i == size;
}

// An array and its bytes, as they were.
bool is_memory(PyObject* now, PyObject* expected) {
  return PyTuple_CheckExact(expected) && PyTuple_GET_SIZE(expected) == 2 && PyTuple_GET_ITEM(expected, 0) == now && PyObject_CheckBuffer(now) &&
         PyBytes_CheckExact(PyTuple_GET_ITEM(expected, 1));
}

bool same_memory(PyObject* array, PyObject* bytes) {
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, PyBUF_ANY_CONTIGUOUS) != 0) return PyErr_Clear(), false;
  const bool same = view.len == PyBytes_GET_SIZE(bytes) && std::memcmp(view.buf, PyBytes_AS_STRING(bytes), static_cast<size_t>(view.len)) == 0;
  PyBuffer_Release(&view);
  return same;
}

bool is_endless(PyObject* now) {
  if (Py_TYPE(now) != queue_type) return false;
  PyObject* const limit = PyObject_GetAttrString(now, "maxlen");
  const bool none = limit == Py_None;
  if (limit == nullptr) PyErr_Clear();
  Py_XDECREF(limit);
  return none;
}

// A container of a class derived from Python's, or with a state of its own (`maxlen`), and what it held.
bool is_container(PyObject* now, PyObject* expected) {
  return PyTuple_CheckExact(expected) && PyTuple_GET_SIZE(expected) == 2 && PyTuple_GET_ITEM(expected, 0) == now &&
         (PyDict_Check(now) || PyList_Check(now) || Py_TYPE(now) == queue_type);
}

bool same_list(PyObject* now, PyObject* expected) {
  return same_items(PyList_GET_SIZE(now), PyList_GET_SIZE(expected), [&](Py_ssize_t i) { return same_value(PyList_GET_ITEM(now, i), PyList_GET_ITEM(expected, i)); });
}

bool same_contents(PyObject* now, PyObject* expected) {
  if (PyDict_Check(now)) return PyDict_CheckExact(expected) && same_dict(now, expected);
  if (!PyList_CheckExact(expected)) return false;
  return PyList_Check(now) ? same_list(now, expected) : same_walk(now, expected);
}

bool same_value(PyObject* now, PyObject* expected) {
  if (now == expected) return true;
  if (now == nullptr) return false;
  if (PyAnySet_CheckExact(now) && PyFrozenSet_CheckExact(expected)) return same_set(now, expected);
  if (PyList_CheckExact(expected) && (PyAnySet_CheckExact(now) || is_endless(now))) return same_walk(now, expected);
  if (is_memory(now, expected)) return same_memory(now, PyTuple_GET_ITEM(expected, 1));
  if (is_container(now, expected)) return same_contents(now, PyTuple_GET_ITEM(expected, 1));
  if (PyDict_CheckExact(now) && PyDict_CheckExact(expected)) return same_dict(now, expected);
  if (PyList_CheckExact(now) && PyList_CheckExact(expected)) return same_list(now, expected);
  if (Py_TYPE(now) != Py_TYPE(expected)) return false;
  if (PyTuple_CheckExact(now))
    return same_items(PyTuple_GET_SIZE(now), PyTuple_GET_SIZE(expected), [&](Py_ssize_t i) { return same_value(PyTuple_GET_ITEM(now, i), PyTuple_GET_ITEM(expected, i)); });
  if (PyFloat_CheckExact(now)) return same_float(now, expected);
  return is_compared(Py_TYPE(now)) && PyObject_RichCompareBool(now, expected, Py_EQ) == 1;
}

bool same_function(PyObject* function, PyObject* expected) {
  PyObject* const parts[] = {PyFunction_GET_CODE(function), PyFunction_GET_DEFAULTS(function), PyFunction_GET_KW_DEFAULTS(function)};
  for (Py_ssize_t i = 0; i < 3; ++i)
    if (!same_value(parts[i] ? parts[i] : Py_None, PyTuple_GET_ITEM(expected, i))) return false;
  return true;
}

bool same_held(PyObject* now, PyObject* expected) {
  if (now == nullptr) PyErr_Clear();
  const bool same = same_value(now ? now : Py_None, expected);
  Py_XDECREF(now);
  return same;
}

bool same_in_context(PyObject* variable, PyObject* expected) {
  PyObject* now = nullptr;
  PyContextVar_Get(variable, nullptr, &now);
  return same_held(now, expected);
}

// What is not there is None. Of an object a member of its type (`__slots__`), which none of the program's code computes;
// of a thread local what this thread has there, which its class may set up now.
bool same_item(const Slot& slot) {
  PyObject* now = nullptr;   // borrowed: what holds it is not changed meanwhile
  if (PyDict_Check(slot.container)) {
    now = PyDict_GetItem(slot.container, slot.key);
  } else if (PyList_Check(slot.container)) {
    const Py_ssize_t at = PyLong_AsSsize_t(slot.key);
    now = at >= 0 && at < PyList_GET_SIZE(slot.container) ? PyList_GET_ITEM(slot.container, at) : nullptr;
  } else {
    const bool of_thread = PyObject_TypeCheck(slot.container, thread_local_type);
    return same_held(of_thread ? PyObject_GetAttr(slot.container, slot.key) : PyObject_GenericGetAttr(slot.container, slot.key), slot.value);
  }
  return same_value(now ? now : Py_None, slot.value);
}

// `o.__dict__ = other` is another dict. (Of a class it is none that could be replaced, nor one at this place.)
bool is_as_met(const Owner& owner) {
  if (Py_TYPE(owner.object) != owner.type || PyDict_GET_SIZE(owner.space) != owner.size) return false;
  if (owner.bases && reinterpret_cast<PyTypeObject*>(owner.object)->tp_mro != owner.bases) return false;
  PyObject* const* const held = owner.bases ? nullptr : _PyObject_GetDictPtr(owner.object);
  return held == nullptr || *held == owner.space;
}

bool same_slot(const Slot& slot) {
  if (slot.key != Py_None) return same_item(slot);
  if (PyContextVar_CheckExact(slot.container)) return same_in_context(slot.container, slot.value);
  if (PyCell_Check(slot.container)) return same_value(PyCell_GET(slot.container) ? PyCell_GET(slot.container) : Py_None, slot.value);
  return PyFunction_Check(slot.container) ? same_function(slot.container, slot.value) : same_value(slot.container, slot.value);
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
  if (self->entries) self->entries->clear();
  if (self->spaces) self->spaces->clear();
  if (self->named) self->named->clear();
  if (self->slots) self->slots->clear();
  if (self->owners) self->owners->clear();
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
  delete self->entries;
  delete self->spaces;
  delete self->named;
  delete self->slots;
  delete self->owners;
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
                        {Py_tp_doc, const_cast<char*>("Contents(dicts, slots, owners): what dicts held when this was made.")},
                        {0, nullptr}};

PyType_Spec kSpec = {"escapement._C.Contents", sizeof(ContentsObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, kSlots};

}  // namespace

bool is_contents(PyObject* object) { return Py_TYPE(object) == contents_type; }

bool holds_still(PyObject* contents) {
  const auto* const self = reinterpret_cast<ContentsObject*>(contents);
  const auto all = [](const auto& items, const auto& holds) { return std::all_of(items.begin(), items.end(), holds); };
  const auto same_named = [&](Part& part) {
    return unchanged(part, [&] { return std::all_of(self->named->begin() + part.begin, self->named->begin() + part.end, same_item); });
  };
  return same_dicts(*self->dicts, self->entries->data()) && all(*self->owners, is_as_met) &&
         std::all_of(self->spaces->begin(), self->spaces->end(), same_named) && all(*self->slots, same_slot);
}

namespace {

PyTypeObject* type_of(const char* module, const char* name) {
  PyObject* const home = PyImport_ImportModule(module);
  PyObject* const type = home ? PyObject_GetAttrString(home, name) : nullptr;
  Py_XDECREF(home);
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

bool add_contents_type(PyObject* module) {
  thread_local_type = type_of("_thread", "_local"), queue_type = type_of("collections", "deque");
  if (!thread_local_type || !queue_type) return false;
  contents_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kSpec));
  return contents_type && PyModule_AddObjectRef(module, "Contents", reinterpret_cast<PyObject*>(contents_type)) == 0;
}

}  // namespace escapement
