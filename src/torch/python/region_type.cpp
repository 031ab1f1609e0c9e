// Region as a Python type with a raw vectorcall entry: a binding generator's dispatch would cost as much as a small kernel.
//
//   Region(forward, inputs, options, name, grad)   region(*args)   region.info()   region.set_locator(locator)
//
// forward: called with tensors, SymInts and the caller's other objects, positionally. inputs: one tuple per argument, see
// input_spec_from_python. The GIL is held but where a program's work takes long (support/interpreter.h).
#include "torch/python/region_type.h"

#include <structmember.h>
#include <torch/csrc/Generator.h>

#include <utility>

#include "torch/python/courtesy.h"
#include "torch/python/forward_level.h"
#include "torch/python/values.h"
#include "torch/record/line_hook.h"

namespace escapement {
namespace {

struct RegionObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  Region* region;
  PyObject* forward;
  PyObject* locator;
  PyObject* weak_references;
};

// The arguments of the call that this thread is in, which its caller keeps: a program's other objects are handed to it as they came. Per
// thread, since the GIL may change hands inside a call, and restored by the caller, since regions call regions.
thread_local PyObject* const* current_arguments = nullptr;

PyObject* argument_for(const c10::IValue& value, Py_ssize_t i) {
  if (value.isTensor() || value.isSymInt() || value.isInt()) return value_to_python(value);
  return Py_NewRef(current_arguments[i]);
}

// A body of a flow is called by a program that has let go of the lock.
class Gil {
 public:
  Gil() = default;
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  const PyGILState_STATE state_ = PyGILState_Ensure();
};

// A new reference that an exception gives back too.
class Reference {
 public:
  explicit Reference(PyObject* object) : object_(object) {
    if (!object) throw PythonError{};
  }
  ~Reference() { Py_DECREF(object_); }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  PyObject* get() const { return object_; }

 private:
  PyObject* const object_;
};

void append_outputs(PyObject* result, Region::Values& outputs) {
  const Reference sequence(PySequence_Fast(result, "a captured graph returns a list or a tuple"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i)
    outputs.push_back(any_value_from_python(PySequence_Fast_GET_ITEM(sequence.get(), i)));
}

void run_forward(RegionObject* self, const Region::Values& arguments, Region::Values& outputs) {
  const Gil held;
  const Py_ssize_t count = static_cast<Py_ssize_t>(arguments.size());
  const Reference tuple(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const argument = argument_for(arguments[i], i);
    if (!argument) throw PythonError{};
    PyTuple_SET_ITEM(tuple.get(), i, argument);
  }
  const Reference result(PyObject_CallObject(self->forward, tuple.get()));
  append_outputs(result.get(), outputs);
}

PyObject* to_tuple(const Region::Values& outputs) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    PyObject* item = value_to_python(outputs[i]);
    if (!item) {
      Py_DECREF(tuple);
      throw PythonError{};
    }
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), item);
  }
  return tuple;
}

PyObject* call_region(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names) {
  auto* self = reinterpret_cast<RegionObject*>(object);
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  if (names && PyTuple_GET_SIZE(names)) {
    PyErr_SetString(PyExc_TypeError, "a Region takes positional arguments only");
    return nullptr;
  }
  PyObject* const* const outer = std::exchange(current_arguments, args);
  PyObject* result = nullptr;
  try {
    Region::Values arguments, outputs;
    arguments.reserve(count);
    for (Py_ssize_t i = 0; i < count; ++i) arguments.push_back(any_value_from_python(args[i]));
    if (forward_level_is_open()) [[unlikely]] self->region->call_eagerly(arguments, outputs, Reason::gradient);
    else self->region->call(arguments, outputs);
    result = to_tuple(outputs);
  } catch (...) {
    set_python_error_from_current_exception();
  }
  current_arguments = outer;
  return result;
}

std::vector<InputSpec> read_inputs(PyObject* list) {
  std::vector<InputSpec> inputs;
  for (Py_ssize_t i = 0; i < PySequence_Size(list); ++i) {
    PyObject* item = PySequence_GetItem(list, i);
    inputs.push_back(input_spec_from_python(item, static_cast<size_t>(i)));
    Py_XDECREF(item);
  }
  return inputs;
}

PyObject* new_region(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* kNames[] = {"forward", "inputs", "options", "name", "grad", nullptr};
  PyObject *forward, *inputs, *options;
  const char* name = "graph";
  int grad = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO!|sp", const_cast<char**>(kNames), &forward, &inputs, &PyDict_Type,
                                   &options, &name, &grad))
    return nullptr;
  auto* self = reinterpret_cast<RegionObject*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->vectorcall = call_region;
  self->forward = Py_NewRef(forward);
  try {
    const Region::Forward run = [self](const Region::Values& in, Region::Values& out) { run_forward(self, in, out); };
    self->region = new Region(name, run, read_inputs(inputs), options_from_python(options));
  } catch (...) {
    set_python_error_from_current_exception();
    Py_DECREF(self);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(self);
}

void free_region(PyObject* object) {
  auto* self = reinterpret_cast<RegionObject*>(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->weak_references) PyObject_ClearWeakRefs(object);
  delete self->region;
  Py_CLEAR(self->forward);
  Py_CLEAR(self->locator);
  type->tp_free(object);
  Py_DECREF(type);  // an instance of a heap type owns a reference to it
}

