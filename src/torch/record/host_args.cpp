// See host_args.h.
#include "torch/record/host_args.h"

#include <ATen/ScalarOps.h>

#include <cmath>
#include <utility>

#include "support/error.h"
#include "torch/record/symnode.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

constexpr int64_t kIntPlaceholder = 7777777;  // torch's argument parser writes this where a symbol stood

at::Tensor real_of(const at::Tensor& t) {
  const Wrapper* w = Wrapper::of(t);
  return w ? w->inner() : t;
}

double hint_of(const c10::SymFloat& value) {
  if (!value.is_symbolic()) return value.expect_float();
  const Node* node = Node::of(value.toSymNodeImplUnowned());
  return node ? node->float_hint() : value.guard_float(__FILE__, __LINE__);
}

bool hint_of(const c10::SymBool& value) {
  if (!value.is_heap_allocated()) return value.as_bool_unchecked();
  const Node* node = Node::of(value.toSymNodeImplUnowned());
  return node ? node->bool_expr()->hint : value.guard_bool(__FILE__, __LINE__);
}

c10::IValue concrete_list(const c10::IValue& value) {
  if (value.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : value.toTensorVector()) out.push_back(real_of(t));
    return out;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> out;
    for (const auto& t : value.toOptionalTensorVector())
      out.push_back(t.has_value() ? std::optional<at::Tensor>(real_of(*t)) : std::nullopt);
    return out;
  }
  if (value.isSymIntList()) {
    c10::List<int64_t> out;
    for (const c10::SymInt& s : value.toSymIntVector()) out.push_back(hint_of(s));
    return out;
  }
  return value;
}

}  // namespace

int64_t hint_of(const c10::SymInt& value) {
  if (!value.is_heap_allocated()) return value.as_int_unchecked();
  const Node* node = Node::of(value.toSymNodeImplUnowned());
  return node ? node->int_hint() : value.guard_int(__FILE__, __LINE__);
}

c10::IValue concrete(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& t = value.toTensor();
    // Also where the number is known: the tensor holds the placeholder all the same.
    return is_wrapped_number(t) ? wrap_scalar(wrapped_scalar(t)) : real_of(t);
  }
  if (value.isSymInt()) return hint_of(value.toSymInt());
  if (value.isSymFloat()) return hint_of(value.toSymFloat());
  if (value.isSymBool()) return hint_of(value.toSymBool());
  if (value.isList()) return concrete_list(value);
  return value;
}

// --- wrapped numbers

// Not item(): that would be dispatched, and recorded.
static c10::Scalar read_scalar(const at::Tensor& t) {
  if (!t.is_cpu()) throw InternalError("a wrapped number on a device");
  const void* data = t.unsafeGetTensorImpl()->storage().data();
  switch (t.scalar_type()) {
    case c10::ScalarType::Double: return *static_cast<const double*>(data);
    case c10::ScalarType::Long: return *static_cast<const int64_t*>(data);
    case c10::ScalarType::Bool: return *static_cast<const bool*>(data);
    default: throw InternalError("a wrapped number of an unexpected dtype");
  }
}

static thread_local SymbolicNumber* t_symbolic_numbers = nullptr;

SymbolicNumber::SymbolicNumber(const at::Tensor& wrapped, c10::SymNode node)
    : wrapped_(wrapped), node_(std::move(node)), outer_(std::exchange(t_symbolic_numbers, this)) {}
SymbolicNumber::~SymbolicNumber() { t_symbolic_numbers = outer_; }

static c10::Scalar symbolic_scalar(c10::SymNode node) {
  if (node->is_float()) return c10::SymFloat(std::move(node));
  if (node->is_bool()) return c10::SymBool(std::move(node));
  return c10::SymInt(std::move(node));
}

c10::Scalar wrapped_scalar(const at::Tensor& wrapped) {
  for (const SymbolicNumber* number = t_symbolic_numbers; number != nullptr; number = number->outer_)
    if (number->wrapped_.is_same(wrapped)) return symbolic_scalar(number->node_);
  const c10::Scalar plain = read_scalar(wrapped);
  auto* hidden = python_hooks().wrapped_number;
  if (!hidden) return plain;
  const bool placeholder = plain.isFloatingPoint() ? std::isnan(plain.toDouble()) : plain.isIntegral(true) && plain.toLong() == kIntPlaceholder;
  if (!placeholder && !plain.isBoolean()) return plain;
  c10::SymNode node = hidden(wrapped);
  return node ? symbolic_scalar(std::move(node)) : plain;
}

bool is_wrapped_number(const at::Tensor& t) {
  if (!t.defined() || !t.unsafeGetTensorImpl()->is_wrapped_number() || t.dim() != 0) return false;   // written as `out` it may be any tensor
  const c10::ScalarType type = t.scalar_type();
  return type == c10::ScalarType::Double || type == c10::ScalarType::Long || type == c10::ScalarType::Bool;
}

