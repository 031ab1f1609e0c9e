// logit, whose number may be none, and nan_to_num, which is three choices.
#include <cmath>
#include <limits>

#include "torch/record/lower_families.h"

namespace escapement {

// A negative eps is none.
bool lower_logit(OpCall& call) {
  const double eps = call.number("eps", -1);
  if (std::isnan(eps)) return call.decline(Reason::call_attribute);
  Attrs attrs;
  if (eps >= 0) attrs.value = real_number(eps);
  return lower_named(call, Op::logit, {"self"}, std::move(attrs));
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