int visit_region(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<RegionObject*>(object);
  Py_VISIT(self->forward);
  Py_VISIT(self->locator);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

int clear_region(PyObject* object) {
  auto* self = reinterpret_cast<RegionObject*>(object);
  Py_CLEAR(self->forward);
  Py_CLEAR(self->locator);
  return 0;
}

PyObject* region_info(PyObject* object, PyObject*) {
  std::string text;
  if (!entered([&] { return text = reinterpret_cast<RegionObject*>(object)->region->info(), object; })) return nullptr;
  PyObject* json = PyImport_ImportModule("json");
  if (!json) return nullptr;
  PyObject* result = PyObject_CallMethod(json, "loads", "s", text.c_str());
  Py_DECREF(json);
  return result;
}

int line_number(PyObject* locator) {
  if (PyEval_GetFrame() == nullptr) return kNotLooked;   // a thread of torch's own: there is no line
  const Courtesy courtesy;
  PyObject* number = PyObject_CallNoArgs(locator);
  const long value = number ? PyLong_AsLong(number) : kNotLooked;
  Py_XDECREF(number);
  return static_cast<int>(value);
}

std::string line_text(PyObject* locator, int number) {
  const Courtesy courtesy;
  PyObject* text = PyObject_CallMethod(locator, "text", "i", number);
  const char* utf8 = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  std::string result = utf8 ? utf8 : "";
  Py_XDECREF(text);
  return result;
}

PyObject* set_locator(PyObject* object, PyObject* locator) {
  auto* self = reinterpret_cast<RegionObject*>(object);
  Py_XSETREF(self->locator, Py_NewRef(locator));
  const bool set = entered([&] {
    self->region->hooks().location = [locator] {
      const Gil held;
      return line_number(locator);
    };
    self->region->hooks().location_text = [locator](int number) {
      const Gil held;
      return line_text(locator, number);
    };
    return object;
  });
  if (!set) return nullptr;
  Py_RETURN_NONE;
}

PyObject* replay_after_budget(PyObject* object, PyObject*) {
  reinterpret_cast<RegionObject*>(object)->region->replay_after_budget();
  Py_RETURN_NONE;
}

PyObject* errors_may_be_caught(PyObject* object, PyObject*) {
  reinterpret_cast<RegionObject*>(object)->region->hooks().late_errors = [] { return false; };
  Py_RETURN_NONE;
}

// What lies in circles, the youngest generations first: all of them take a tenth of a second in a large program.
void collect(bool everything) {
  const Gil held;
  const Courtesy courtesy;
  PyObject* const gc = PyImport_ImportModule("gc");
  PyObject* const done = gc ? PyObject_CallMethod(gc, "collect", "i", everything ? 2 : 1) : nullptr;
  Py_XDECREF(done);
  Py_XDECREF(gc);
}

PyObject* host_may_ask(PyObject* object, PyObject*) {
  reinterpret_cast<RegionObject*>(object)->region->host_may_ask();
  reinterpret_cast<RegionObject*>(object)->region->hooks().let_go = collect;
  Py_RETURN_NONE;
}

PyObject* know_generator(PyObject* object, PyObject* generator) {
  if (!THPGenerator_Check(generator)) return PyErr_Format(PyExc_TypeError, "a torch.Generator is wanted");
  reinterpret_cast<RegionObject*>(object)->region->know(reinterpret_cast<THPGenerator*>(generator)->cdata);
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"know_generator", know_generator, METH_O, "know_generator(generator): the program may draw from it."},
    {"replay_after_budget", replay_after_budget, METH_NOARGS, "Calls past the recording limit go on in replay mode."},
    {"errors_may_be_caught", errors_may_be_caught, METH_NOARGS, "No version may raise behind what the caller can see: the program may catch that."},
    {"host_may_ask", host_may_ask, METH_NOARGS, "The program is host code, which may ask for what nobody notices."},
    {"info", region_info, METH_NOARGS, "What was compiled, as a dict: versions, kernels, calls, guards, symbols, timings."},
    {"set_locator", set_locator, METH_O, "locator() -> number of the line being run; locator.text(number) -> 'file:line'."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(RegionObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(RegionObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot kSlots[] = {
    {Py_tp_new, reinterpret_cast<void*>(new_region)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_region)},
    {Py_tp_traverse, reinterpret_cast<void*>(visit_region)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_region)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_methods, kMethods},
    {Py_tp_members, kMembers},
    {Py_tp_doc, const_cast<char*>("Region(forward, inputs, options, name='graph', grad=False): one captured graph.")},
    {0, nullptr}};

PyType_Spec kSpec = {"escapement._C.Region", sizeof(RegionObject), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, kSlots};

}  // namespace

Region* region_of(PyObject* object) {
  return Py_TYPE(object)->tp_new == new_region ? reinterpret_cast<RegionObject*>(object)->region : nullptr;
}

std::shared_ptr<Body> body_of(PyObject* object) {
  if (Py_TYPE(object)->tp_new != new_region) return nullptr;
  Py_INCREF(object);
  // The last owner may be a program that dies in another thread.
  return {reinterpret_cast<RegionObject*>(object)->region, [object](Body*) {
            if (!Py_IsInitialized()) return;
            const PyGILState_STATE state = PyGILState_Ensure();
            Py_DECREF(object);
            PyGILState_Release(state);
          }};
}

bool add_region_type(PyObject* module) {
  PyObject* type = PyType_FromSpec(&kSpec);
  if (!type) return false;
  const int status = PyModule_AddObjectRef(module, "Region", type);
  Py_DECREF(type);
  return status == 0;
}

}  // namespace escapement
