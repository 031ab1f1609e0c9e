// Views: sizes, strides and offset of another look at the same memory. Everything else is the operand's.
#include "support/error.h"
#include "trace/builder.h"
#include "trace/layout.h"
#include "trace/op_rules.h"

namespace escapement {
namespace {

TensorType reshape(Rules& rules, const TensorType& a, const Attrs& attrs) {
  DimTable& dims = rules.dims;
  const Dim before = dims.product(a.sizes), after = dims.product(attrs.sizes);
  rules.require_equal(after, before, "shape '" + rules.shown(attrs.sizes) + "' is invalid for input of size " + rules.shown(before));
  const auto strides = reshaped_strides(dims, a.sizes, a.strides, attrs.sizes);
  if (!strides)
    throw NotViewable("view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
                      "contiguous subspaces). Use .reshape(...) instead.");
  TensorType result = a;
  result.sizes = attrs.sizes;
  result.strides = *strides;
  return result;
}

TensorType permute(Rules& rules, const TensorType& a, const Attrs& attrs) {
  if (attrs.axes.size() != a.sizes.size())
    throw UserError("permute: number of dimensions in the tensor input does not match the length of the desired "
                    "ordering of dimensions i.e. input.dim() = " + std::to_string(a.rank()) + " is not equal to len(dims) = " +
                    std::to_string(attrs.axes.size()));
  TensorType result = a;
  std::vector<bool> seen(a.sizes.size());
  for (size_t i = 0; i < attrs.axes.size(); ++i) {
    const int32_t axis = attrs.axes[i];
    rules.check_axis(axis, a.rank());
    if (seen[axis]) throw UserError("permute(): duplicate dims are not allowed.");
    seen[axis] = true;
    result.sizes[i] = a.sizes[axis];
    result.strides[i] = a.strides[axis];
  }
  return result;
}

// The stride of one axis after expanding `from` to `to`; demands what makes the expansion right.
Dim expanded_stride(Rules& rules, Dim from, Dim to, Dim stride, const std::string& message) {
  DimTable& dims = rules.dims;
  if (dims.same(from, to)) return stride;
  const Dim zero = dims.constant(0);
  if (dims.as_constant(from) == 1) return zero;
  const auto x = dims.hint(from), y = dims.hint(to);
  if (x == 1 && y && *y != 1) {
    rules.require_equal(from, dims.constant(1), message);
    return zero;
  }
  rules.require_equal(from, to, message);
  return stride;
}

TensorType expand(Rules& rules, const TensorType& a, const Attrs& attrs) {
  if (attrs.sizes.size() < a.sizes.size())
    throw UserError("expand: the number of sizes provided (" + std::to_string(attrs.sizes.size()) +
                    ") must be greater or equal to the number of dimensions in the tensor (" + std::to_string(a.rank()) + ")");
  TensorType result = a;
  result.sizes = attrs.sizes;
  const size_t missing = attrs.sizes.size() - a.sizes.size();
  result.strides.assign(attrs.sizes.size(), rules.dims.constant(0));
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    const Dim to = attrs.sizes[missing + i];
    const std::string message = "The expanded size of the tensor (" + rules.shown(to) + ") must match the existing size (" +
                                rules.shown(a.sizes[i]) + ") at non-singleton dimension " + std::to_string(missing + i) +
                                ".  Target sizes: " + rules.shown(attrs.sizes) + ".  Tensor sizes: " + rules.shown(a.sizes);
    result.strides[missing + i] = expanded_stride(rules, a.sizes[i], to, a.strides[i], message);
  }
  // A new axis of one element is not expanded; of a tensor without axes all are.
  for (size_t i = a.sizes.empty() ? 0 : missing; i-- > 0;)
    if (rules.dims.as_constant(result.sizes[i]) == std::optional<int64_t>(1)) result.strides[i] = rules.dims.mul(result.sizes[i + 1], result.strides[i + 1]);
  return result;
}

TensorType unsqueeze(Rules& rules, const TensorType& a, const Attrs& attrs) {
  rules.check_axis(attrs.axis, a.rank() + 1);
  TensorType result = a;
  const bool last = attrs.axis == a.rank();
  const Dim stride = last ? rules.dims.constant(1) : rules.dims.mul(a.sizes[attrs.axis], a.strides[attrs.axis]);
  result.sizes.insert(result.sizes.begin() + attrs.axis, rules.dims.constant(1));
  result.strides.insert(result.strides.begin() + attrs.axis, stride);
  return result;
}

TensorType squeeze(Rules& rules, const TensorType& a, const Attrs& attrs) {
  rules.check_axis(attrs.axis, a.rank());
  TensorType result = a;
  if (a.rank() == 0) return result;
  rules.require_equal(a.sizes[attrs.axis], rules.dims.constant(1),
                      "squeeze: dimension " + std::to_string(attrs.axis) + " has size " + rules.shown(a.sizes[attrs.axis]));
  result.sizes.erase(result.sizes.begin() + attrs.axis);
  result.strides.erase(result.strides.begin() + attrs.axis);
  return result;
}

void check_not_scalar(const TensorType& a, const char* name) {
  if (a.rank() == 0) throw UserError(std::string(name) + "() cannot be applied to a 0-dim tensor.");
}

// The length is the program's (already clamped as eager does); it must stay inside the axis.
TensorType slice(Rules& rules, const TensorType& a, const Attrs& attrs) {
  check_not_scalar(a, "slice");
  rules.check_axis(attrs.axis, a.rank());
  if (attrs.sizes.size() != 1) throw UserError("slice: expected one size, the length");
  DimTable& dims = rules.dims;
  const Dim size = a.sizes[attrs.axis], stride = a.strides[attrs.axis], length = attrs.sizes[0];
  const Dim one = dims.constant(1), zero = dims.constant(0);
  const Dim start = attrs.start ? attrs.start : zero, step = attrs.step ? attrs.step : one;
  const auto message = [&] {
    return "slice of length " + rules.shown(length) + " from " + rules.shown(start) + " by " + rules.shown(step) +
           " leaves dimension " + std::to_string(attrs.axis) + " of size " + rules.shown(size);
  };
  rules.require_less(zero, step, "slice step must be positive");
  rules.require_less_equal_by(zero, start, message);
  rules.require_less_equal_by(zero, length, message);
  const Dim room = dims.sub(size, start);
  const Dim limit = dims.as_constant(step) == 1 ? room : dims.floordiv(dims.add(room, dims.sub(step, one)), step);
  rules.require_less_equal_by(length, limit, message);
  TensorType result = a;
  result.sizes[attrs.axis] = length;
  result.strides[attrs.axis] = dims.mul(stride, step);
  result.offset = dims.add(a.offset, dims.mul(start, stride));
  return result;
}

TensorType select(Rules& rules, const TensorType& a, const Attrs& attrs) {
  check_not_scalar(a, "select");
  rules.check_axis(attrs.axis, a.rank());
  DimTable& dims = rules.dims;
  const Dim index = attrs.start ? attrs.start : dims.constant(0);
  const auto message = [&] {
    return "select(): index " + rules.shown(index) + " out of range for tensor of size " + rules.shown(a.sizes) + " at dimension " +
           std::to_string(attrs.axis);
  };
  rules.require_less_equal_by(dims.constant(0), index, message);
  rules.require_less_by(index, a.sizes[attrs.axis], message);
  TensorType result = a;
  result.offset = dims.add(a.offset, dims.mul(index, a.strides[attrs.axis]));
  result.sizes.erase(result.sizes.begin() + attrs.axis);
  result.strides.erase(result.strides.begin() + attrs.axis);
  return result;
}

// The offset counts from the root's first element, not from the operand's. That the view stays inside the memory is the
// recorder's to know: the size of a storage is not part of a type.
TensorType as_strided(Rules& rules, const TensorType& a, const Attrs& attrs) {
  if (attrs.sizes.size() % 2 != 0) throw UserError("mismatch in length of strides and shape");
  const auto middle = attrs.sizes.begin() + static_cast<std::ptrdiff_t>(attrs.sizes.size() / 2);
  TensorType result = a;
  result.sizes.assign(attrs.sizes.begin(), middle);
  result.strides.assign(middle, attrs.sizes.end());
  result.offset = attrs.start ? attrs.start : rules.dims.constant(0);
  return result;
}

}  // namespace

TensorType infer_view(Rules& rules, const TensorType& a, const Attrs& attrs) {
  switch (rules.op) {
    case Op::alias: case Op::detach: return a;
    case Op::reshape: return reshape(rules, a, attrs);
    case Op::permute: return permute(rules, a, attrs);
    case Op::expand: return expand(rules, a, attrs);
    case Op::unsqueeze: return unsqueeze(rules, a, attrs);
    case Op::squeeze: return squeeze(rules, a, attrs);
    case Op::slice: return slice(rules, a, attrs);
    case Op::select: return select(rules, a, attrs);
    case Op::as_strided: return as_strided(rules, a, attrs);
    default: throw InternalError("no rule for view " + std::string(name_of(rules.op)));
  }
}

}  // namespace escapement
