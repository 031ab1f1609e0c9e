// The quick way into a jitted function. It serves calls that an existing version fits, and nothing else: whatever is unusual about a
// call or about torch's state, and every recording, goes to the Python `__call__`, which asks the same questions and more.
//
// A row says which calls an entry serves (jitted.py makes it): (kinds of the arguments, names of the keyword arguments, grad mode,
// inference mode, default dtype, region, results, whether no two arguments can be one tensor, state, identities of containers that the
// function also finds elsewhere, recipes). structures.h says what a kind and a recipe is. Of each result there is a recipe, or NotImplemented
// and what is called with (outputs, the caller's containers). The state says whether the modules still hold what they held: None, a Contents, or an object that is asked in Python.
#include "torch/python/entrance.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <structmember.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <vector>

#include "torch/python/contents.h"
#include "torch/python/forward_level.h"
#include "torch/python/region_type.h"
#include "torch/python/structures.h"
#include "torch/python/values.h"

namespace escapement {
namespace {

struct EntranceObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* rows;  // tuple, replaced as a whole
};

enum Field : Py_ssize_t { kKinds, kNames, kGrad, kInference, kDtype, kRegion, kResults, kLone, kState, kElsewhere, kRecipes, kFields };

// Set once, by `enable_entrance`. They live as long as the process.
PyObject* slow_call = nullptr;       // Jitted.__call__
PyObject* recording = nullptr;       // the set of threads that record

constexpr Py_ssize_t kMostArguments = 32;  // of a call that is served here

PyObject* call_slowly(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  PyObject* stack[kMostArguments + 1];
  std::vector<PyObject*> large;
  PyObject** all = stack;
  if (count + named > kMostArguments) {
    large.resize(static_cast<size_t>(count + named + 1));
    all = large.data();
  }
  all[0] = self;
  std::copy(args, args + count + named, all + 1);
  return PyObject_Vectorcall(slow_call, all, static_cast<size_t>(count + 1), names);
}

// Nothing but grad mode, inference mode and default dtype, which rows tell apart, differs from torch's state in a fresh thread.
bool is_ordinary_state() {
  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  const bool no_autocast = (local.excluded_ & c10::autocast_dispatch_keyset) == c10::autocast_dispatch_keyset;
  const bool nothing_added = (local.included_ - c10::DispatchKeySet(c10::DispatchKey::BackendSelect) -
                              c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView)).empty();
  return no_autocast && nothing_added && at::impl::PythonTorchFunctionTLS::stack_len() == 0 &&
         !at::impl::torch_function_all_disabled() && c10::impl::TorchDispatchModeTLS::stack_len() == 0 &&
         torch::jit::tracer::getTracingState() == nullptr && PySet_GET_SIZE(recording) == 0 && !forward_level_is_open();
}

bool same_names(PyObject* expected, PyObject* names) {
  const Py_ssize_t count = names ? PyTuple_GET_SIZE(names) : 0;
  if (PyTuple_GET_SIZE(expected) != count) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {  // names of keyword arguments in code are interned
    if (PyTuple_GET_ITEM(expected, i) != PyTuple_GET_ITEM(names, i)) return false;
  }
  return true;
}

bool is_true(PyObject* row, Field field) { return PyTuple_GET_ITEM(row, field) == Py_True; }

bool same_state(PyObject* row) {
  const auto* dtype = reinterpret_cast<THPDtype*>(PyTuple_GET_ITEM(row, kDtype));
  return is_true(row, kGrad) == c10::GradMode::is_enabled() && is_true(row, kInference) == c10::InferenceMode::is_enabled() &&
         dtype->scalar_type == c10::get_default_dtype_as_scalartype();
}

// 1: yes, 0: no, -1: an exception.
int is_current(PyObject* state) {
  if (state == Py_None) return 1;
  if (is_contents(state)) {
    Py_INCREF(state);   // what a thread local sets up may forget the rows
    const bool same = holds_still(state);
    Py_DECREF(state);
    return same ? 1 : 0;
  }
  static PyObject* const name = PyUnicode_InternFromString("current");
  PyObject* const answer = PyObject_CallMethodNoArgs(state, name);
  if (!answer) return -1;
  const int truth = PyObject_IsTrue(answer);
  Py_DECREF(answer);
  return truth;
}