at::Tensor wrap_scalar(const c10::Scalar& scalar) {
  c10::Scalar plain = scalar;
  if (scalar.isSymInt()) plain = hint_of(scalar.toSymInt());
  if (scalar.isSymFloat()) plain = hint_of(scalar.toSymFloat());
  if (scalar.isSymBool()) plain = hint_of(scalar.toSymBool());
  at::Tensor t = c10::scalar_to_tensor(plain);
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

// --- numbers

Number number_of(Tape& tape, const c10::Scalar& value) {
  Number n;
  if (value.isSymInt()) {
    n.kind = Number::Kind::dim;
    n.dim = tape.dim_of(value.toSymInt());
    if (const auto constant = tape.dims().as_constant(n.dim)) {
      n = Number();
      n.kind = Number::Kind::integer;
      n.integer = *constant;
    }
  } else if (value.isSymFloat()) {
    n.kind = Number::Kind::real;
    n.real = value.toSymFloat().guard_float(__FILE__, __LINE__);
  } else if (value.isSymBool()) {
    n.kind = Number::Kind::boolean;
    n.integer = value.toSymBool().guard_bool(__FILE__, __LINE__);
  } else if (value.isBoolean()) {
    n.kind = Number::Kind::boolean;
    n.integer = value.toBool();
  } else if (value.isIntegral(false)) {
    n.kind = Number::Kind::integer;
    n.integer = value.toLong();
  } else {
    n.kind = Number::Kind::real;
    n.real = value.toDouble();
  }
  return n;
}

Number number_of(Tape& tape, const c10::IValue& value) { return number_of(tape, value.toScalar()); }

c10::Scalar to_scalar(const Number& number, const std::function<int64_t(Dim)>& size) {
  switch (number.kind) {
    case Number::Kind::boolean: return c10::Scalar(number.integer != 0);
    case Number::Kind::integer: return c10::Scalar(number.integer);
    case Number::Kind::real: return c10::Scalar(number.real);
    case Number::Kind::dim: return c10::Scalar(size(number.dim));
    case Number::Kind::none: break;
  }
  throw InternalError("a number is missing");
}

// --- program -> trace

namespace {

class Collector {
 public:
  Collector(Tape& tape, std::span<const ValueId> values) : tape_(tape), values_(values) {}

  CallArg convert(const c10::IValue& v, const c10::Argument& formal) {
    CallArg arg;
    if (v.isTensor()) return tensor(v.toTensor());
    if (v.isNone()) return arg;
    if (v.isTensorList()) {
      arg.kind = CallArg::Kind::tensors;
      for (const at::Tensor& t : v.toTensorVector()) arg.operands.push_back(operand(t.defined()));
      return arg;
    }
    if (v.isOptionalTensorList()) {
      arg.kind = CallArg::Kind::tensors;
      for (const auto& t : v.toOptionalTensorVector()) arg.operands.push_back(operand(t.has_value() && t->defined()));
      return arg;
    }
    return plain(v, formal);
  }

  std::vector<ValueId> operands;

 private:
  int32_t operand(bool present) {
    const ValueId value = values_[next_++];
    if (!present || !value) return -1;
    operands.push_back(value);
    return static_cast<int32_t>(operands.size() - 1);
  }

  CallArg tensor(const at::Tensor& t) {
    CallArg arg;
    const int32_t number = operand(t.defined());
    if (number >= 0) {
      arg.kind = CallArg::Kind::tensor;
      arg.operands.push_back(number);
    } else if (is_wrapped_number(t)) {
      arg.kind = CallArg::Kind::number;
      arg.numbers.push_back(number_of(tape_, wrapped_scalar(t)));
    }
    return arg;
  }

  CallArg plain(const c10::IValue& v, const c10::Argument& formal) {
    CallArg arg;
    const c10::TypePtr& type = formal.real_type();
    const bool dtype = type->kind() == c10::TypeKind::ScalarTypeType ||
                       (type->kind() == c10::TypeKind::OptionalType &&
                        type->expectRef<c10::OptionalType>().getElementType()->kind() == c10::TypeKind::ScalarTypeType);
    if (dtype && v.isInt()) {
      arg.kind = CallArg::Kind::dtype;
      arg.code = static_cast<int32_t>(v.toInt());
    } else if (v.isBool()) {
      arg.kind = CallArg::Kind::boolean;
      arg.numbers.push_back(number_of(tape_, v));
    } else if (v.isInt() || v.isDouble() || v.isSymInt() || v.isSymFloat() || v.isSymBool()) {
      arg.kind = CallArg::Kind::number;
      arg.numbers.push_back(number_of(tape_, v));
    } else if (v.isString()) {
      arg.kind = CallArg::Kind::text;
      arg.text = v.toStringRef();
    } else if (v.isDevice()) {
      arg.kind = CallArg::Kind::device;
      arg.text = v.toDevice().str();
    } else if (v.isBoolList()) {
      arg.kind = CallArg::Kind::booleans;
      for (const bool b : v.toBoolList()) arg.numbers.push_back(number_of(tape_, c10::Scalar(b)));
    } else if (v.isIntList() || v.isSymIntList()) {
      arg.kind = CallArg::Kind::numbers;
      for (const c10::SymInt& s : v.toSymIntVector()) arg.numbers.push_back(number_of(tape_, c10::Scalar(s)));
    } else if (v.isDoubleList()) {
      arg.kind = CallArg::Kind::numbers;
      for (const double d : v.toDoubleVector()) arg.numbers.push_back(number_of(tape_, c10::Scalar(d)));
    } else {
      if (v.isStorage()) tape_.refuse(Reason::storage_access, "a tensor's memory is handed to an operator");
      arg.kind = CallArg::Kind::host;
      arg.code = static_cast<int32_t>(tape_.recording.host_objects.size());
      tape_.recording.host_objects.push_back(v);
    }
    return arg;
  }

  Tape& tape_;
  std::span<const ValueId> values_;
  size_t next_ = 0;
};

}  // namespace

CallArgs call_args(Tape& tape, const c10::FunctionSchema& schema, std::span<const c10::IValue> stack, std::span<const ValueId> values) {
  Collector collector(tape, values);
  CallArgs out;
  for (size_t i = 0; i < stack.size(); ++i) out.args.push_back(collector.convert(stack[i], schema.arguments()[i]));
  out.operands = std::move(collector.operands);
  return out;
}

// --- trace -> kernel

namespace {

const c10::Type& element_type(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::OptionalType) return element_type(type->expectRef<c10::OptionalType>().getElementType());
  if (type->kind() == c10::TypeKind::ListType) return element_type(type->expectRef<c10::ListType>().getElementType());
  return *type;
}

bool holds_optionals(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::OptionalType) return holds_optionals(type->expectRef<c10::OptionalType>().getElementType());
  return type->kind() == c10::TypeKind::ListType &&
         type->expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::OptionalType;
}

