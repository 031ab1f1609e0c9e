// Pointwise ops. The result dtype is ATen's own; what a lowering decides is the dtype in which the op computes: torch's promotion
// of its arguments, where a number or a 0-d tensor does not widen a tensor of its category. ATen first converts its operands to that
// dtype, which rounds numbers, 0-d tensors of wider types and integers that meet a half-precision tensor; but a
// second factor, divisor or weight of a single element it takes as it was, in f32 (operands.def).
#include <ATen/native/TypeProperties.h>

#include <algorithm>
#include <limits>
#include <span>

#include "torch/record/lower_families.h"
#include "trace/op_rules.h"

namespace escapement {

namespace {

struct Operand {
  ValueId value;                       // a tensor
  std::optional<c10::Scalar> scalar;   // or a number
};

// Collects operands and torch's common dtype of them.
class Operands {
 public:
  explicit Operands(OpCall& call) : call_(call) {}

  bool add(std::string_view name) {
    if (auto s = call_.scalar_arg(name)) {
      const int i = call_.find(name);
      if (call_.args[i].isTensor()) {
        state_ = at::native::update_result_type_state(call_.args[i].toTensor(), state_);
      } else {
        state_ = at::native::update_result_type_state(plain(*s), state_);
      }
      list_.push_back({{}, std::move(s)});
      return true;
    }
    const ValueId v = call_.value(name);
    if (!v) return false;
    state_ = at::native::update_result_type_state(call_.real(name), state_);
    list_.push_back({v, {}});
    return true;
  }

  // `other` where one of them has a dtype without kernels of ours, whatever they have in common.
  DType common() const {
    const auto is_foreign = [&](const Operand& o) { return o.value && call_.type(o.value).dtype == DType::other; };
    return std::any_of(list_.begin(), list_.end(), is_foreign) ? DType::other : dtype_of(at::native::result_type(state_));
  }
  bool any_tensor() const {
    return std::any_of(list_.begin(), list_.end(), [](const Operand& o) { return static_cast<bool>(o.value); });
  }
  std::vector<Operand>& list() { return list_; }
  // All computed in the dtype of the result, for operators whose number is no operand of ours any more.
  void in_result_type() {
    const DType result = call_.result_type();
    for (Operand& o : list_)
      if (o.value && call_.type(o.value).dtype != result) o.value = call_.build.cast(o.value, result);
    state_ = at::native::update_result_type_state(call_.reals[0], {});
  }

 private:
  static c10::Scalar plain(const c10::Scalar& s) {
    if (s.isSymInt()) return int64_t{0};
    if (s.isSymFloat()) return 0.0;
    if (s.isSymBool()) return false;
    return s;
  }

