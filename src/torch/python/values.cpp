// See values.h. An argument that no version can read (a float, a generator, None) travels as an IValue only where IValue has a
// kind for it; otherwise as None, and the program gets the original object because the region keeps the arguments' tuple.
#include "torch/python/values.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <utility>

#include "support/error.h"
#include "torch/python/symnode_python.h"

namespace escapement {

struct PythonError::Held {
  Held() { PyErr_Fetch(&type, &value, &trace); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (!type) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    PyGILState_Release(state);
  }

  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
};

PythonError::PythonError() : held_(std::make_shared<Held>()) {}

void PythonError::restore() const {
  PyErr_Restore(std::exchange(held_->type, nullptr), std::exchange(held_->value, nullptr), std::exchange(held_->trace, nullptr));
}

c10::IValue value_from_python(PyObject* object) {
  if (THPVariable_Check(object)) return THPVariable_Unpack(object);
  if (object == Py_None) return {};
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_CheckExact(object)) {
    const int64_t value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred()) throw PythonError{};
    return value;
  }
  if (PyFloat_CheckExact(object)) return PyFloat_AS_DOUBLE(object);
  if (is_symbolic(object)) return symbolic_from_python(object);
  return {};
}

namespace {

// An integer of more than 64 bits. Made with the GIL held.
struct WideInteger : torch::CustomClassHolder {
  explicit WideInteger(PyObject* number) : object(Py_NewRef(number)) {}
  ~WideInteger() override {
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(object);
    PyGILState_Release(state);
  }
  PyObject* const object;
};

}  // namespace

c10::IValue any_value_from_python(PyObject* object) {
  int wide = 0;
  if (!PyLong_CheckExact(object)) return value_from_python(object);
  const int64_t value = PyLong_AsLongLongAndOverflow(object, &wide);
  return wide ? c10::IValue::make_capsule(c10::make_intrusive<WideInteger>(object)) : c10::IValue(value);
}

PyObject* value_to_python(c10::IValue&& value) {
  if (value.isTensor()) return THPVariable_Wrap(std::move(value).toTensor());
  return value_to_python(std::as_const(value));
}

PyObject* value_to_python(const c10::IValue& value) {
  if (value.isTensor()) return THPVariable_Wrap(value.toTensor());
  if (value.isInt()) return PyLong_FromLongLong(value.toInt());
  if (value.isBool()) return PyBool_FromLong(value.toBool());
  if (value.isDouble()) return PyFloat_FromDouble(value.toDouble());
  if (value.isSymInt()) return symint_to_python(value.toSymInt());
  if (value.isCapsule()) return Py_NewRef(static_cast<WideInteger&>(*value.toCapsule()).object);
  Py_RETURN_NONE;
}

namespace {

std::optional<SizeOp> operator_named(std::string_view name) {
  if (name == "sym") return SizeOp::symbol;
  if (name == "add") return SizeOp::add;
  if (name == "mul" || name == "neg") return SizeOp::mul;
  if (name == "floordiv") return SizeOp::floordiv;
  if (name == "mod") return SizeOp::mod;
  if (name == "min") return SizeOp::min;
  if (name == "max") return SizeOp::max;
  return {};
}

SizeSpec number_spec(int64_t number) {
  SizeSpec spec;
  spec.op = SizeOp::constant;
  spec.number = number;
  return spec;
}

std::string text_of(PyObject* object) {
  const char* text = PyUnicode_AsUTF8(object);
  if (!text) throw PythonError{};
  return text;
}

// (kind, number) or (kind, number, least, most)
void read_symbol(SizeSpec& spec, PyObject* tuple) {
  spec.op = SizeOp::symbol;
  spec.number = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, 1));
  if (PyTuple_GET_SIZE(tuple) != 4) return;
  spec.least = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, 2));
  spec.most = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, 3));
}

SizeSpec size_spec(PyObject* object) {
  SizeSpec spec;
  if (PyLong_Check(object)) return number_spec(PyLong_AsLongLong(object));
  if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) < 2) return spec;
  const std::string name = text_of(PyTuple_GET_ITEM(object, 0));
  spec.op = operator_named(name);
  if (spec.op == SizeOp::symbol) {
    read_symbol(spec, object);
    return spec;
  }
  if (name == "neg") spec.operands.push_back(number_spec(-1));
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(object); ++i) spec.operands.push_back(size_spec(PyTuple_GET_ITEM(object, i)));
  return spec;
}

void read_sizes(InputSpec& spec, PyObject* list) {
  const Py_ssize_t rank = PySequence_Size(list);
  bool constant = rank > 0;
  for (Py_ssize_t i = 0; i < rank; ++i) {
    PyObject* item = PySequence_GetItem(list, i);
    spec.sizes.push_back(size_spec(item));
    Py_XDECREF(item);
    constant = constant && spec.sizes.back().op == SizeOp::constant;
  }
  // Sizes of user inputs are never constants here, so a tensor whose sizes all are is a parameter or a buffer.
  spec.parameter = constant;
}

}  // namespace

InputSpec input_spec_from_python(PyObject* tuple, size_t position) {
  InputSpec spec;
  spec.name = "arg" + std::to_string(position);
  const std::string kind = text_of(PyTuple_GetItem(tuple, 0));
  if (kind == "tensor") {
    read_sizes(spec, PyTuple_GetItem(tuple, 1));
    if (PyTuple_GET_SIZE(tuple) == 3) spec.parameter = PyObject_IsTrue(PyTuple_GetItem(tuple, 2)) == 1;
  } else if (kind == "int") {
    spec.kind = InputSpec::Kind::integer;
    read_symbol(spec.size, tuple);
  } else if (kind == "int_expr") {
    spec.kind = InputSpec::Kind::integer;
    spec.size = size_spec(PyTuple_GetItem(tuple, 1));
  } else {
    spec.kind = InputSpec::Kind::other;
  }
  if (PyErr_Occurred()) throw PythonError{};
  return spec;
}

Options options_from_python(PyObject* dict) {
  Options options = default_options();
  PyObject* key;
  PyObject* value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    const std::string name = text_of(key);
    if (PyBool_Check(value)) set_option(options, name, value == Py_True);
    else if (PyLong_Check(value)) set_option(options, name, static_cast<int64_t>(PyLong_AsLongLong(value)));
    else set_option(options, name, std::string_view(text_of(value)));
  }
  return options;
}

// ATen's exceptions become what torch makes of them; a Python exception raised below passes through.
void set_python_error_from_current_exception() {
  try {
    throw;
  } catch (const PythonError& error) {
    error.restore();
  } catch (const python_error& error) {
    const_cast<python_error&>(error).restore();
  } catch (const UserError& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (const InternalError& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (const std::exception& error) {
    torch::translate_exception_to_python(std::current_exception());
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

}  // namespace escapement
