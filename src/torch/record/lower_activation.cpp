// Activations composed of other rows, because the row of the op lacks a number of theirs.
#include "torch/record/lower_families.h"

namespace escapement {

namespace {

// In the type that ATen computes in, and rounded once.
class Composition {
 public:
  explicit Composition(OpCall& call) : call_(call), result_(call.result_type()), compute_(compute_type(result_)) {
    const ValueId self = call.value("self");
    if (!self) return;
    fits_ = is_float(result_) && call.type(self).dtype == result_ && !layout_is_open(call, {self});
    if (fits_) x = call.build.cast(self, compute_);
  }

  // ATen converts it, and refuses one that the type does not hold.
  ValueId number(std::string_view name, double otherwise) {
    const c10::Scalar scalar = call_.given(name) ? call_.arg(name).toScalar() : c10::Scalar(otherwise);
    fits_ = fits_ && call_.must_fit(scalar, compute_);
    return fits_ ? call_.scalar(scalar, compute_) : ValueId();
  }

  ValueId constant(double value) { return call_.constant(value, compute_); }
  ValueId apply(Op op, std::vector<ValueId> operands) { return fits_ ? call_.build.pointwise(op, operands) : ValueId(); }

  bool done(ValueId v) { return fits_ ? call_.done(call_.build.cast(v, result_)) : call_.decline(Reason::call_attribute); }

  ValueId x;

 private:
  OpCall& call_;
  const DType result_, compute_;
  bool fits_ = false;
};

}  // namespace

namespace {

bool compose_elu_of(Composition& c, ValueId alpha, ValueId scale, ValueId inner) {
  const ValueId below = c.apply(Op::mul, {c.apply(Op::expm1, {c.apply(Op::mul, {c.x, inner})}), c.apply(Op::mul, {alpha, scale})});
  return c.done(c.apply(Op::where, {c.apply(Op::lt, {c.x, c.constant(0)}), below, c.apply(Op::mul, {c.x, scale})}));
}

}  // namespace

bool compose_elu(OpCall& call) {
  Composition c(call);
  return compose_elu_of(c, c.number("alpha", 1), c.number("scale", 1), c.number("input_scale", 1));
}

// ATen refuses an alpha of 0, and divides by it in double precision: it stays a constant.
bool lower_celu(OpCall& call) {
  const double alpha = call.number("alpha", 1);
  Composition c(call);
  return compose_elu_of(c, c.constant(alpha), c.constant(1), c.constant(1 / alpha));
}

}  // namespace escapement
