// See arguments.h.
#include "torch/exported/arguments.h"

#include <algorithm>

#include "support/error.h"
#include "torch/record/host_args.h"

namespace escapement {

namespace {

using Kind = ExportedValue::Kind;
using Values = std::span<const c10::IValue>;

bool is_constant(const ExportedValue& value) {
  return value.kind != Kind::slot && std::all_of(value.items.begin(), value.items.end(), is_constant);
}

[[noreturn]] void misfit(const c10::Type& type) { throw UserError("expected " + type.str()); }

int64_t layout_from_schema(int64_t number) {
  constexpr int64_t kStrided = 7;
  if (number != kStrided) throw UserError("only the strided layout is supported");
  return static_cast<int64_t>(c10::Layout::Strided);
}

int64_t memory_format_from_schema(int64_t number) {
  using Format = c10::MemoryFormat;
  static constexpr Format kFormats[] = {Format::Contiguous, Format::ChannelsLast, Format::ChannelsLast3d, Format::Preserve};
  if (number < 1 || number > 4) throw UserError("memory format " + std::to_string(number) + " is unknown");
  return static_cast<int64_t>(kFormats[number - 1]);
}

c10::IValue device_of(const ExportedValue& value) {
  if (value.text != "cpu" && value.text != "meta")
    throw UserError("the device " + value.text + " is not supported: export the program on the CPU");
  return c10::Device(value.text);
}

// A number of the program, as it is.
c10::IValue number(const ExportedValue& value, Values values, const c10::Type& type) {
  switch (value.kind) {
    case Kind::integer: return value.integer;
    case Kind::real: return value.real;
    case Kind::boolean: return value.integer != 0;
    case Kind::slot:
      if (!values[value.slot].isTensor() && !values[value.slot].isNone()) return values[value.slot];
      [[fallthrough]];
    default: misfit(type);
  }
}

c10::Scalar read(const c10::IValue& v) {
  if (v.isSymInt()) return v.toSymInt().guard_int(__FILE__, __LINE__);
  if (v.isSymFloat()) return v.toSymFloat().guard_float(__FILE__, __LINE__);
  if (v.isSymBool()) return v.toSymBool().guard_bool(__FILE__, __LINE__);
  return v.toScalar();
}

c10::IValue tensor(const ExportedValue& value, Values values, const c10::Type& type) {
  if (value.kind == Kind::none) return at::Tensor();
  if (value.kind == Kind::slot && (values[value.slot].isTensor() || values[value.slot].isNone()))
    return values[value.slot].isNone() ? at::Tensor() : values[value.slot].toTensor();
  return wrap_scalar(read(number(value, values, type)));
}

c10::IValue integer(const ExportedValue& value, Values values, const c10::Type& type) {
  const c10::IValue v = number(value, values, type);
  if (v.isDouble() || v.isSymFloat()) misfit(type);
  if (v.isBool()) return static_cast<int64_t>(v.toBool());
  return v.isInt() ? v : c10::IValue(read(v).toLong());
}

// A symbol where a SymInt is wanted; plain integers otherwise.
c10::IValue symbolic_integer(const ExportedValue& value, Values values, const c10::Type& type) {
  c10::IValue v = number(value, values, type);
  return v.isSymInt() ? v : integer(value, values, type);
}

c10::IValue real(const ExportedValue& value, Values values, const c10::Type& type) {
  return read(number(value, values, type)).toDouble();
}

c10::IValue truth(const ExportedValue& value, Values values, const c10::Type& type) {
  const c10::IValue v = number(value, values, type);
  if (!v.isBool() && !v.isSymBool()) misfit(type);
  return read(v).toBool();
}

c10::IValue tensor_list(const ExportedValue& value, Values values, const c10::Type& type) {
  c10::List<at::Tensor> out;
  for (const ExportedValue& item : value.items) out.push_back(tensor(item, values, type).toTensor());
  return out;
}

c10::IValue optional_tensor_list(const ExportedValue& value, Values values, const c10::Type& type) {
  c10::List<std::optional<at::Tensor>> out;
  for (const ExportedValue& item : value.items) {
    const at::Tensor t = tensor(item, values, type).toTensor();
    out.push_back(t.defined() ? std::optional(t) : std::nullopt);
  }
  return out;
}

c10::IValue integer_list(const ExportedValue& value, Values values, const c10::Type& type) {
  c10::List<int64_t> out;
  for (const ExportedValue& item : value.items) out.push_back(integer(item, values, type).toInt());
  return out;
}

c10::IValue symbolic_integer_list(const ExportedValue& value, Values values, const c10::Type& type) {
  std::vector<c10::SymInt> symbols;
  bool plain = true;
  for (const ExportedValue& item : value.items) {
    symbols.push_back(symbolic_integer(item, values, type).toSymInt());
    plain = plain && !symbols.back().is_heap_allocated();
  }
  return plain ? integer_list(value, values, type) : c10::IValue(std::move(symbols));
}

template <class T, class Convert>
c10::IValue list_of(const ExportedValue& value, Convert convert) {
  c10::List<T> out;
  for (const ExportedValue& item : value.items) out.push_back(convert(item));
  return out;
}

c10::IValue list(const ExportedValue& value, Values values, const c10::Type& type) {
  if (value.kind != Kind::list) misfit(type);
  const c10::TypePtr& element = type.expectRef<c10::ListType>().getElementType();
  switch (element->kind()) {
    case c10::TypeKind::TensorType: return tensor_list(value, values, *element);
    case c10::TypeKind::OptionalType: {
      if (element->expectRef<c10::OptionalType>().getElementType()->kind() != c10::TypeKind::TensorType) break;
      return optional_tensor_list(value, values, *element);
    }
    case c10::TypeKind::IntType: return integer_list(value, values, *element);
    case c10::TypeKind::SymIntType: return symbolic_integer_list(value, values, *element);
    case c10::TypeKind::FloatType: return list_of<double>(value,
        [&](const ExportedValue& v) { return real(v, values, *element).toDouble(); });
    case c10::TypeKind::BoolType: return list_of<bool>(value,
        [&](const ExportedValue& v) { return truth(v, values, *element).toBool(); });
    case c10::TypeKind::StringType: break;
    default: break;
  }
  throw UserError("arguments of the type " + type.str() + " are not supported");
}

// Enumerations travel as integers; `kind` is what the archive must have said.
int64_t enumeration(const ExportedValue& value, Kind kind, const c10::Type& type) {
  if (value.kind != kind) misfit(type);
  if (kind == Kind::dtype) return static_cast<int64_t>(dtype_from_schema(value.integer));
  return kind == Kind::layout ? layout_from_schema(value.integer) : memory_format_from_schema(value.integer);
}

c10::IValue converted(const ExportedValue& value, Values values, const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      if (value.kind == Kind::none) return {};
      return converted(value, values, *type.expectRef<c10::OptionalType>().getElementType());
    case c10::TypeKind::TensorType: return tensor(value, values, type);
    case c10::TypeKind::NumberType: return number(value, values, type);
    case c10::TypeKind::IntType: return integer(value, values, type);
    case c10::TypeKind::SymIntType: return symbolic_integer(value, values, type);
    case c10::TypeKind::FloatType: return real(value, values, type);
    case c10::TypeKind::BoolType: return truth(value, values, type);
    case c10::TypeKind::StringType: return value.kind == Kind::text ? c10::IValue(value.text)
        : (misfit(type), c10::IValue());
    case c10::TypeKind::DeviceObjType: return value.kind == Kind::device ? device_of(value) : (misfit(type), c10::IValue());
    case c10::TypeKind::ScalarTypeType: return enumeration(value, Kind::dtype, type);
    case c10::TypeKind::LayoutType: return enumeration(value, Kind::layout, type);
    case c10::TypeKind::MemoryFormatType: return enumeration(value, Kind::memory_format, type);
    case c10::TypeKind::ListType: return list(value, values, type);
    default: throw UserError("arguments of the type " + type.str() + " are not supported");
  }
}

const c10::Type& without_optional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType
      ? without_optional(*type.expectRef<c10::OptionalType>().getElementType()) : type;
}

