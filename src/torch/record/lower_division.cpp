// Division that rounds, and what it leaves: floor_divide, div with a rounding mode, remainder, fmod.
#include "torch/record/lower_families.h"

namespace escapement {

namespace {

// An integer that is divided by zero is eager's error, so the divisor must be a number that is none. Nor is it one that turns the smallest
// integer over, or another one in the type of the result.
bool divides(OpCall& call, const c10::Scalar& divisor, DType common) {
  if (divisor.isSymbolic() || !divisor.isIntegral(false)) return false;
  const int64_t number = divisor.toLong();
  return number != 0 && number != -1 && (number > 0 || common != DType::u8) && call.must_fit(divisor, common);
}

bool by_whole_number(OpCall& call, Op op, DType common) {
  const ValueId self = call.value("self");
  const auto divisor = call.scalar_arg("other");
  if (!self || !divisor || !divides(call, *divisor, common)) return call.decline(Reason::call_attribute);
  if (call.result_type() != common) return call.decline(Reason::call_dtype);
  if (layout_is_open(call, {self})) return call.decline(Reason::call_layout);
  Attrs attrs;
  attrs.value = integer_number(divisor->toLong());
  const std::vector<ValueId> dividend{call.build.cast(self, common)};
  return call.done(call.build.pointwise(op, dividend, std::move(attrs)));
}

bool divided(OpCall& call, Op op) {
  const DType common = common_type(call, {"self", "other"});
  if (is_integer(common)) return by_whole_number(call, op, common);
  const bool rounds_between = op == Op::floor_divide || op == Op::trunc_divide;   // in half types, and not by a number
  if (rounds_between && is_half(common)) return call.decline(Reason::call_dtype);
  return lower_named(call, op, {"self", "other"});
}

}  // namespace

bool lower_remainder(OpCall& call) { return divided(call, call.plan.base == "fmod" ? Op::fmod : Op::remainder); }

bool lower_floor_divide(OpCall& call) { return divided(call, Op::floor_divide); }

bool lower_div(OpCall& call) {
  if (!call.given("rounding_mode")) return lower_pointwise(call, Op::div);
  const std::string mode = call.text("rounding_mode");
  if (mode != "floor" && mode != "trunc") return call.decline(Reason::call_attribute);
  return divided(call, mode == "floor" ? Op::floor_divide : Op::trunc_divide);
}

}  // namespace escapement