PyObject* found_of(const Region::Values& outputs) {
  PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(outputs.size()));
  for (size_t i = 0; tuple && i < outputs.size(); ++i) {
    PyObject* const item = value_to_python(outputs[i]);
    if (!item) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), item);
  }
  return tuple;
}

// The last output is the number of the structure that the others are put into.
PyObject* build_result(PyObject* row, Region::Values& outputs, PyObject* originals) {
  const auto number = static_cast<Py_ssize_t>(outputs.back().toInt());
  PyObject* const recipe = PyList_GetItem(PyTuple_GET_ITEM(row, kRecipes), number);
  if (!recipe) return nullptr;
  if (recipe != Py_NotImplemented) {
    std::span<c10::IValue> rest(outputs);
    return put_together(recipe, rest, {PySequence_Fast_ITEMS(originals), static_cast<size_t>(PyTuple_GET_SIZE(originals))});
  }
  PyObject* const builder = PyList_GetItem(PyTuple_GET_ITEM(row, kResults), number);
  PyObject* const found = builder ? found_of(outputs) : nullptr;
  if (!found) return nullptr;
  PyObject* const result = PyObject_CallFunctionObjArgs(builder, found, originals, nullptr);
  Py_DECREF(found);
  return result;
}

// A float whose value varies is a tensor without axes to a region, as from `Entry.tensors`. False: an integer of more than 64 bits, for which `__call__`
// knows what to do.
bool take_leaf(PyObject* object, Region::Values& arguments) {
  int wide = 0;
  if (PyFloat_CheckExact(object)) arguments.emplace_back(at::scalar_to_tensor(PyFloat_AS_DOUBLE(object)));
  else if (PyLong_CheckExact(object)) arguments.emplace_back(int64_t{PyLong_AsLongLongAndOverflow(object, &wide)});
  else arguments.push_back(value_from_python(object));
  return wide == 0;
}

// Tensors and integers, the tensors where Python holds them: a reference of torch's to one that Python holds is one that Python must hear of, when it is
// taken and when it goes.
class Leaves {
 public:
  Leaves() = default;
  Leaves(const Leaves&) = delete;
  Leaves& operator=(const Leaves&) = delete;
  ~Leaves() {
    for (PyObject* const tensor : held_) Py_DECREF(tensor);
  }

  // False: there are others.
  bool take(std::span<PyObject* const> leaves) { return std::ranges::all_of(leaves, [this](PyObject* leaf) { return take(leaf); }); }
  std::span<const Argument> span() const { return arguments_; }

 private:
  bool take(PyObject* leaf) {
    if (PyLong_CheckExact(leaf)) {
      int wide = 0;
      arguments_.push_back({.integer = PyLong_AsLongLongAndOverflow(leaf, &wide)});
      return wide == 0;
    }
    if (!THPVariable_Check(leaf)) return false;
    held_.push_back(Py_NewRef(leaf));
    arguments_.push_back({.tensor = &THPVariable_Unpack(leaf)});
    return true;
  }

  c10::SmallVector<Argument, 16> arguments_;
  c10::SmallVector<PyObject*, 16> held_;
};

bool serve(PyObject* row, const Parts& parts, Region::Values& outputs) {
  Region& region = *region_of(PyTuple_GET_ITEM(row, kRegion));
  if (Leaves leaves; leaves.take(parts.leaves)) return region.serve(leaves.span(), outputs);
  Region::Values arguments;
  arguments.reserve(parts.leaves.size());
  const bool taken = std::ranges::all_of(parts.leaves, [&](PyObject* leaf) { return take_leaf(leaf, arguments); });
  return taken && region.serve(arguments, outputs);
}