// One number for all: `stride=2` where the operator takes int[2].
ExportedValue as_list(ExportedValue value, const c10::Argument& formal) {
  const bool wants_list = without_optional(*formal.real_type()).kind() == c10::TypeKind::ListType;
  if (!wants_list || value.kind == Kind::list || value.kind == Kind::none || !formal.N() || *formal.N() < 1) return value;
  ExportedValue list;
  list.kind = Kind::list;
  list.items.assign(static_cast<size_t>(*formal.N()), value);
  return list;
}

}  // namespace

ArgumentPlan::ArgumentPlan(ExportedValue value, const c10::Argument& formal)
    : constant_(is_constant(value)), value_(as_list(std::move(value), formal)), type_(formal.real_type()) {
  if (constant_) result_ = convert({});
}

ArgumentPlan ArgumentPlan::of_default(const c10::Argument& formal) {
  ArgumentPlan plan;
  const bool absent = formal.default_value()->isNone() && formal.real_type()->kind() == c10::TypeKind::TensorType;
  plan.result_ = absent ? c10::IValue(at::Tensor()) : *formal.default_value();
  return plan;
}

c10::IValue ArgumentPlan::convert(std::span<const c10::IValue> values) const { return converted(value_, values, *type_); }

bool is_tensor_argument(const c10::Argument& formal) { return formal.real_type()->kind() == c10::TypeKind::TensorType; }

c10::ScalarType dtype_from_schema(int64_t number) {
  using Type = c10::ScalarType;
  static constexpr Type kTypes[] = {Type::Byte, Type::Char, Type::Short, Type::Int, Type::Long, Type::Half, Type::Float,
      Type::Double,
                                    Type::ComplexHalf, Type::ComplexFloat, Type::ComplexDouble, Type::Bool, Type::BFloat16};
  static constexpr Type kLater[] = {Type::UInt16, Type::Float8_e4m3fn, Type::Float8_e5m2, Type::Float8_e4m3fnuz,
      Type::Float8_e5m2fnuz,
                                    Type::Float8_e8m0fnu, Type::UInt32, Type::UInt64};
  if (number >= 1 && number <= 13) return kTypes[number - 1];
  if (number >= 28 && number <= 35) return kLater[number - 28];
  throw UserError("dtype " + std::to_string(number) + " is unknown");
}

}  // namespace escapement
