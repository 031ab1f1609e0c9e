// Gradients of views: the gradient of a part, with zeros around it.
#include "torch/record/lower_families.h"

namespace escapement {

namespace {

// `grad` in the middle of zeros along one axis: `before` and `after` are how many.
bool surrounded(OpCall& call, ValueId grad, int axis, Dim before, Dim after) {
  if (call.type(grad).dtype == DType::other) return call.decline(Reason::call_dtype);
  Attrs attrs;
  attrs.sizes.assign(2 * static_cast<size_t>(call.rank(grad) - axis), call.table().constant(0));  // pairs, last axis first
  attrs.sizes[attrs.sizes.size() - 2] = before;
  attrs.sizes[attrs.sizes.size() - 1] = after;
  attrs.value.kind = Number::Kind::integer;
  return call.done(call.build.combine(Op::pad, std::vector<ValueId>{grad}, std::move(attrs)));
}

}  // namespace

bool lower_slice_backward(OpCall& call) {
  const ValueId grad = call.value("grad_output");
  const std::vector<Dim> sizes = call.dims("input_sizes");
  const auto axis = call.axis("dim", static_cast<int>(sizes.size()));
  if (!axis || call.varies("step") || call.integer("step", 1) != 1) return call.decline(Reason::call_attribute);
  const SliceBounds bounds = slice_bounds(call, sizes[*axis]);
  return surrounded(call, grad, *axis, bounds.start, call.table().sub(sizes[*axis], bounds.end));
}

bool lower_select_backward(OpCall& call) {
  const ValueId grad = call.value("grad_output");
  const std::vector<Dim> sizes = call.dims("input_sizes");
  const auto axis = call.axis("dim", static_cast<int>(sizes.size()));
  if (!axis) return call.decline(Reason::call_attribute);
  DimTable& dims = call.table();
  const Dim index = normal_index(call, "index", sizes[*axis]);
  Attrs attrs;
  attrs.axis = *axis;
  const ValueId row = call.build.view(Op::unsqueeze, grad, std::move(attrs));
  return surrounded(call, row, *axis, index, dims.sub(dims.sub(sizes[*axis], index), dims.constant(1)));
}

}  // namespace escapement