// Null without an exception: no version fits.
PyObject* serve(PyObject* row, const Parts& parts) {
  PyObject* originals = nullptr;
  PyObject* result = nullptr;
  try {
    Region::Values outputs;
    originals = tuple_of(parts.containers);   // what they hold may change while compiled code runs
    if (originals && serve(row, parts, outputs)) result = build_result(row, outputs, originals);
  } catch (...) {
    set_python_error_from_current_exception();
  }
  Py_XDECREF(originals);
  return result;
}

bool is_for(PyObject* row, PyObject* const* args, Py_ssize_t count, Parts& parts) {
  PyObject* const kinds = PyTuple_GET_ITEM(row, kKinds);
  if (PyTuple_GET_SIZE(kinds) != count) return false;
  parts.leaves.clear(), parts.containers.clear();
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!take_apart(PyTuple_GET_ITEM(kinds, i), args[i], parts)) return false;
  return true;
}

// What Python code has put on a tensor the program may ask for: `__call__` knows whether it does.
bool may_serve(PyObject* row, const Parts& parts) {
  if (std::ranges::any_of(parts.leaves, attributes_of)) return false;
  if (!is_true(row, kLone) && !all_distinct(parts.leaves)) return false;
  return parts.containers.empty() || are_apart(parts.containers, PyTuple_GET_ITEM(row, kElsewhere));
}

PyObject* find_row(PyObject* rows, PyObject* const* args, Py_ssize_t count, PyObject* names, Parts& parts) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); ++i) {
    PyObject* const row = PyTuple_GET_ITEM(rows, i);
    if (!is_for(row, args, count, parts) || !same_names(PyTuple_GET_ITEM(row, kNames), names)) continue;
    if (same_state(row)) return may_serve(row, parts) ? row : nullptr;
  }
  return nullptr;
}

// Python code that was asked for the state may have changed what the containers hold.
bool is_still_for(PyObject* row, PyObject* const* args, Py_ssize_t count, Parts& parts) {
  if (parts.containers.empty() || PyTuple_GET_ITEM(row, kState) == Py_None || is_contents(PyTuple_GET_ITEM(row, kState))) return true;
  return is_for(row, args, count, parts) && may_serve(row, parts);
}

PyObject* enter(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names) {
  auto* const self = reinterpret_cast<EntranceObject*>(object);
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf), all = count + (names ? PyTuple_GET_SIZE(names) : 0);
  if (!self->rows || PyTuple_GET_SIZE(self->rows) == 0 || all > kMostArguments || !is_ordinary_state()) {
    return call_slowly(object, args, count, names);
  }
  PyObject* const rows = Py_NewRef(self->rows);  // a call of Python code below may replace them
  PyObject* result = nullptr;
  Parts parts;
  if (PyObject* const row = find_row(rows, args, all, names, parts)) {
    const int current = is_current(PyTuple_GET_ITEM(row, kState));
    if (current > 0 && is_still_for(row, args, all, parts)) result = serve(row, parts);
  }
  Py_DECREF(rows);
  if (result || PyErr_Occurred()) return result;
  result = call_slowly(object, args, count, names);
  if (Region::lost_a_call() && result) {
    Py_CLEAR(result);
    PyErr_SetString(PyExc_RuntimeError, "escapement: a call was begun by one version and ended by another; please report this");
  }
  return result;
}

// --- the type

PyObject* new_entrance(PyTypeObject* type, PyObject*, PyObject*) {
  auto* const self = reinterpret_cast<EntranceObject*>(type->tp_alloc(type, 0));
  if (self) self->vectorcall = enter;
  return reinterpret_cast<PyObject*>(self);
}

int visit(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<EntranceObject*>(object)->rows);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

int clear(PyObject* object) {
  Py_CLEAR(reinterpret_cast<EntranceObject*>(object)->rows);
  return 0;
}

void free_entrance(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  clear(object);
  type->tp_free(object);
  Py_DECREF(type);
}

