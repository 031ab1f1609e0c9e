// See replay_type.h.
//
//   Replay(function, options, name)   replay(*args, **kwargs)   replay.info()   replay.text()
//
// The function gets the caller's own objects and its result is handed back as it is: tensors that it computed have become
// ordinary ones by then, wherever they were put. So nothing is flattened and no argument is looked at.
#include "torch/python/replay_type.h"

#include <structmember.h>

#include <memory>

#include "torch/python/values.h"
#include "torch/replay_mode/replay_region.h"

namespace escapement {
namespace {

struct ReplayObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  ReplayRegion* region;
  PyObject* function;
  PyObject* weak_references;
};

// A Python exception that is on its way stays what it is, whatever the end of the segment does.
PyObject* run(ReplayObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyObject* result = nullptr;
  {
    ReplayRegion::Scope scope(*self->region);
    result = PyObject_Vectorcall(self->function, args, nargsf, names);
    if (result == nullptr) PyErr_Fetch(&type, &value, &trace);
    else scope.finish();
  }
  if (result == nullptr) PyErr_Restore(type, value, trace);
  return result;
}

PyObject* call_replay(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names) {
  auto* self = reinterpret_cast<ReplayObject*>(object);
  if (self->region == nullptr) return PyErr_Format(PyExc_RuntimeError, "Replay.__init__ was not called");
  try {
    return run(self, args, nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET, names);
  } catch (...) {
    set_python_error_from_current_exception();
  }
  return nullptr;
}

PyObject* new_replay(PyTypeObject* type, PyObject*, PyObject*) {
  auto* self = reinterpret_cast<ReplayObject*>(type->tp_alloc(type, 0));
  if (self) self->vectorcall = call_replay;
  return reinterpret_cast<PyObject*>(self);
}

int init_replay(PyObject* object, PyObject* args, PyObject*) {
  auto* self = reinterpret_cast<ReplayObject*>(object);
  PyObject *function, *options;
  const char* name = "function";
  if (!PyArg_ParseTuple(args, "OO!|s", &function, &PyDict_Type, &options, &name)) return -1;
  try {
    auto region = std::make_unique<ReplayRegion>(name, ReplayRegion::Forward(), options_from_python(options));
    delete std::exchange(self->region, region.release());
  } catch (...) {
    set_python_error_from_current_exception();
    return -1;
  }
  Py_XSETREF(self->function, Py_NewRef(function));
  return 0;
}

void free_replay(PyObject* object) {
  auto* self = reinterpret_cast<ReplayObject*>(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->weak_references) PyObject_ClearWeakRefs(object);
  delete self->region;
  Py_CLEAR(self->function);
  type->tp_free(object);
  Py_DECREF(type);
}

int visit_replay(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<ReplayObject*>(object)->function);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

int clear_replay(PyObject* object) {
  Py_CLEAR(reinterpret_cast<ReplayObject*>(object)->function);
  return 0;
}

PyObject* replay_info(PyObject* object, PyObject*) {
  std::string text;
  if (!entered([&] { return text = reinterpret_cast<ReplayObject*>(object)->region->info(), object; })) return nullptr;
  PyObject* json = PyImport_ImportModule("json");
  if (!json) return nullptr;
  PyObject* result = PyObject_CallMethod(json, "loads", "s", text.c_str());
  Py_DECREF(json);
  return result;
}

PyObject* replay_text(PyObject* object, PyObject*) {
  std::string text;
  if (!entered([&] { return text = reinterpret_cast<ReplayObject*>(object)->region->text(), object; })) return nullptr;
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyMethodDef kMethods[] = {
    {"streams", replay_info, METH_NOARGS, "What was recorded and compiled, as a dict."},
    {"text", replay_text, METH_NOARGS, "The tree of operator streams, a line for each operator."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ReplayObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ReplayObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot kSlots[] = {
    {Py_tp_new, reinterpret_cast<void*>(new_replay)},
    {Py_tp_init, reinterpret_cast<void*>(init_replay)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_replay)},
    {Py_tp_traverse, reinterpret_cast<void*>(visit_replay)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_replay)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_methods, kMethods},
    {Py_tp_members, kMembers},
    {Py_tp_doc, const_cast<char*>("Replay(function, options, name='function'): a function in replay mode.")},
    {0, nullptr}};

PyType_Spec kSpec = {"escapement._C.Replay", sizeof(ReplayObject), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, kSlots};

}  // namespace

bool add_replay_type(PyObject* module) {
  PyObject* type = PyType_FromSpec(&kSpec);
  if (!type) return false;
  const int status = PyModule_AddObjectRef(module, "Replay", type);
  Py_DECREF(type);
  return status == 0;
}

}  // namespace escapement
