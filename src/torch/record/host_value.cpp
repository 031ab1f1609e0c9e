// See host_value.h.
#include "torch/record/host_value.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "torch/record/recorder_fallback.h"
#include "torch/record/symnode.h"

namespace escapement {

// An integer or boolean stays a symbol, a float an expression.
c10::IValue host_value(Tape& tape, ValueId value, const c10::Scalar& seen) {
  using Read = ScriptStep::Result;
  const auto note = [&](Read read) { if (tape.exits) tape.exits->note_read(std::move(read)); };
  if (tape.trace().type(value).dtype == DType::other) {
    tape.refuse(Reason::recorder_refused, "a value of a dtype that has no kernels, such as a complex one, was read by the host");
    return seen;
  }
  if (seen.isBoolean()) {
    const Dim truth = tape.item(value, seen.toBool());
    note({.kind = Read::Kind::truth, .dim = truth});
    return symbool(tape, bool_relation(Guard::Kind::not_equal, truth, tape.dims().constant(0), seen.toBool()));
  }
  if (seen.isIntegral(false)) {
    const Dim number = tape.item(value, seen.toLong());
    note({.kind = Read::Kind::integer, .dim = number});
    return c10::Scalar(tape.symint(number, seen.toLong()));
  }
  const ValueId now = tape.builder.pointwise(Op::copy, std::vector<ValueId>{value});
  note({.kind = Read::Kind::real, .value = now, .seen = seen.toDouble()});
  const FloatExprPtr expr = float_value(now, seen.toDouble());
  if (tape.exits) tape.exits->hold(expr);
  c10::SymNode node = Node::real(tape.shared_from_this(), expr);
  if (auto* shell = python_hooks().to_python) node = shell(std::move(node));
  return c10::Scalar(c10::SymFloat(std::move(node)));
}

// A dtype without kernels of ours is read by way of one that has them and holds all its values, if there is one.
static std::optional<c10::ScalarType> wider(c10::ScalarType dtype) {
  if (c10::isFloat8Type(dtype)) return c10::ScalarType::Float;
  return dtype == c10::ScalarType::UInt16 || dtype == c10::ScalarType::UInt32 ? std::optional(c10::ScalarType::Long) : std::nullopt;
}

void widen(Tape& tape, c10::IValue& value) {
  const auto dtype = wider(value.toTensor().scalar_type());
  if (!dtype) return;
  static const auto to = c10::Dispatcher::singleton().findSchemaOrThrow("aten::to", "dtype");
  torch::jit::Stack call{value, *dtype, false, false, c10::IValue()};
  record_op(tape, to, call);
  value = call[0];
}

}  // namespace escapement
