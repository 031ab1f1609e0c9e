// _C.flow: a higher-order operator whose bodies are Regions, called by the operator's kernel at the recorder's key (dispatch.py).
#include <torch/csrc/autograd/python_variable.h>

#include "torch/python/region_type.h"
#include "torch/python/values.h"

namespace escapement {
namespace {

Flow::Kind kind_of(std::string_view name) {
  if (name == "branch") return Flow::Kind::branch;
  if (name == "loop") return Flow::Kind::loop;
  return name == "map" ? Flow::Kind::map : Flow::Kind::scan;
}

std::vector<std::shared_ptr<Body>> bodies_of(PyObject* tuple) {
  std::vector<std::shared_ptr<Body>> bodies;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) bodies.push_back(body_of(PyTuple_GET_ITEM(tuple, i)));
  return bodies;
}

PyObject* to_tuple(const std::vector<at::Tensor>& tensors) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(tensors.size()));
  for (size_t i = 0; i < tensors.size(); ++i) PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), THPVariable_Wrap(tensors[i]));
  return tuple;
}

}  // namespace

PyObject* flow(PyObject*, PyObject* args) {
  const char* kind;
  PyObject *bodies, *given;
  Py_ssize_t leading, sliced;
  int pure;
  if (!PyArg_ParseTuple(args, "sO!nnO!p", &kind, &PyTuple_Type, &bodies, &leading, &sliced, &PyTuple_Type, &given, &pure)) return nullptr;
  try {
    std::vector<c10::IValue> arguments;
    std::vector<bool> is_tensor;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
      arguments.push_back(value_from_python(PyTuple_GET_ITEM(given, i)));
      is_tensor.push_back(arguments.back().isTensor());
    }
    auto made = c10::make_intrusive<Flow>(kind_of(kind), bodies_of(bodies), static_cast<size_t>(leading), static_cast<size_t>(sliced),
                                          std::move(is_tensor), pure != 0);
    return to_tuple(call_flow(std::move(made), arguments));
  } catch (...) {
    set_python_error_from_current_exception();
    return nullptr;
  }
}

}  // namespace escapement
