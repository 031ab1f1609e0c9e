// Rows with a number of the call's own, and nan_to_num, which is three choices.
#include <cmath>
#include <limits>

#include "torch/record/lower_families.h"

namespace escapement {

// ATen reads the bound in the type of the elements, and refuses one that it does not hold.
bool lower_shrink(OpCall& call) {
  if (call.plan.base == "hardshrink" && varies_any(call, {"lambd"})) return compose_hardshrink(call);
  const double bound = call.number("lambd", 0.5);
  if (!call.must_fit(c10::Scalar(bound), call.result_type())) return call.decline(Reason::call_attribute);
  return with_numbers(call, call.plan.base == "hardshrink" ? Op::hardshrink : Op::softshrink, bound);
}

// A negative eps is none.
bool lower_logit(OpCall& call) {
  const double eps = call.number("eps", -1);
  if (std::isnan(eps)) return call.decline(Reason::call_attribute);
  return with_numbers(call, Op::logit, eps < 0 ? std::nullopt : std::optional(eps));
}

bool lower_nan_to_num(OpCall& call) {
  const ValueId self = call.value("self");
  const DType type = call.result_type();
  if (!self || !is_float(type) || call.type(self).dtype != type) return call.decline(Reason::call_dtype);
  if (layout_is_open(call, {self})) return call.decline(Reason::call_layout);
  const double infinity = std::numeric_limits<double>::infinity();
  const double largest = reals_of(type) ? reals_of(type)->second : std::numeric_limits<double>::max();
  const auto apply = [&](Op op, std::vector<ValueId> operands) { return call.build.pointwise(op, operands); };
  const auto instead = [&](Op test, std::vector<ValueId> operands, ValueId otherwise, std::string_view name, double number) {
    return apply(Op::where, {apply(test, std::move(operands)), call.constant(call.number(name, number), type), otherwise});
  };
  const ValueId below = instead(Op::eq, {self, call.constant(-infinity, type)}, self, "neginf", -largest);
  const ValueId above = instead(Op::eq, {self, call.constant(infinity, type)}, below, "posinf", largest);
  return call.done(instead(Op::isnan, {self}, above, "nan", 0));
}

}  // namespace escapement
