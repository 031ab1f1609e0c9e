// OpCall: access to one call's arguments, by name.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "dims/real.h"
#include "support/error.h"
#include "torch/record/lower.h"
#include "torch/record/symnode.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

ValueId value_for(Tape& tape, const at::Tensor& t) {
  if (!t.defined() || is_wrapped_number(t)) return {};
  return tape.value_of(t);
}

at::Tensor inner_of(const at::Tensor& t) {
  const Wrapper* w = Wrapper::of(t);
  return w ? w->inner() : t;
}

}  // namespace

OpCall::OpCall(Tape& tape_, const OpPlan& plan_, std::span<const c10::IValue> args_)
    : tape(tape_), build(tape_.builder), plan(plan_), args(args_) {
  first_.reserve(args.size());
  for (const c10::IValue& v : args) {
    first_.push_back(static_cast<uint32_t>(values.size()));
    if (v.isTensor()) {
      values.push_back(value_for(tape, v.toTensor()));
    } else if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorVector()) values.push_back(value_for(tape, t));
    } else if (v.isOptionalTensorList()) {
      for (const auto& t : v.toOptionalTensorVector()) values.push_back(t.has_value() ? value_for(tape, *t) : ValueId());
    }
  }
}

int OpCall::find(std::string_view name) const {
  const auto& formals = plan.schema->arguments();
  for (size_t i = 0; i < formals.size(); ++i)
    if (formals[i].name() == name) return static_cast<int>(i);
  return -1;
}

bool OpCall::given(std::string_view name) const {
  const int i = find(name);
  return i >= 0 && !args[i].isNone() && !(args[i].isTensor() && !args[i].toTensor().defined());
}

const c10::IValue& OpCall::arg(std::string_view name) const {
  const int i = find(name);
  ESCAPEMENT_CHECK(i >= 0, std::string("no argument ") + std::string(name) + " in " + plan.target);
  return args[i];
}

ValueId OpCall::value_at(int position) const {
  return args[position].isTensor() ? values[first_[position]] : ValueId();
}

ValueId OpCall::value(std::string_view name) const {
  const int i = find(name);
  return i < 0 ? ValueId() : value_at(i);
}

std::vector<ValueId> OpCall::list(std::string_view name) const {
  const int i = find(name);
  if (i < 0) return {};
  const uint32_t end = static_cast<size_t>(i) + 1 < first_.size() ? first_[i + 1] : static_cast<uint32_t>(values.size());
  return {values.begin() + first_[i], values.begin() + end};
}

at::Tensor OpCall::real_at(int position) const {
  return args[position].isTensor() ? inner_of(args[position].toTensor()) : at::Tensor();
}

at::Tensor OpCall::real_in(std::string_view list, int position) const {
  return inner_of(arg(list).toTensorList().get(static_cast<size_t>(position)));
}

at::Tensor OpCall::real(std::string_view name) const {
  const int i = find(name);
  return i < 0 ? at::Tensor() : real_at(i);
}

int64_t OpCall::integer(std::string_view name, int64_t otherwise) const {
  if (!given(name)) return otherwise;
  const c10::IValue& v = arg(name);
  return v.isSymInt() ? v.toSymInt().guard_int(__FILE__, __LINE__) : v.isBool() ? v.toBool() : v.toInt();
}

bool OpCall::flag(std::string_view name, bool otherwise) const {
  if (!given(name)) return otherwise;
  const c10::IValue& v = arg(name);
  return v.isBool() ? v.toBool() : v.toScalar().toBool();
}

double OpCall::number(std::string_view name, double otherwise) const {
  if (!given(name)) return otherwise;
  return arg(name).toScalar().toDouble();
}

std::string OpCall::text(std::string_view name) const { return given(name) ? arg(name).toStringRef() : std::string(); }

std::vector<int64_t> OpCall::integers(std::string_view name) const {
  std::vector<int64_t> out;
  if (!given(name)) return out;
  const c10::IValue& v = arg(name);
  if (v.isInt() || v.isSymInt()) return {integer(name)};
  for (const c10::SymInt& s : v.toSymIntVector()) out.push_back(s.is_heap_allocated() ? s.guard_int(__FILE__, __LINE__) : s.as_int_unchecked());
  return out;
}

