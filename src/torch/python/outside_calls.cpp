// See outside_calls.h.
#include "torch/python/outside_calls.h"

#include <string_view>
#include <unordered_set>

namespace escapement {
namespace {

std::unordered_set<const PyMethodDef*> watched;   // under the GIL, as all here
PyObject* told = nullptr;
const PyMethodDef* collect = nullptr;   // gc.collect

struct Watching {
  int depth = 0;   // recordings inside of each other
  Py_tracefunc before = nullptr;
  PyObject* before_object = nullptr;
  PyObject* code = nullptr;   // a dict for what has run
  PyObject* asides = nullptr;   // a tuple of code
  const PyFrameObject* aside = nullptr;   // the outermost of these that runs
  bool asked_to_collect = false, collecting = false;   // garbage: by the program; by itself, at any time
};
thread_local Watching watching;

int tell(PyObject* function, PyFrameObject* frame) {
  PyObject* const answer = PyObject_CallFunctionObjArgs(told, function, frame, nullptr);
  Py_XDECREF(answer);
  return answer ? 0 : -1;
}

int keep_code(PyCodeObject* code) {
  PyObject* const key = PyLong_FromVoidPtr(code);
  const int failed = key ? PyDict_SetItem(watching.code, key, reinterpret_cast<PyObject*>(code)) : -1;
  Py_XDECREF(key);
  return failed;
}

bool is_quiet() { return watching.aside || watching.collecting; }

bool is_aside(const PyCodeObject* code) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(watching.asides); ++i)
    if (PyTuple_GET_ITEM(watching.asides, i) == reinterpret_cast<const PyObject*>(code)) return true;
  return false;
}

// An end that nobody reports is noticed: then all that runs later is missing, too (ran.py looks for the last).
int note_code(PyFrameObject* frame, int what) {
  if (what == PyTrace_RETURN && frame == watching.aside) watching.aside = nullptr;
  if (what != PyTrace_CALL || is_quiet()) return 0;
  PyCodeObject* const code = PyFrame_GetCode(frame);
  if (is_aside(code)) watching.aside = frame;
  const int failed = watching.aside ? 0 : keep_code(code);
  Py_DECREF(code);
  return failed;
}

const PyMethodDef* method_of(PyObject* function) { return PyCFunction_Check(function) ? reinterpret_cast<PyCFunctionObject*>(function)->m_ml : nullptr; }

int note(PyObject*, PyFrameObject* frame, int what, PyObject* argument) {
  if (watching.code && note_code(frame, what) != 0) return -1;
  const PyMethodDef* const method = what == PyTrace_C_CALL || what == PyTrace_C_RETURN ? method_of(argument) : nullptr;
  if (method && method == collect) watching.asked_to_collect = what == PyTrace_C_CALL;
  if (method && what == PyTrace_C_CALL && !is_quiet() && watched.contains(method) && tell(argument, frame) != 0) return -1;
  const Py_tracefunc before = watching.before;
  return before ? before(watching.before_object, frame, what, argument) : 0;
}

// Python tells its audit hooks first; an interrupt that comes while they run is reported, and nothing has been set.
void set_profile(Py_tracefunc function, PyObject* object) {
  constexpr int kTries = 4;
  for (int i = 0; i < kTries; ++i) {
    PyEval_SetProfile(function, object);
    if (PyThreadState_Get()->c_profilefunc == function) return;
  }
}

// What an earlier recording could not take back is no profiler to go on to: it would be this one. And one that somebody has put since is gone on to.
void begin() {
  const PyThreadState* const thread = PyThreadState_Get();
  const bool left_over = thread->c_profilefunc == note;
  if (watching.depth++ != 0 && left_over) return;
  watching.asked_to_collect = watching.collecting = false;
  Py_CLEAR(watching.before_object);
  watching.before = left_over ? nullptr : thread->c_profilefunc;
  watching.before_object = left_over ? nullptr : Py_XNewRef(thread->c_profileobj);
  set_profile(note, nullptr);
}

// A profiler that the program itself has begun meanwhile stays.
void end() {
  if (watching.depth == 0 || --watching.depth != 0) return;
  if (PyThreadState_Get()->c_profilefunc == note) set_profile(watching.before, watching.before_object);
  watching.before = nullptr;
  Py_CLEAR(watching.before_object);
  Py_CLEAR(watching.code);
  Py_CLEAR(watching.asides);
  watching.aside = nullptr;
}

constexpr const char* kWatch = "escapement.watch";

// Also while an exception goes by; in another thread, where a traceback has carried it, there is nothing to end.
void end_of(PyObject* watch) {
  if (PyCapsule_GetPointer(watch, kWatch) != &watching) return PyErr_Clear();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  end();
  PyErr_Restore(type, value, trace);
}

// Of recordings inside of each other the outermost is told what has run.
PyObject* watch_calls(PyObject*, PyObject* args) {
  PyObject *code, *asides;
  if (!PyArg_ParseTuple(args, "OO!", &code, &PyTuple_Type, &asides)) return nullptr;
  if (code != Py_None && !PyDict_Check(code)) return PyErr_Format(PyExc_TypeError, "%R is no dict", code);
  PyObject* const watch = PyCapsule_New(&watching, kWatch, end_of);
  if (watch) begin();
  if (!watch || watching.depth != 1) return watch;
  Py_XSETREF(watching.asides, Py_NewRef(asides));
  Py_XSETREF(watching.code, code == Py_None ? nullptr : Py_NewRef(code));
  return watch;
}

// One of gc.callbacks: what runs until the end of a collection runs in it, the finalizers of anybody's garbage.
PyObject* collection(PyObject*, PyObject* args) {
  const char* phase;
  PyObject* info;
  if (!PyArg_ParseTuple(args, "sO", &phase, &info)) return nullptr;
  watching.collecting = watching.depth != 0 && !watching.asked_to_collect && std::string_view(phase) == "start";
  Py_RETURN_NONE;
}

PyObject* watches_calls(PyObject*, PyObject*) { return PyBool_FromLong(watching.depth != 0); }

PyObject* outside_calls(PyObject*, PyObject* args) {
  PyObject *functions, *callback, *collects;
  if (!PyArg_ParseTuple(args, "O!OO!", &PyList_Type, &functions, &callback, &PyCFunction_Type, &collects)) return nullptr;
  collect = method_of(collects);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(functions); ++i) {
    PyObject* const function = PyList_GET_ITEM(functions, i);
    if (!PyCFunction_Check(function)) return PyErr_Format(PyExc_TypeError, "%R is no function of C", function);
    watched.insert(method_of(function));
  }
  Py_XSETREF(told, Py_NewRef(callback));
  Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"outside_calls", outside_calls, METH_VARARGS,
     "outside_calls(functions, told, collect): told(function, frame) is called for calls of these C functions that watch_calls sees; `collect`: gc.collect."},
    {"collection", collection, METH_VARARGS, "collection(phase, info), for gc.callbacks: what runs in a collection for which the program has not asked is not seen."},
    {"watch_calls", watch_calls, METH_VARARGS,
     "watch_calls(code, asides): an object; as long as it lives, the C functions are looked at that this thread calls, and the dict, if it is one, gets "
     "the code that runs, by its id, but for the code of the tuple and what it calls."},
    {"watches_calls", watches_calls, METH_NOARGS, "Whether this thread's are."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_outside_calls(PyObject* module) { return PyModule_AddFunctions(module, kFunctions) == 0; }

}  // namespace escapement
