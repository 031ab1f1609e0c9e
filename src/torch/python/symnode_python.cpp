// See symnode_python.h. In Python, `tensor * symint` reaches ATen as a 0-d tensor that holds a placeholder; the symbol itself stands
// in the tensor's attribute `_wrapped_number`. Floats and booleans cross only inside torch's PythonSymNodeImpl.
#include "torch/python/symnode_python.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <unwind.h>

#include "support/interpreter.h"
#include "torch/record/layout_questions.h"
#include "torch/record/symnode_hooks.h"

namespace escapement {

namespace {

namespace py = pybind11;
using torch::impl::PythonSymNodeImpl;

// Past `torch.Tensor.__getattribute__`, which is ours while a recording is made: code of Python's may be interrupted, and a number that is not
// found is taken for the placeholder.
c10::SymNode wrapped_number(const at::Tensor& tensor) {
  const py::gil_scoped_acquire gil;
  static PyObject* const name = PyUnicode_InternFromString("_wrapped_number");
  const py::object object = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  const py::object number = py::reinterpret_steal<py::object>(PyObject_GenericGetAttr(object.ptr(), name));
  if (!number) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw py::error_already_set();
    PyErr_Clear();
    return {};
  }
  if (!torch::is_symint(number) && !torch::is_symfloat(number) && !torch::is_symbool(number)) return {};
  return node_of(number.ptr());
}

c10::SymNode to_python(c10::SymNode node) {
  const py::gil_scoped_acquire gil;
  return c10::make_intrusive<PythonSymNodeImpl>(py::cast(std::move(node)));
}

c10::SymNodeImpl* from_python(c10::SymNodeImpl* node) {
  auto* shell = dynamic_cast<PythonSymNodeImpl*>(node);
  if (shell == nullptr) return nullptr;
  const py::gil_scoped_acquire gil;
  const py::handle object = shell->getPyObj();
  if (!py::isinstance<c10::SymNodeImpl>(object)) return nullptr;
  return py::cast<c10::SymNode>(object).get();  // the shell keeps it alive
}

// --- `.contiguous()` asks is_contiguous() in the program's words; by its address it is told from the program.

const void* contiguous_function() {
  static const void* const found = [] {
    const py::object method = py::module_::import("torch._C").attr("TensorBase").attr("contiguous");
    if (Py_TYPE(method.ptr()) != &PyMethodDescr_Type) return static_cast<const void*>(nullptr);
    return reinterpret_cast<const void*>(reinterpret_cast<PyMethodDescrObject*>(method.ptr())->d_method->ml_meth);
  }();
  return found;
}

struct Search {
  const void* function;
  int frames_left;
  bool found;
};

_Unwind_Reason_Code look_at(_Unwind_Context* frame, void* data) {
  auto& search = *static_cast<Search*>(data);
  auto* const within = reinterpret_cast<void*>(_Unwind_GetIP(frame) - 1);  // the address returned to may be the next function's
  search.found = _Unwind_FindEnclosingFunction(within) == search.function;
  return search.found || --search.frames_left == 0 ? _URC_END_OF_STACK : _URC_NO_REASON;
}

bool contiguous_asks() {
  const py::gil_scoped_acquire gil;
  Search search{contiguous_function(), 12, false};
  if (search.function != nullptr) _Unwind_Backtrace(&look_at, &search);
  return search.found;
}

template <c10::SymNode (*function)(c10::SymNodeImpl*)>
void add_method(py::object& type, const char* name) {
  if (py::hasattr(type, name)) return;
  type.attr(name) = py::cpp_function([](const c10::SymNode& node) { return function(node.get()); }, py::name(name), py::is_method(type));
}

// Python's functions look these up on the node; torch's class has none. recording/dispatch.py adds those that need no rule of ours.
void complete_node_class() {
  py::object type = py::module_::import("torch._C").attr("_SymNode");
  add_method<symbolic_sqrt>(type, "sym_sqrt");
  add_method<symbolic_log2>(type, "sym_log2");
  add_method<symbolic_trunc>(type, "trunc");
  add_method<symbolic_trunc>(type, "sym_int");
  add_method<symbolic_round>(type, "nearest");
}

}  // namespace

void install_python_hooks() {
  interpreter_lock() = {[]() -> void* { return PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr; },
                        [](void* held) { PyEval_RestoreThread(static_cast<PyThreadState*>(held)); }};
  python_hooks() = {&wrapped_number, &to_python, &from_python};
  set_shortcut_asks(&contiguous_asks);
  complete_node_class();
}

c10::SymNode node_of(PyObject* number) {
  const py::object node = py::handle(number).attr("node");
  if (!py::isinstance<c10::SymNodeImpl>(node)) return {};
  return py::cast<c10::SymNode>(node);
}

bool is_symbolic(PyObject* object) {
  return torch::is_symint(object) || torch::is_symfloat(object) || torch::is_symbool(object);
}

bool is_wide(PyObject* node) {
  return py::isinstance<c10::SymNodeImpl>(node) && is_wide(py::cast<c10::SymNode>(py::handle(node)).get());
}

c10::IValue symbolic_from_python(PyObject* object) {
  const py::handle number = object;
  c10::SymNode node = node_of(object);
  if (!node) node = c10::make_intrusive<PythonSymNodeImpl>(py::reinterpret_borrow<py::object>(number.attr("node")));
  if (torch::is_symint(number)) return c10::SymInt(std::move(node));
  if (torch::is_symfloat(number)) return c10::SymFloat(std::move(node));
  return c10::SymBool(std::move(node));
}

PyObject* symint_to_python(const c10::SymInt& value) {
  if (const auto known = value.maybe_as_int()) return PyLong_FromLongLong(*known);
  return py::cast(value).release().ptr();
}

}  // namespace escapement