bool OpCall::varies(std::string_view name) const {
  if (!given(name)) return false;
  const c10::IValue& v = arg(name);
  if (v.isSymInt()) return v.toSymInt().is_heap_allocated();
  if (!v.isSymIntList()) return false;
  const std::vector<c10::SymInt> entries = v.toSymIntVector();
  return std::any_of(entries.begin(), entries.end(), [](const c10::SymInt& s) { return s.is_heap_allocated(); });
}

Dim OpCall::dim(std::string_view name) const {
  const c10::IValue& v = arg(name);
  return tape.dim_of(v.isSymInt() ? v.toSymInt() : c10::SymInt(v.toInt()));
}

std::vector<Dim> OpCall::dims(std::string_view name) const {
  std::vector<Dim> out;
  const c10::IValue& v = arg(name);
  if (v.isInt() || v.isSymInt()) return {dim(name)};
  for (const c10::SymInt& s : v.toSymIntVector()) out.push_back(tape.dim_of(s));
  return out;
}

std::vector<Dim> OpCall::lengths(std::string_view name) const {
  const std::vector<Dim> out = dims(name);
  for (const Dim length : out)
    if (tape.dims().hint(length) >= 0) tape.guard_relation(Guard::Kind::less_equal, tape.dims().constant(0), length, true, "a size is not negative");
  return out;
}

std::optional<int> OpCall::axis(std::string_view name, int rank) const {
  if (!given(name)) return {};
  return axis_in(integer(name), rank);
}

