// See wrapped_numbers.h. `tensor * number` of a symbolic number makes a 0-d tensor that holds a placeholder (7777777), and puts the number into its
// attribute `_wrapped_number`, where the recorder finds it (symnode_python.cpp). Where it does not look, operators would take the placeholder for the number:
// in a thread that the program has started, or that waits for work; in a kernel that is written in Python. So when the attribute is set there, the tensor
// gets the value, which the number's own recording guards.
#include "torch/python/wrapped_numbers.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "torch/program/engine.h"
#include "torch/python/symnode_python.h"
#include "torch/python/values.h"
#include "torch/record/recorder_tape.h"

namespace escapement {
namespace {

constexpr const char* kName = "_wrapped_number";

// Of an ordinary attribute.
PyObject* space_of(PyObject* tensor) { return PyObject_GenericGetDict(tensor, nullptr); }

PyObject* get(PyObject* tensor, void* name) {
  PyObject* const space = space_of(tensor);
  if (space == nullptr) return nullptr;
  PyObject* const value = Py_XNewRef(PyDict_GetItemWithError(space, static_cast<PyObject*>(name)));
  Py_DECREF(space);
  if (value == nullptr && PyErr_Occurred() == nullptr) PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%s'", Py_TYPE(tensor)->tp_name, kName);
  return value;
}

void fill(const at::Tensor& placeholder, c10::SymNodeImpl& number) {
  if (placeholder.dim() != 0 || !placeholder.is_cpu()) return;
  void* const memory = placeholder.unsafeGetTensorImpl()->unsafe_storage().mutable_data();
  if (number.is_int() && placeholder.scalar_type() == at::kLong) *static_cast<int64_t*>(memory) = number.guard_int("", 0);
  if (number.is_float() && placeholder.scalar_type() == at::kDouble) *static_cast<double*>(memory) = number.guard_float("", 0);
  if (number.is_bool() && placeholder.scalar_type() == at::kBool) *static_cast<bool*>(memory) = number.guard_bool("", 0);
}

// A number of another recording, too: the recorder takes its value.
bool is_looked_at() {
  return is_recording() && c10::impl::tls_is_dispatch_key_included(kRecorderKey) && !c10::impl::tls_is_dispatch_key_excluded(kRecorderKey);
}

// Other tracers' nodes are Python's, and so none here.
bool fill_elsewhere(PyObject* tensor, PyObject* value) {
  if (value == nullptr || is_looked_at() || !is_symbolic(value)) return true;
  return entered([&]() -> PyObject* {
    const c10::SymNode node = node_of(value);
    if (node && !node->is_nested_int()) fill(THPVariable_Unpack(tensor), *node);
    return tensor;
  }) != nullptr;
}

int set(PyObject* tensor, PyObject* value, void* name) {
  PyObject* const space = fill_elsewhere(tensor, value) ? space_of(tensor) : nullptr;
  if (space == nullptr) return -1;
  auto* const key = static_cast<PyObject*>(name);
  const int failed = value != nullptr ? PyDict_SetItem(space, key, value) : PyDict_DelItem(space, key);
  Py_DECREF(space);
  if (failed != 0 && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_SetObject(PyExc_AttributeError, key);
  return failed;
}

}  // namespace

void mend_wrapped_numbers() {
  namespace py = pybind11;
  static PyGetSetDef definition{kName, get, set, nullptr, PyUnicode_InternFromString(kName)};
  const py::object kind = py::module_::import("torch").attr("Tensor");
  const auto descriptor = py::reinterpret_steal<py::object>(PyDescr_NewGetSet(reinterpret_cast<PyTypeObject*>(kind.ptr()), &definition));
  if (!descriptor) throw py::error_already_set();
  kind.attr(kName) = descriptor;
}

}  // namespace escapement