  OpCall& call_;
  std::vector<Operand> list_;
  at::native::ResultTypeState state_;
};

bool supported(Op op, DType common, DType result) {
  if (common == DType::other || result == DType::other || !computes_on(op, common)) return false;
  return info(op).rule != TypeRule::promote_float || is_float(common) || is_float(result);
}

// The dtype that the row's rule gives; attrs.dtype says it only where ATen's differs.
DType rule_type(const OpCall& call, Op op, const std::vector<ValueId>& values) {
  std::vector<const TensorType*> types;
  for (const ValueId v : values) types.push_back(&call.type(v));
  const DType promoted = promoted_type(types, {});
  switch (info(op).rule) {
    case TypeRule::same: return call.type(values[0]).dtype;
    case TypeRule::promote: return promoted;
    case TypeRule::promote_float: return is_float(promoted) ? promoted : DType::f32;
    case TypeRule::boolean: return DType::b8;
    default: return DType::other;
  }
}

// An operand of some elements is rounded, one that happens to have a single element is not: decided in each call.
ValueId rounded_unless_one(OpCall& call, ValueId v, DType rounded, DType wide) {
  const ValueId as_rounded = call.build.cast(call.build.cast(v, rounded), wide), as_it_is = call.build.cast(v, wide);
  Number count;
  count.kind = Number::Kind::dim;
  count.dim = call.table().product(call.type(v).sizes);
  if (const auto known = call.table().as_constant(count.dim)) return *known == 1 ? as_it_is : as_rounded;
  const ValueId one = call.build.pointwise(Op::eq, std::vector<ValueId>{call.tape.scalar(count, DType::i64), call.tape.scalar(integer_number(1), DType::i64)});
  return call.build.pointwise(Op::where, std::vector<ValueId>{one, as_it_is, as_rounded});
}

// ATen converts such an operand before it looks at strides, and the copy has one along each axis.
bool shows_that_it_is_converted(const DimTable& dims, const TensorType& type) {
  for (int axis = 0; axis < type.rank(); ++axis)
    if (dims.as_constant(type.strides[axis]) == std::optional<int64_t>(0) && dims.as_constant(type.sizes[axis]) != std::optional<int64_t>(1)) return true;
  return false;
}

// One operand in the dtype the op computes in. `common`: torch's promotion of all; half types compute in f32.
ValueId in_common(OpCall& call, const Operand& o, DType common, DType compute, bool as_it_is) {
  const bool rounds = is_half(common) && compute == compute_type(common);
  if (o.scalar) return call.scalar(*o.scalar, is_float(common) && !as_it_is ? common : compute);
  const TensorType& type = call.type(o.value);
  const DType own = type.dtype;
  if (rounds && own != common && size_of(own) > 1) {   // bytes are exact in every type
    if (!as_it_is) return call.build.cast(o.value, common);
    return type.rank() == 0 ? call.build.cast(o.value, compute) : rounded_unless_one(call, o.value, common, compute);
  }
  const bool fits = compute_type(promote(own, common)) == compute_type(common) && (compute == compute_type(common) || own == compute);
  return fits ? o.value : call.build.cast(o.value, compute);
}

std::vector<Dim> broadcast_sizes(OpCall& call, const std::vector<ValueId>& values) {
  std::vector<Dim> sizes;
  for (const ValueId v : values) sizes = call.build.broadcast(sizes, call.type(v).sizes, call.plan.target.c_str());
  return sizes;
}

// Numbers become 0-d constants of the dtype the op computes in; a tensor that would promote the computation beyond it is cast.
std::vector<ValueId> in_common(OpCall& call, Op op, const std::vector<Operand>& operands, DType common) {
  DType compute = compute_type(common);
  if (info(op).rule == TypeRule::promote_float && !is_float(common)) compute = compute_type(call.result_type());
  const DType converted = info(op).rule == TypeRule::promote_float && !is_float(common) ? call.result_type() : common;
  std::vector<ValueId> values;
  for (Operand o : operands) {
    const bool as_it_is = has_trait(op, values.size(), OperandTrait::one_as_it_is);
    const bool shows = o.value && call.type(o.value).dtype != converted && shows_that_it_is_converted(call.table(), call.type(o.value));
    if (shows && !(as_it_is && is_half(common))) o.value = call.build.cast(o.value, converted);
    values.push_back(in_common(call, o, common, compute, as_it_is));
  }
  // All operands narrower than the common dtype (an i32 tensor with a float number): the number's constant widens them.
  return values;
}

}  // namespace

// (The order of an input's strides is guarded, so there the layout seen holds.)
bool layout_is_open(OpCall& call, const std::vector<ValueId>& values) {
  const DimTable& dims = call.table();
  const auto is_born = [&](Dim stride) {
    const auto symbol = dims.as_symbol(stride);
    return symbol && dims.info(*symbol).kind == SymbolKind::born;
  };
  const auto open = [&](ValueId v) {
    const std::vector<Dim>& strides = call.type(v).strides;
    return strides.size() > 1 && std::any_of(strides.begin(), strides.end(), is_born);
  };
  if (std::none_of(values.begin(), values.end(), open)) return false;
  return call.build.result_strides(values, broadcast_sizes(call, values)).empty();
}

namespace {

// What is computed is of the operands' type, and only then converted to that of `out`: rounded twice, wrapped first.
bool converts_for_out(const OpCall& call, Op op, DType common) {
  if (call.plan.form != OpPlan::Form::out) return false;
  const TypeRule rule = info(op).rule;
  const bool made_float = rule == TypeRule::promote_float && !is_float(common);
  const DType computed = made_float ? dtype_of(c10::get_default_dtype_as_scalartype()) : rule == TypeRule::boolean ? DType::b8 : common;
  return computed != call.result_type();
}

// Which operand ATen asks first for the order of the result's axes.
enum class LaidBy : uint8_t { first, last };

// `numbers`: the row's, where they are operands.
bool emit(OpCall& call, Op op, Operands& operands, Attrs attrs = {}, LaidBy laid_by = LaidBy::first, std::span<const c10::Scalar> numbers = {}) {
  const DType common = operands.common(), result = call.result_type();
  if (!supported(op, common, result) || converts_for_out(call, op, common)) return call.decline(Reason::call_dtype);
  if (!operands.any_tensor()) return call.decline(Reason::call_attribute);
  std::vector<ValueId> values = in_common(call, op, operands.list(), common);
  std::vector<ValueId> in_turn = values;
  if (laid_by == LaidBy::last) std::ranges::reverse(in_turn);
  if (layout_is_open(call, in_turn)) return call.decline(Reason::call_layout);
  std::vector<Dim> strides;   // none: by the rule of the operator, which asks the first
  if (laid_by == LaidBy::last) {
    const std::vector<Dim> sizes = broadcast_sizes(call, values);
    strides = call.build.result_strides(in_turn, sizes);
    if (strides.empty() && !call.build.result_strides(values, sizes).empty()) return call.decline(Reason::call_layout);
  }
  if (rule_type(call, op, values) != result) attrs.dtype = result;
  for (const c10::Scalar& number : numbers) values.push_back(call.scalar(number, compute_type(common)));
  return call.done(call.build.pointwise(op, values, std::move(attrs), std::move(strides)));
}

// The alpha of add and sub as attrs.value2, which multiplies with one rounding, as ATen does. False if it is no plain number, or the
// type one of the two for which ATen rounds more often.
bool take_alpha(const OpCall& call, Attrs& attrs) {
  if (!call.given("alpha")) return true;
  const c10::Scalar alpha = call.arg("alpha").toScalar();
  if (alpha.isSymbolic() || alpha.isComplex()) return false;
  if (alpha.equal(1)) return true;
  // ATen subtracts by adding the number turned over, and this one stays negative.
  if (call.plan.base != "add" && alpha.isIntegral(false) && alpha.toLong() == std::numeric_limits<int64_t>::min()) return false;
  const DType result = call.result_type();
  if (is_half(result) || result == DType::b8) return false;
  attrs.value2 = alpha.isFloatingPoint() ? real_number(alpha.toDouble()) : integer_number(alpha.toLong());
  return true;
}

// The row's numbers as the call has them. Of half types ATen rounds some numbers, and some it does not: there each is a constant.
class RowNumbers {
 public:
  RowNumbers(OpCall& call, Op op) : call_(call), rows_(numbers_of(op)) {
    const DType type = call.result_type();
    const bool wide = type == DType::f32 || type == DType::f64;
    vary_ = wide && std::ranges::any_of(rows_, [&](const RowNumber& row) { return row.varies == RowNumber::Varies::yes && given(row).isSymbolic(); });
  }