std::vector<int32_t> OpCall::axes(std::string_view name, int rank) const {
  std::vector<int32_t> out;
  for (const int64_t a : integers(name))
    if (const auto axis = axis_in(a, rank); axis && rank > 0) out.push_back(*axis);
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<c10::Scalar> OpCall::scalar_arg(std::string_view name) const {
  const int i = find(name);
  if (i < 0 || args[i].isNone()) return {};
  if (args[i].isTensor()) {
    const at::Tensor& t = args[i].toTensor();
    if (is_wrapped_number(t)) return wrapped_scalar(t);
    return {};
  }
  if (args[i].isSymBool()) return c10::Scalar(args[i].toSymBool());
  if (args[i].isScalar() || args[i].isSymInt() || args[i].isSymFloat()) return args[i].toScalar();
  return {};
}

ValueId OpCall::scalar(const c10::Scalar& s, DType dtype) {
  if (s.isSymFloat()) {
    const Node* node = Node::of(s.toSymFloat().toSymNodeImplUnowned());
    if (node && &node->tape() == &tape) return build.cast(materialise(tape, *node->float_expr()), dtype);
  }
  return tape.scalar(number_of(tape, s), dtype);
}

namespace {

constexpr const char* kMustFit = "a number that must fit the dtype";
constexpr const char* kExponent = "an exponent that float32 holds";
constexpr int64_t kFloatIntegers = int64_t{1} << 24;  // each integer up to here is a float32

// What ATen's checked conversion of an integer lets through. Of unsigned types it lets negative numbers wrap.
std::optional<std::pair<int64_t, int64_t>> integers_of(DType dtype) {
  switch (dtype) {
    case DType::u8: return {{-255, 255}};
    case DType::i8: return {{-128, 127}};
    case DType::i16: return {{-32768, 32767}};
    case DType::i32: return {{INT32_MIN, INT32_MAX}};
    case DType::f16: return {{-65504, 65504}};
    default: return {};
  }
}

}  // namespace

// Of a floating-point number: what lies between these, and infinities where the type has them. NaN fits if it has.
std::optional<std::pair<double, double>> reals_of(DType dtype) {
  if (const auto integers = integers_of(dtype)) {
    const bool wraps = dtype == DType::u8;
    return {{wraps ? 0 : static_cast<double>(integers->first), static_cast<double>(integers->second)}};
  }
  if (dtype == DType::i64) return {{-0x1p63, 0x1p63}};
  if (dtype == DType::f32) return {{-static_cast<double>(FLT_MAX), static_cast<double>(FLT_MAX)}};
  if (dtype == DType::bf16) return {{-0x1.fep127, 0x1.fep127}};
  return {};
}

namespace {

bool integer_fits(int64_t number, DType dtype) {
  const auto range = integers_of(dtype);
  return !range || (number >= range->first && number <= range->second);
}

bool real_fits(double number, DType dtype) {
  const auto range = reals_of(dtype);
  return !range || (number >= range->first && number <= range->second) || (is_float(dtype) && !std::isfinite(number));
}

}  // namespace

bool OpCall::lays_out_otherwise() const {
  if (!given("memory_format")) return false;
  const auto format = static_cast<c10::MemoryFormat>(integer("memory_format"));
  return format != c10::MemoryFormat::Contiguous && format != c10::MemoryFormat::Preserve;
}

bool OpCall::must_fit(const c10::Scalar& s, DType dtype) {
  if (s.isSymInt()) return integer_must_fit(s.toSymInt(), dtype);
  if (s.isSymFloat()) return real_must_fit(s, dtype);
  if (s.isComplex()) return false;
  if (s.isFloatingPoint()) return real_fits(s.toDouble(), dtype);
  return !s.isIntegral(false) || integer_fits(s.toLong(), dtype);
}

bool OpCall::integer_must_fit(const c10::SymInt& s, DType dtype) {
  const auto range = integers_of(dtype);
  if (!range || !s.is_heap_allocated()) return true;
  const Dim number = tape.dim_of(s);
  const auto seen = table().hint(number);
  if (!seen || !integer_fits(*seen, dtype)) return false;
  tape.guard_relation(Guard::Kind::less_equal, table().constant(range->first), number, true, kMustFit);
  tape.guard_relation(Guard::Kind::less_equal, number, table().constant(range->second), true, kMustFit);
  return true;
}

bool OpCall::real_must_fit(const c10::Scalar& s, DType dtype) {
  const auto range = reals_of(dtype);
  const Node* const node = Node::of(s.toSymFloat().toSymNodeImplUnowned());
  if (!range || !node) return true;
  if (!real_fits(node->float_hint(), dtype)) return false;
  if (const auto sizes = real_dim(tape, *node->float_expr())) {
    tape.guard_relation(Guard::Kind::equal, table().apply(SizeOp::real_less, *sizes, table().real(range->first)), table().constant(0), true, kMustFit);
    tape.guard_relation(Guard::Kind::equal, table().apply(SizeOp::real_less, table().real(range->second), *sizes), table().constant(0), true, kMustFit);
    return true;
  }
  const ValueId number = scalar(s, DType::f64);
  const auto apply = [&](Op op, std::vector<ValueId> operands) { return build.pointwise(op, operands); };
  const ValueId low = constant(range->first, DType::f64), high = constant(range->second, DType::f64);
  ValueId fits = apply(Op::logical_and, {apply(Op::ge, {number, low}), apply(Op::le, {number, high})});
  if (is_float(dtype)) fits = apply(Op::logical_or, {fits, apply(Op::logical_not, {apply(Op::isfinite, {number})})});
  tape.guard_truth(fits, kMustFit);
  return true;
}

bool OpCall::exponent_must_hold(const c10::Scalar& s) {
  if (s.isSymInt()) {
    const Dim number = tape.dim_of(s.toSymInt());
    const auto seen = table().hint(number);
    if (!seen || *seen < -kFloatIntegers || *seen > kFloatIntegers) return false;
    tape.guard_relation(Guard::Kind::less_equal, table().constant(-kFloatIntegers), number, true, kExponent);
    tape.guard_relation(Guard::Kind::less_equal, number, table().constant(kFloatIntegers), true, kExponent);
    return true;
  }
  const Node* const node = s.isSymFloat() ? Node::of(s.toSymFloat().toSymNodeImplUnowned()) : nullptr;
  const double exact = node ? node->float_hint() : s.toDouble();
  const float rounded = static_cast<float>(exact);
  if (rounded != exact && rounded == std::trunc(rounded)) return false;
  if (!node) return true;
  const ValueId wide = scalar(s, DType::f64), narrow = build.cast(build.cast(wide, DType::f32), DType::f64);
  const auto apply = [&](Op op, std::vector<ValueId> operands) { return build.pointwise(op, operands); };
  const ValueId holds = apply(Op::logical_or, {apply(Op::eq, {wide, narrow}), apply(Op::ne, {narrow, apply(Op::trunc, {narrow})})});
  tape.guard_truth(holds, kExponent);
  return true;
}

ValueId OpCall::constant(double value, DType dtype) { return scalar(c10::Scalar(value), dtype); }

}  // namespace escapement
