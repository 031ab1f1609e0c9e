// Composites: what the ops that are kept whole give, and what they demand of their operands. expand.cpp says what they compute.
#include "support/error.h"
#include "trace/layout.h"
#include "trace/op_rules.h"

namespace escapement {
namespace {

TensorType like(Rules& rules, const TensorType& a, DType dtype) {
  TensorType result = rules.plain(dtype, a.device, a.sizes);
  if (auto strides = preserved_strides(rules.dims, a); !strides.empty()) result.strides = std::move(strides);
  return result;
}

void check_normalised(Rules& rules, OperandTypes operands, const Attrs& attrs) {
  const TensorType& x = *operands[0];
  for (int32_t axis : attrs.axes) rules.check_axis(axis, x.rank());
  for (const TensorType* weight : operands.subspan(1)) {
    const std::string message = "Expected weight to be of the same shape as normalized_shape, but got weight of shape " +
                                rules.shown(weight->sizes) + " for input of size " + rules.shown(x.sizes);
    if (weight->sizes.size() != attrs.axes.size()) throw UserError(message);
    for (size_t i = 0; i < attrs.axes.size(); ++i) rules.require_equal(weight->sizes[i], x.sizes[attrs.axes[i]], message);
  }
}

void check_channels(Rules& rules, OperandTypes operands) {
  const TensorType& x = *operands[0];
  if (x.rank() < 2) throw UserError(std::string(name_of(rules.op)) + ": expected an input with at least 2 dimensions");
  for (const TensorType* weight : operands.subspan(1)) {
    const std::string message = "Expected weight to be a vector of size equal to the number of channels in input, but got weight of shape " +
                                rules.shown(weight->sizes) + " and input of shape " + rules.shown(x.sizes);
    if (weight->rank() != 1) throw UserError(message);
    rules.require_equal(weight->sizes[0], x.sizes[1], message);
  }
}

void check_groups(Rules& rules, const TensorType& x, const Attrs& attrs) {
  DimTable& dims = rules.dims;
  if (attrs.axis <= 0) throw UserError("Expected num groups to be greater than 0, got " + std::to_string(attrs.axis));
  rules.require_equal(dims.mod(x.sizes[1], dims.constant(attrs.axis)), dims.constant(0),
                      "Expected number of channels in input to be divisible by num_groups, but got input of shape " + rules.shown(x.sizes) +
                          " and num_groups=" + std::to_string(attrs.axis));
}

TensorType infer_glu(Rules& rules, const TensorType& a, const Attrs& attrs) {
  if (a.rank() == 0) throw UserError("glu does not support 0-dimensional tensors");
  rules.check_axis(attrs.axis, a.rank());
  const Dim two = rules.dims.constant(2), size = a.sizes[attrs.axis];
  rules.require_equal(rules.dims.mod(size, two), rules.dims.constant(0),
                      "Halving dimension must be even, but dimension " + std::to_string(attrs.axis) + " is size " + rules.shown(size));
  TensorType half = a;
  half.sizes[attrs.axis] = rules.dims.floordiv(size, two);
  const TensorType* operands[] = {&half, &half};
  TensorType result = rules.plain(a.dtype, a.device, half.sizes);
  if (auto strides = pointwise_strides(rules.dims, operands, result.sizes); !strides.empty()) result.strides = std::move(strides);
  return result;
}

}  // namespace

TensorType infer_composite(Rules& rules, OperandTypes operands, const Attrs& attrs) {
  const TensorType& x = *operands[0];
  switch (rules.op) {
    case Op::mean:
    case Op::var:
    case Op::std:
    case Op::norm:
    case Op::logsumexp:
      return infer_reduction(rules, x, attrs);
    case Op::softmax:
    case Op::log_softmax:
    case Op::softmax_backward:
    case Op::log_softmax_backward:
      rules.check_axis(attrs.axis, x.rank());
      return rules.plain(attrs.dtype.value_or(x.dtype), x.device, x.sizes);
    case Op::layer_norm:
    case Op::rms_norm:
      check_normalised(rules, operands, attrs);
      return rules.plain(x.dtype, x.device, x.sizes);
    case Op::group_norm:
      check_channels(rules, operands);
      check_groups(rules, x, attrs);
      return rules.plain(x.dtype, x.device, x.sizes);
    case Op::batch_norm:
      check_channels(rules, operands);
      return like(rules, x, x.dtype);
    case Op::tril:
    case Op::triu:
      if (x.rank() < 2) throw UserError(std::string(name_of(rules.op)) + ": input tensor must have at least 2 dimensions");
      return rules.plain(x.dtype, x.device, x.sizes);
    case Op::masked_fill:
      return rules.plain(x.dtype, x.device, broadcast_all(rules, operands.subspan(0, 2)));
    case Op::glu:
      return infer_glu(rules, x, attrs);
    default:
      throw InternalError("no rule for composite " + std::string(name_of(rules.op)));
  }
}

}  // namespace escapement
