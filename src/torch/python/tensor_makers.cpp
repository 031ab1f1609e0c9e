// See tensor_makers.h. A method's descriptor stays the object that it is: only the C function behind it is another.
#include "torch/python/tensor_makers.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <utility>

#include "torch/record/recorder_tape.h"

namespace escapement {

namespace {

namespace py = pybind11;

// The tensor itself, or what stands in for it.
py::object stand_in(PyObject* self) {
  if (!THPVariable_Check(self) || !THPVariable_Unpack(self).key_set().has(kRecorderKey)) return py::reinterpret_borrow<py::object>(self);
  const at::Tensor& tensor = THPVariable_Unpack(self);
  const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(at::empty({0}, at::TensorOptions().dtype(tensor.dtype()).device(tensor.device()))));
}

template <int which>
struct Maker {
  static inline PyCFunctionWithKeywords torchs = nullptr;
  static PyObject* make(PyObject* self, PyObject* args, PyObject* kwargs) {
    try {
      return torchs(stand_in(self).ptr(), args, kwargs);
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
      return nullptr;
    }
  }
};

template <int which>
void mend(const char* name) {
  const py::object method = py::module_::import("torch._C").attr("TensorBase").attr(name);
  if (Py_TYPE(method.ptr()) != &PyMethodDescr_Type) return;
  PyMethodDef& definition = *reinterpret_cast<PyMethodDescrObject*>(method.ptr())->d_method;
  if ((definition.ml_flags & (METH_VARARGS | METH_KEYWORDS)) != (METH_VARARGS | METH_KEYWORDS)) return;
  auto* const torchs = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void*>(definition.ml_meth));
  if (torchs == &Maker<which>::make) return;
  Maker<which>::torchs = torchs;
  definition.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&Maker<which>::make));
}

}  // namespace

void mend_tensor_makers() {
  mend<0>("new_tensor");
  mend<1>("new");
}

}  // namespace escapement