bool is_row(PyObject* row) {
  return PyTuple_Check(row) && PyTuple_GET_SIZE(row) == kFields && PyList_Check(PyTuple_GET_ITEM(row, kResults)) &&
         PyAnySet_Check(PyTuple_GET_ITEM(row, kElsewhere)) && PyList_Check(PyTuple_GET_ITEM(row, kRecipes)) &&
         region_of(PyTuple_GET_ITEM(row, kRegion)) != nullptr;
}

PyTypeObject* entrance_type = nullptr;

PyObject* has_begun_a_call(PyObject*, PyObject*) { return PyBool_FromLong(Region::has_begun_a_call()); }

PyObject* attributed(PyObject*, PyObject* leaves) {
  if (!PyList_Check(leaves)) return PyErr_Format(PyExc_TypeError, "attributed() takes a list, not a %s", Py_TYPE(leaves)->tp_name), nullptr;
  PyObject* const found = PyList_New(0);
  for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(leaves); ++i) {
    PyObject* const space = attributes_of(PyList_GET_ITEM(leaves, i));
    if (space && PyList_Append(found, space) != 0) return Py_DECREF(found), nullptr;
  }
  return found;
}

PyObject* set_rows(PyObject*, PyObject* args) {
  PyObject *object, *rows;
  if (!PyArg_ParseTuple(args, "O!O!", entrance_type, &object, &PyTuple_Type, &rows)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); ++i) {
    if (!is_row(PyTuple_GET_ITEM(rows, i))) {
      PyErr_SetString(PyExc_TypeError, "a row of an Entrance has eleven fields");
      return nullptr;
    }
  }
  Py_XSETREF(reinterpret_cast<EntranceObject*>(object)->rows, Py_NewRef(rows));
  Py_RETURN_NONE;
}

// The type keeps its Python `__call__`, which tracers of Python code see; calls go to `enter` first.
PyObject* enable_entrance(PyObject*, PyObject* args) {
  PyObject *object, *set;
  if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &object, &PySet_Type, &set)) return nullptr;
  auto* const type = reinterpret_cast<PyTypeObject*>(object);
  if (!PyType_IsSubtype(type, entrance_type)) return PyErr_Format(PyExc_TypeError, "%s is no Entrance", type->tp_name);
  PyObject* const call = PyObject_GetAttrString(object, "__call__");
  if (!call) return nullptr;
  slow_call = call;
  recording = Py_NewRef(set);
  type->tp_call = PyVectorcall_Call;
  type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  PyType_Modified(type);
  Py_RETURN_NONE;
}

PyMemberDef kMembers[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(EntranceObject, vectorcall), READONLY, nullptr},
                          {nullptr, 0, 0, 0, nullptr}};

PyType_Slot kSlots[] = {{Py_tp_new, reinterpret_cast<void*>(new_entrance)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(free_entrance)},
                        {Py_tp_traverse, reinterpret_cast<void*>(visit)},
                        {Py_tp_clear, reinterpret_cast<void*>(clear)},
                        {Py_tp_members, kMembers},
                        {Py_tp_doc, const_cast<char*>("The quick way into a jitted function.")},
                        {0, nullptr}};

PyType_Spec kSpec = {"escapement._C.Entrance", sizeof(EntranceObject), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, kSlots};

PyMethodDef kFunctions[] = {{"set_rows", set_rows, METH_VARARGS, "set_rows(entrance, rows): what the quick way serves."},
                            {"has_begun_a_call", has_begun_a_call, METH_NOARGS, "Whether a version has begun the call that this thread is in, which must be gone on with."},
                            {"attributed", attributed, METH_O, "attributed(leaves): the dicts of attributes that Python code has put on tensors among them."},
                            {"enable_entrance", enable_entrance, METH_VARARGS, "enable_entrance(type, recording)"},
                            {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_entrance_type(PyObject* module) {
  entrance_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kSpec));
  if (!entrance_type || PyModule_AddObjectRef(module, "Entrance", reinterpret_cast<PyObject*>(entrance_type)) != 0) return false;
  return PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace escapement