c10::IValue tensor_list(const CallArg& arg, const c10::Argument& formal, const ArgSource& source) {
  const auto at_position = [&](int32_t i) { return i < 0 ? at::Tensor() : source.operands[i]; };
  if (holds_optionals(formal.real_type())) {
    c10::List<std::optional<at::Tensor>> out;
    for (const int32_t i : arg.operands) out.push_back(i < 0 ? std::nullopt : std::optional<at::Tensor>(at_position(i)));
    return out;
  }
  c10::List<at::Tensor> out;
  for (const int32_t i : arg.operands) out.push_back(at_position(i));
  return out;
}

c10::IValue number_list(const CallArg& arg, const c10::Argument& formal, const ArgSource& source) {
  if (element_type(formal.real_type()).kind() == c10::TypeKind::FloatType) {
    c10::List<double> out;
    for (const Number& n : arg.numbers) out.push_back(to_scalar(n, source.size).toDouble());
    return out;
  }
  c10::List<int64_t> out;
  for (const Number& n : arg.numbers) out.push_back(to_scalar(n, source.size).toLong());
  return out;
}

}  // namespace

c10::IValue to_ivalue(const CallArg& arg, const c10::Argument& formal, const ArgSource& source) {
  switch (arg.kind) {
    case CallArg::Kind::none: {
      // An undefined tensor and an absent optional are stored alike; the formal type tells them apart.
      if (formal.real_type()->kind() == c10::TypeKind::TensorType) return at::Tensor();
      return c10::IValue();
    }
    case CallArg::Kind::tensor: return source.operands[arg.operands[0]];
    case CallArg::Kind::tensors: return tensor_list(arg, formal, source);
    case CallArg::Kind::number: {
      const c10::Scalar s = to_scalar(arg.numbers[0], source.size);
      const auto kind = element_type(formal.real_type()).kind();
      if (kind == c10::TypeKind::TensorType) return wrap_scalar(s);
      if (kind == c10::TypeKind::FloatType) return s.toDouble();
      return s;
    }
    case CallArg::Kind::numbers: return number_list(arg, formal, source);
    case CallArg::Kind::boolean: return arg.numbers[0].integer != 0;
    case CallArg::Kind::booleans: {
      c10::List<bool> out;
      for (const Number& n : arg.numbers) out.push_back(n.integer != 0);
      return out;
    }
    case CallArg::Kind::text: return arg.text;
    case CallArg::Kind::dtype: return static_cast<int64_t>(arg.code);
    case CallArg::Kind::device: return c10::Device(arg.text);
    case CallArg::Kind::host: return source.host_objects[arg.code];
  }
  return c10::IValue();
}

}  // namespace escapement
