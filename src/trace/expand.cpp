// The formulas of the composites; see expand.h. Copying the rest of a trace is in expand_trace.cpp.
#include "trace/expand.h"

#include <cmath>
#include <numeric>

#include "support/error.h"

namespace escapement {

namespace {

Number real(double value) {
  Number number;
  number.kind = Number::Kind::real;
  number.real = value;
  return number;
}

Number integer(int64_t value) {
  Number number;
  number.kind = Number::Kind::integer;
  number.integer = value;
  return number;
}

Number symbolic(Dim dim) {
  Number number;
  number.kind = Number::Kind::dim;
  number.dim = dim;
  return number;
}

using Axes = std::vector<int32_t>;

// One expansion. `x` is the first operand in the compute type.
class Expansion {
 public:
  Expansion(Builder& builder, Op op, std::span<const ValueId> operands, const Attrs& attrs, const TensorType& type)
      : b_(builder), op_(op), operands_(operands), attrs_(attrs), type_(type), compute_(compute_type(type.dtype)) {}

  ValueId run();

 private:
  // --- pieces
  const TensorType& type(ValueId v) { return b_.trace().type(v); }
  DimTable& dims() { return b_.dims(); }
  ValueId operand(size_t i) { return b_.cast(operands_[i], compute_); }
  ValueId apply(Op op, std::initializer_list<ValueId> values) { return b_.pointwise(op, {values.begin(), values.size()}); }
  ValueId apply(Op op, ValueId a, Number second) {
    Attrs attrs;
    attrs.value = second;
    return b_.pointwise(op, std::span(&a, 1), attrs);
  }
  ValueId add(ValueId a, ValueId b) { return apply(Op::add, {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return apply(Op::sub, {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return apply(Op::mul, {a, b}); }
  ValueId square(ValueId a) { return apply(Op::square, {a}); }
  ValueId reduce(Op op, ValueId a, Axes axes, bool keepdim);
  ValueId unsqueeze(ValueId a, int32_t axis);
  ValueId reshape(ValueId a, std::vector<Dim> sizes);
  ValueId slice(ValueId a, int32_t axis, Dim start, Dim length);
  ValueId channels(size_t operand, int32_t rank);
  ValueId finish(ValueId a);

  Axes all_axes(ValueId a) {
    Axes axes(static_cast<size_t>(type(a).rank()));
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  Axes reduced_axes() { return attrs_.axes.empty() ? all_axes(operands_[0]) : attrs_.axes; }
  Axes the_axis() { return type(operands_[0]).rank() == 0 ? Axes{} : Axes{attrs_.axis}; }
  Number element_count(ValueId a, const Axes& axes);

  // --- rows
  ValueId mean_of(ValueId x, const Axes& axes, bool keepdim);
  ValueId variance(ValueId x, const Axes& axes, bool keepdim, int64_t correction);
  // In double for the types whose squares can leave float's range, as eager has it: only the result is rounded.
  ValueId var() {
    const ValueId x = b_.cast(operands_[0], type_.dtype == DType::f16 ? DType::f32 : DType::f64);
    return variance(x, reduced_axes(), attrs_.keepdim, attrs_.correction);
  }
  ValueId norm();
  ValueId sum_norm(double p);
  ValueId softmax();
  ValueId log_softmax();
  ValueId softmax_backward();
  ValueId log_softmax_backward();
  ValueId logsumexp();
  ValueId normalised(ValueId x, const Axes& axes);
  ValueId scaled(ValueId x, std::optional<ValueId> weight, std::optional<ValueId> bias);
  ValueId layer_norm();
  ValueId rms_norm();
  ValueId group_norm();
  ValueId batch_norm();
  ValueId triangle();
  ValueId masked_fill();
  ValueId glu();
  ValueId formula();

  Builder& b_;
  Op op_;
  std::span<const ValueId> operands_;
  const Attrs& attrs_;
  const TensorType& type_;
  DType compute_;
};

// --- pieces

// An extreme over no elements is the identity here: the composites that use one have no elements either, or define that case.
ValueId Expansion::reduce(Op op, ValueId a, Axes axes, bool keepdim) {
  if (type(a).rank() == 0) return a;
  Attrs attrs;
  if (op == Op::sum || op == Op::prod) attrs.dtype = type(a).dtype;
  if (op == Op::amax || op == Op::amin) attrs.mode = "identity";
  return b_.reduce(op, a, std::move(axes), keepdim, attrs);
}

ValueId Expansion::unsqueeze(ValueId a, int32_t axis) {
  Attrs attrs;
  attrs.axis = axis;
  return b_.view(Op::unsqueeze, a, attrs);
}

ValueId Expansion::reshape(ValueId a, std::vector<Dim> sizes) {
  Attrs attrs;
  attrs.sizes = std::move(sizes);
  return b_.view(Op::reshape, a, attrs);
}

ValueId Expansion::slice(ValueId a, int32_t axis, Dim start, Dim length) {
  Attrs attrs;
  attrs.axis = axis;
  attrs.start = start;
  attrs.step = dims().constant(1);
  attrs.sizes = {length};
  return b_.view(Op::slice, a, attrs);
}

// A vector of one number per channel, as [C, 1, ...]: broadcast against [N, C, ...] of this rank.
ValueId Expansion::channels(size_t operand_number, int32_t rank) {
  ValueId v = operand(operand_number);
  for (int32_t axis = 1; axis < rank - 1; ++axis) v = unsqueeze(v, axis);
  return v;
}

// Rounds to the result's type, in its layout. The last op is always one that computes, so that the result has memory of its own.
ValueId Expansion::finish(ValueId a) {
  Attrs attrs;
  attrs.dtype = type_.dtype;
  return b_.pointwise(Op::cast, std::span(&a, 1), attrs, type_.strides);
}

Number Expansion::element_count(ValueId a, const Axes& axes) {
  std::vector<Dim> sizes;
  for (int32_t axis : axes) sizes.push_back(type(a).sizes[static_cast<size_t>(axis)]);
  return symbolic(dims().product(sizes));
}

// --- statistics

ValueId Expansion::mean_of(ValueId x, const Axes& axes, bool keepdim) {
  return apply(Op::div, reduce(Op::sum, x, axes, keepdim), element_count(x, axes));
}

// Two passes. Nothing is left to divide by if the correction exceeds the count: eager's NaN or infinity. Of nothing it is NaN, also where
// a negative correction would leave something to divide by.
ValueId Expansion::variance(ValueId x, const Axes& axes, bool keepdim, int64_t correction) {
  ValueId mean = mean_of(x, axes, true);
  // Of equal numbers the mean is that number and the variance 0, as in eager, which programs ask for. Sums of f32 are kept in more digits.
  if (type(x).dtype == DType::f64) mean = apply(Op::add, {mean, mean_of(sub(x, mean), axes, true)});
  ValueId squares = square(sub(x, mean));
  const Dim count = element_count(x, axes).dim;
  Dim left = dims().max(dims().constant(0), dims().sub(count, dims().constant(correction)));
  if (correction < 0) left = dims().mul(left, dims().min(count, dims().constant(1)));
  return apply(Op::div, reduce(Op::sum, squares, axes, keepdim), symbolic(left));
}

// The norm of one element is its absolute value, also where its power would leave the type's range.
ValueId Expansion::sum_norm(double p) {
  ValueId x = operand(0), size = apply(Op::abs, {x});
  Attrs count;
  count.value = element_count(x, reduced_axes());
  count.dtype = DType::i64;
  const ValueId alone = apply(Op::eq, b_.create(Op::full, count), integer(1));
  const auto unless_alone = [&](ValueId one, ValueId many) { return apply(Op::where, {alone, one, many}); };
  ValueId powers = unless_alone(size, p == 2 ? square(x) : apply(Op::pow, size, real(p)));
  ValueId total = reduce(Op::sum, powers, reduced_axes(), attrs_.keepdim);
  return unless_alone(total, p == 2 ? apply(Op::sqrt, {total}) : apply(Op::pow, total, real(1 / p)));
}

ValueId Expansion::norm() {
  const Number& p = attrs_.value;
  double power = p.kind == Number::Kind::real ? p.real : p.kind == Number::Kind::none ? 2 : static_cast<double>(p.integer);
  ValueId x = operand(0);
  auto over = [&](Op op, ValueId a) { return reduce(op, a, reduced_axes(), attrs_.keepdim); };
  if (power == 0) return over(Op::sum, b_.cast(apply(Op::ne, x, integer(0)), compute_));
  if (power == 1) return over(Op::sum, apply(Op::abs, {x}));
  if (std::isinf(power)) return over(power > 0 ? Op::amax : Op::amin, apply(Op::abs, {x}));
  return sum_norm(power);
}

// --- softmax and its kin

ValueId Expansion::softmax() {
  ValueId x = operand(0);
  ValueId e = apply(Op::exp, {sub(x, reduce(Op::amax, x, the_axis(), true))});
  return apply(Op::div, {e, reduce(Op::sum, e, the_axis(), true)});
}

ValueId Expansion::log_softmax() {
  ValueId x = operand(0);
  ValueId shifted = sub(x, reduce(Op::amax, x, the_axis(), true));
  ValueId total = reduce(Op::sum, apply(Op::exp, {shifted}), the_axis(), true);
  return sub(shifted, apply(Op::log, {total}));
}

ValueId Expansion::softmax_backward() {
  ValueId gradient = operand(0), output = operand(1);
  ValueId total = reduce(Op::sum, mul(gradient, output), the_axis(), true);
  return mul(sub(gradient, total), output);
}

ValueId Expansion::log_softmax_backward() {
  ValueId gradient = operand(0), output = operand(1);
  ValueId total = reduce(Op::sum, gradient, the_axis(), true);
  return sub(gradient, mul(apply(Op::exp, {output}), total));
}

// An infinite maximum is not subtracted: inf - inf would be NaN.
ValueId Expansion::logsumexp() {
  ValueId x = operands_[0];   // ATen's steps are operators, each of which rounds to a half type
  Axes axes = reduced_axes();
  auto finite = [&](ValueId m) {
    Attrs attrs;
    attrs.value = integer(0);
    const ValueId chosen[] = {apply(Op::logical_not, {apply(Op::isinf, {m})}), m};
    return b_.pointwise(Op::where, chosen, attrs);
  };
  ValueId shift = finite(reduce(Op::amax, x, axes, true));
  ValueId total = reduce(Op::sum, apply(Op::exp, {sub(x, shift)}), axes, attrs_.keepdim);
  ValueId back = attrs_.keepdim ? shift : finite(reduce(Op::amax, x, axes, false));
  return add(apply(Op::log, {total}), back);
}

// --- normalisation

ValueId Expansion::scaled(ValueId x, std::optional<ValueId> weight, std::optional<ValueId> bias) {
  if (weight) x = mul(x, *weight);
  return bias ? add(x, *bias) : x;
}

// (x - mean) / sqrt(var + eps). The sum of a row is rounded, so its mean may lie beside a value that all of the row has; what is left of
// the mean once it is subtracted mends that: a constant row is exactly zero, as by eager's running mean. Both sums are of one pass.
ValueId Expansion::normalised(ValueId x, const Axes& axes) {
  const ValueId rough = mean_of(x, axes, true), about = sub(x, rough);
  const ValueId missed = mean_of(about, axes, true);
  const ValueId squares = sub(mean_of(square(about), axes, true), square(missed));
  const ValueId variance = apply(Op::clamp_min, squares, integer(0));
  return mul(sub(x, add(rough, missed)), apply(Op::rsqrt, {apply(Op::add, variance, real(attrs_.eps))}));
}

ValueId Expansion::layer_norm() {
  ValueId y = normalised(operand(0), attrs_.axes);
  bool only_bias = attrs_.mode == "bias";
  std::optional<ValueId> weight, bias;
  if (operands_.size() > 1) (only_bias ? bias : weight) = operand(1);
  if (operands_.size() > 2) bias = operand(2);
  return scaled(y, weight, bias);
}

ValueId Expansion::rms_norm() {
  ValueId x = operand(0);
  ValueId mean = mean_of(square(x), attrs_.axes, true);
  ValueId y = mul(x, apply(Op::rsqrt, {apply(Op::add, mean, real(attrs_.eps))}));
  return operands_.size() > 1 ? mul(y, operand(1)) : y;
}

// As [N, groups, the rest]. An operand that cannot be seen so is copied first.
ValueId Expansion::group_norm() {
  ValueId x = operand(0);
  const std::vector<Dim> sizes = type(x).sizes;
  Dim groups = dims().constant(attrs_.axis), channel = sizes[1];
  std::vector<Dim> rest(sizes.begin() + 2, sizes.end());
  rest.push_back(dims().floordiv(channel, groups));
  if (!b_.is_contiguous(type(x))) x = b_.pointwise(Op::copy, std::span(&x, 1), {}, b_.contiguous_strides(sizes));
  ValueId y = reshape(normalised(reshape(x, {sizes[0], groups, dims().product(rest)}), {2}), sizes);
  int32_t rank = static_cast<int32_t>(sizes.size());
  bool only_bias = attrs_.mode == "bias";
  std::optional<ValueId> weight, bias;
  if (operands_.size() > 1) (only_bias ? bias : weight) = channels(1, rank);
  if (operands_.size() > 2) bias = channels(2, rank);
  return scaled(y, weight, bias);
}

// x * alpha + beta with alpha = weight / sqrt(var + eps), beta = bias - mean * alpha, as ATen's inference kernel.
ValueId Expansion::batch_norm() {
  size_t count = operands_.size();
  int32_t rank = type(operands_[0]).rank();
  ValueId mean = channels(count - 2, rank), variance = channels(count - 1, rank);
  ValueId alpha = apply(Op::rsqrt, {apply(Op::add, variance, real(attrs_.eps))});
  if (count > 3) alpha = mul(alpha, channels(1, rank));
  ValueId shift = mul(mean, alpha);
  ValueId beta = count == 5 ? sub(channels(2, rank), shift) : apply(Op::neg, {shift});
  return add(mul(operand(0), alpha), beta);
}

// --- the rest

// Row i and column j stay if j - i <= diagonal (tril) or >= diagonal (triu).
ValueId Expansion::triangle() {
  ValueId x = operands_[0];
  size_t rank = type(x).sizes.size();
  auto count = [&](Dim length) {
    Attrs attrs;
    attrs.sizes = {length};
    attrs.value = integer(0);
    attrs.value2 = integer(1);
    attrs.dtype = DType::i64;
    return b_.create(Op::arange, attrs);
  };
  ValueId columns = count(type(x).sizes[rank - 1]), rows = unsqueeze(count(type(x).sizes[rank - 2]), 1);
  Dim diagonal = attrs_.start ? attrs_.start : dims().constant(0);
  ValueId stays = apply(op_ == Op::tril ? Op::le : Op::ge, sub(columns, rows), symbolic(diagonal));
  Attrs zero;
  zero.value = integer(0);
  const ValueId chosen[] = {stays, x};
  return b_.pointwise(Op::where, chosen, zero);
}

ValueId Expansion::masked_fill() {
  ValueId x = operands_[0], mask = operands_[1];
  if (operands_.size() == 3) return apply(Op::where, {mask, b_.cast(operands_[2], type(x).dtype), x});
  Attrs attrs;
  attrs.value = attrs_.value;
  const ValueId chosen[] = {apply(Op::logical_not, {mask}), x};
  return b_.pointwise(Op::where, chosen, attrs);
}

ValueId Expansion::glu() {
  Dim half = dims().floordiv(type(operands_[0]).sizes[static_cast<size_t>(attrs_.axis)], dims().constant(2));
  ValueId left = slice(operands_[0], attrs_.axis, dims().constant(0), half);
  ValueId right = slice(operands_[0], attrs_.axis, half, half);
  return mul(b_.cast(left, compute_), apply(Op::sigmoid, {b_.cast(right, compute_)}));
}

ValueId Expansion::formula() {
  switch (op_) {
    case Op::mean: return mean_of(operand(0), reduced_axes(), attrs_.keepdim);
    case Op::var: return var();
    case Op::std: return apply(Op::sqrt, {var()});
    case Op::norm: return norm();
    case Op::softmax: return softmax();
    case Op::log_softmax: return log_softmax();
    case Op::softmax_backward: return softmax_backward();
    case Op::log_softmax_backward: return log_softmax_backward();
    case Op::logsumexp: return logsumexp();
    case Op::layer_norm: return layer_norm();
    case Op::rms_norm: return rms_norm();
    case Op::group_norm: return group_norm();
    case Op::batch_norm: return batch_norm();
    case Op::tril:
    case Op::triu: return triangle();
    case Op::masked_fill: return masked_fill();
    case Op::glu: return glu();
    default: throw InternalError("no expansion for " + std::string(name_of(op_)));
  }
}

ValueId Expansion::run() { return finish(formula()); }

}  // namespace

ValueId expand_composite(Builder& builder, Op op, std::span<const ValueId> operands, const Attrs& attrs, const TensorType& type) {
  return Expansion(builder, op, operands, attrs, type).run();
}

}  // namespace escapement