  // As operands where one of them may be another at the next call, else as attributes. ATen refuses what the type does not hold.
  bool take(Attrs& attrs, std::vector<c10::Scalar>& operands) const {
    for (const RowNumber& row : rows_) {
      const c10::Scalar number = vary_ ? given(row) : c10::Scalar(call_.number(row.name, row.otherwise));
      if (!call_.must_fit(number, call_.result_type())) return false;
      if (vary_) operands.push_back(number);
      else (row.place == RowNumber::Place::value ? attrs.value : attrs.value2) = real_number(number.toDouble());
    }
    return true;
  }

 private:
  c10::Scalar given(const RowNumber& row) const { return call_.given(row.name) ? call_.arg(row.name).toScalar() : c10::Scalar(row.otherwise); }

  OpCall& call_;
  std::span<const RowNumber> rows_;
  bool vary_ = false;
};

// The row's operands are the first arguments of the schema.
bool lower_with(OpCall& call, Op op, Attrs attrs, LaidBy laid_by = LaidBy::first) {
  Operands operands(call);
  std::vector<c10::Scalar> numbers;
  const auto& formals = call.plan.schema->arguments();
  int wanted = info(op).arity;
  for (size_t i = 0; i < formals.size() && wanted > 0; ++i, --wanted)
    if (!operands.add(formals[i].name())) return call.decline(Reason::call_attribute);
  if (!RowNumbers(call, op).take(attrs, numbers)) return call.decline(Reason::call_attribute);
  return wanted == 0 && emit(call, op, operands, std::move(attrs), laid_by, numbers);
}

// A factor that may be another number at the next call is an operand. ATen reads it in the type of the result.
std::optional<c10::Scalar> varying(const OpCall& call, std::string_view name) {
  if (!call.given(name)) return {};
  const c10::Scalar factor = call.arg(name).toScalar();
  const bool wide = call.result_type() == DType::f32 || call.result_type() == DType::f64;
  return factor.isSymFloat() && wide ? std::optional(factor) : std::nullopt;
}

Attrs with_factor(double factor) {
  Attrs attrs;
  attrs.value = real_number(factor);
  return attrs;
}

// added + factor * scaled, or minus it, with one rounding: addcmul's.
bool lower_scaled(OpCall& call, std::string_view added, std::string_view scaled, const c10::Scalar& alpha, bool minus) {
  const DType type = call.result_type();
  Operands operands(call);
  if (!operands.add(added) || !operands.add(scaled) || !operands.any_tensor()) return call.decline(Reason::call_attribute);
  const DType common = operands.common();
  if (common != type || converts_for_out(call, Op::add, common)) return call.decline(Reason::call_dtype);
  if (!call.must_fit(alpha, type)) return call.decline(Reason::call_attribute);
  std::vector<ValueId> values = in_common(call, Op::add, operands.list(), common);
  const ValueId factor = call.scalar(alpha, type);
  values.push_back(minus ? call.build.pointwise(Op::neg, std::vector<ValueId>{factor}) : factor);
  if (layout_is_open(call, values)) return call.decline(Reason::call_layout);
  return call.done(call.build.pointwise(Op::addcmul, values, with_factor(1)));
}

}  // namespace

Number real_number(double value) {
  Number n;
  n.kind = Number::Kind::real;
  n.real = value;
  return n;
}

Number integer_number(int64_t value) {
  Number n;
  n.kind = Number::Kind::integer;
  n.integer = value;
  return n;
}

bool lower_named(OpCall& call, Op op, std::initializer_list<std::string_view> names, Attrs attrs) {
  Operands operands(call);
  for (const std::string_view name : names)
    if (!operands.add(name)) return call.decline(Reason::call_attribute);
  return emit(call, op, operands, std::move(attrs));
}

DType common_type(OpCall& call, std::initializer_list<std::string_view> names) {
  Operands operands(call);
  for (const std::string_view name : names)
    if (!operands.add(name)) return DType::other;
  return operands.common();
}

bool lower_pointwise(OpCall& call, Op op) {
  return lower_with(call, op, {});
}

bool lower_add(OpCall& call) {
  Attrs attrs;
  if (const auto alpha = varying(call, "alpha")) return lower_scaled(call, "self", "other", *alpha, call.plan.base != "add");
  if (!take_alpha(call, attrs)) return call.decline(Reason::call_attribute);
  return lower_with(call, call.plan.base == "add" ? Op::add : Op::sub, std::move(attrs));
}

bool lower_rsub(OpCall& call) {
  if (const auto alpha = varying(call, "alpha")) return lower_scaled(call, "other", "self", *alpha, true);
  Operands operands(call);
  Attrs attrs;
  const bool ok = take_alpha(call, attrs) && operands.add("other") && operands.add("self");
  return ok ? emit(call, Op::sub, operands, std::move(attrs)) : call.decline(Reason::call_attribute);
}

namespace {

// Of float16 ATen takes pow() itself, whose roots of -inf and of -0 are other ones.
bool takes_roots(DType type) { return type != DType::f16; }

// An exponent that differs between calls goes the way that eager takes for what it turns out to be.
bool lower_pow_varying(OpCall& call, const c10::Scalar& exponent) {
  const DType result = call.result_type(), wide = compute_type(result);
  if (result != wide && !call.must_fit(exponent, result)) return call.decline(Reason::call_attribute);
  const ValueId own = call.value("self"), x = call.build.cast(own, wide), p = call.scalar(exponent, result);
  const auto apply = [&](Op op, std::vector<ValueId> operands) { return call.build.pointwise(op, operands); };
  const ValueId square = apply(Op::mul, {x, x});
  constexpr size_t kRoots = 2;   // the first ways
  const std::pair<double, ValueId> ways[] = {{0.5, apply(Op::sqrt, {x})}, {-0.5, apply(Op::rsqrt, {x})}, {2, square},
                                             {3, apply(Op::mul, {square, x})}, {-1, apply(Op::reciprocal, {x})},
                                             {-2, apply(Op::reciprocal, {square})}};
  ValueId found = apply(Op::pow, {x, p});
  for (const auto& [value, way] : std::span(ways).subspan(takes_roots(result) ? 0 : kRoots))
    found = apply(Op::where, {apply(Op::eq, {p, call.constant(value, result)}), way, found});
  if (layout_is_open(call, {own})) return call.decline(Reason::call_layout);
  Attrs attrs;
  attrs.dtype = result;
  return call.done(call.build.pointwise(Op::cast, std::vector<ValueId>{found}, std::move(attrs)));
}

}  // namespace

// Where ATen makes a contiguous result, whatever the operand, which a pointwise op of ours does of a contiguous operand only.
namespace {

bool is_laid_out_like(const OpCall& call, std::string_view operand) {
  const ValueId v = call.value(operand);
  return v && call.build.is_contiguous(call.type(v));
}

}  // namespace

// ATen computes the common exponents by other means than pow(), and so do we: the same bits.
bool lower_pow(OpCall& call) {
  const auto exponent = call.scalar_arg("exponent");
  Operands base(call);
  if (!is_float(call.result_type())) return call.decline(Reason::call_dtype);
  if (call.plan.form == OpPlan::Form::out && common_type(call, {"self", "exponent"}) != call.result_type()) return call.decline(Reason::call_dtype);
  const bool known = exponent && !exponent->isSymbolic();
  if (exponent && call.result_type() == DType::f32 && !call.exponent_must_hold(*exponent)) return call.decline(Reason::call_attribute);
  if (exponent && !known && call.value("self")) return lower_pow_varying(call, *exponent);
  if (known && call.value("self") && base.add("self")) {
    base.in_result_type();
    const double e = exponent->toDouble();
    if (e == 0.5 && takes_roots(call.result_type())) return emit(call, Op::sqrt, base);
    if (e == -0.5 && takes_roots(call.result_type())) return emit(call, Op::rsqrt, base);
    if (e == -1) return emit(call, Op::reciprocal, base);
    if (e == 2) return emit(call, Op::square, base);
    if (e == 3) {
      const ValueId x = base.list()[0].value;
      const ValueId square = call.build.pointwise(Op::mul, std::vector<ValueId>{x, x});
      return call.done(call.build.pointwise(Op::mul, std::vector<ValueId>{square, x}));
    }
  }
  if (call.scalar_arg("self") && !is_laid_out_like(call, "exponent")) return call.decline(Reason::call_layout);
  return lower_pointwise(call, Op::pow);
}

bool lower_log_sigmoid(OpCall& call) {
  return is_laid_out_like(call, "self") ? lower_pointwise(call, Op::log_sigmoid) : call.decline(Reason::call_layout);
}

bool lower_clamp_side(OpCall& call) {
  const bool low = call.plan.base == "clamp_min";
  Operands operands(call);
  if (!operands.add("self") || !operands.add(low ? "min" : "max")) return call.decline(Reason::call_attribute);
  const auto s = operands.list()[1].scalar;
  if (s && !call.must_fit(*s, operands.common())) return call.decline(Reason::call_attribute);
  return emit(call, low ? Op::clamp_min : Op::clamp_max, operands);
}

bool lower_clamp(OpCall& call) {
  Operands operands(call);
  if (!operands.add("self")) return false;
  const bool low = call.given("min"), high = call.given("max");
  if ((low && !operands.add("min")) || (high && !operands.add("max"))) return call.decline(Reason::call_attribute);
  const DType common = operands.common();
  const bool here = supported(Op::clamp_min, common, call.result_type()) && !converts_for_out(call, Op::clamp_min, common);
  if (!here) return call.decline(Reason::call_dtype);
  std::vector<ValueId> values = in_common(call, Op::clamp_min, operands.list(), common);
  ValueId v = values[0];
  const auto side = [&](Op op, ValueId bound, bool last) {
    Attrs attrs;
    const std::vector<ValueId> pair{v, bound};
    if (last && rule_type(call, op, pair) != call.result_type()) attrs.dtype = call.result_type();
    v = call.build.pointwise(op, pair, std::move(attrs));
  };
  for (const Operand& o : operands.list())
    if (o.scalar && !call.must_fit(*o.scalar, common)) return call.decline(Reason::call_attribute);
  if (low) side(Op::clamp_min, values[1], !high);
  if (high) side(Op::clamp_max, values.back(), true);
  return call.done(v);
}

bool lower_where(OpCall& call) {
  if (!call.given("self") || call.type(call.value("condition")).dtype != DType::b8) return call.decline(Reason::call_attribute);
  Operands sides(call);
  if (!sides.add("self") || !sides.add("other")) return call.decline(Reason::call_attribute);
  const DType common = sides.common(), result = call.result_type();
  if (common == DType::other || result != common) return call.decline(Reason::call_dtype);
  // A selected value is not computed with: the sides are cast to the result's dtype itself.
  std::vector<ValueId> values{call.value("condition")};
  for (Operand& o : sides.list()) {
    if (o.scalar && !is_half(result) && !call.must_fit(*o.scalar, result)) return call.decline(Reason::call_attribute);
    values.push_back(o.scalar ? call.scalar(*o.scalar, result) : call.build.cast(o.value, result));
  }
  return call.done(call.build.pointwise(Op::where, values));
}

bool lower_masked_fill(OpCall& call) {
  const ValueId x = call.value("self"), mask = call.value("mask");
  const DType dtype = call.result_type();
  if (!x || !mask || dtype == DType::other || call.type(mask).dtype != DType::b8) return call.decline(Reason::call_dtype);
  ValueId value = call.value("value");
  if (const auto s = call.scalar_arg("value")) {
    if (!call.must_fit(*s, dtype)) return call.decline(Reason::call_attribute);
    value = call.scalar(*s, dtype);
  } else if (call.type(value).dtype == DType::other) {
    return call.decline(Reason::call_dtype);
  } else {
    value = call.build.cast(value, dtype);
  }
  return call.done(call.build.composite(Op::masked_fill, std::vector<ValueId>{x, mask, value}, {}));
}

bool lower_gelu(OpCall& call) { return lower_pointwise(call, call.text("approximate") == "tanh" ? Op::gelu_tanh : Op::gelu); }

// oneDNN, where ATen uses it, refuses operands of two dtypes or sizes; which calls get there is ATen's affair.
bool lower_gelu_backward(OpCall& call) {
  const ValueId gradient = call.value("grad_output"), self = call.value("self");
  if (!gradient || !self || call.type(gradient).dtype != call.type(self).dtype) return call.decline(Reason::call_dtype);
  if (!call.real("grad_output").sizes().equals(call.real("self").sizes())) return call.decline(Reason::call_attribute);
  for (size_t d = 0; d < call.type(self).sizes.size(); ++d)
    call.tape.guard_relation(Guard::Kind::equal, call.type(gradient).sizes[d], call.type(self).sizes[d], true, "gelu_backward");
  Operands operands(call);
  if (!operands.add("grad_output") || !operands.add("self")) return false;
  return emit(call, call.text("approximate") == "tanh" ? Op::gelu_tanh_backward : Op::gelu_backward, operands);
}

bool lower_threshold_backward(OpCall& call) { return lower_with(call, Op::threshold_backward, {}, LaidBy::last); }

// The row has no number that multiplies what stands in the exponent.
bool lower_elu(OpCall& call) {
  const c10::Scalar inner = call.given("input_scale") ? call.arg("input_scale").toScalar() : c10::Scalar(1);
  return !inner.isSymbolic() && inner.toDouble() == 1 ? lower_pointwise(call, Op::elu) : compose_elu(call);
}

bool lower_round(OpCall& call) {
  return lower_pointwise(call, call.integer("decimals") == 0 ? Op::round : Op::round_decimals);
}

bool lower_addc(OpCall& call) {
  if (!is_float(call.result_type())) return call.decline(Reason::call_dtype);
  return lower_pointwise(call, call.plan.base == "addcmul" ? Op::addcmul : Op::addcdiv);
}

// What Dynamo makes of an optimizer's addcmul_ and addcdiv_: a * b + c.
bool lower_fma(OpCall& call) {
  Operands operands(call);
  if (!operands.add("c") || !operands.add("a") || !operands.add("b")) return call.decline(Reason::call_attribute);
  if (!is_float(call.result_type())) return call.decline(Reason::call_dtype);
  return emit(call, Op::addcmul, operands, with_factor(1));
}

bool lower_lerp(OpCall& call) {
  Operands operands(call);
  if (!operands.add("self") || !operands.add("end") || !operands.add("weight")) return call.decline(Reason::call_attribute);
  const auto s = operands.list()[2].scalar;
  if (s && !call.must_fit(*s, compute_type(operands.common()))) return call.decline(Reason::call_attribute);
  return emit(call, Op::lerp, operands);
}

}  // namespace escapement
