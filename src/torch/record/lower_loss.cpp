// Losses of an input and a target: of each pair of elements in rows, then their mean or sum. Eager's steps, each in the type of the
// arguments, so half types are rounded where ATen rounds them.
#include <numeric>

#include "torch/record/lower_families.h"

namespace escapement {

namespace {

enum Reduction : int64_t { kNone, kMean, kSum };   // ATen's numbers

// One floating-point type for all.
bool of_one_type(OpCall& call, std::initializer_list<std::string_view> arguments) {
  const DType type = call.result_type();
  for (const std::string_view name : arguments)
    if (call.given(name) && (!call.value(name) || call.type(call.value(name)).dtype != type)) return false;
  return is_float(type);
}

// Where ATen makes the loss like its input, the target has its sizes, and the layout is none to choose.
bool is_like_input(OpCall& call) {
  const ValueId input = call.value("self"), target = call.value("target");
  if (!call.real("self").sizes().equals(call.real("target").sizes())) return false;
  if (call.integer("reduction", kMean) == kNone && !(call.build.is_contiguous(call.type(input)) && call.build.is_contiguous(call.type(target)))) return false;
  for (size_t d = 0; d < call.type(input).sizes.size(); ++d)
    call.tape.guard_relation(Guard::Kind::equal, call.type(target).sizes[d], call.type(input).sizes[d], true, "a loss of two of a size");
  return true;
}

ValueId mean_or_sum(OpCall& call, ValueId loss) {
  if (call.integer("reduction", kMean) == kSum) return call.build.reduce(Op::sum, loss, {}, false);
  Attrs attrs;
  attrs.axes.resize(call.type(loss).sizes.size());
  std::iota(attrs.axes.begin(), attrs.axes.end(), 0);
  return call.build.composite(Op::mean, std::vector<ValueId>{loss}, std::move(attrs));
}

bool reduced(OpCall& call, ValueId loss) {
  return call.done(call.integer("reduction", kMean) == kNone ? loss : mean_or_sum(call, loss));
}

// ATen allocates the result for all elements before it reduces them, and its storage says so.
bool reduced_in_their_memory(OpCall& call, ValueId loss) {
  if (call.integer("reduction", kMean) == kNone) return call.done(loss);
  const ValueId result = mean_or_sum(call, loss);
  call.tape.roomy.insert(result);
  return call.done(result);
}

bool lower_distance(OpCall& call, Op op, bool (*reduce)(OpCall&, ValueId)) {
  const std::vector<ValueId> pair{call.value("self"), call.value("target")};
  if (layout_is_open(call, pair)) return call.decline(Reason::call_layout);
  Attrs attrs;
  const RowNumber& number = numbers_of(op)[0];
  attrs.value = real_number(call.number(number.name, number.otherwise));
  return reduce(call, call.build.pointwise(op, pair, std::move(attrs)));
}

}  // namespace

bool lower_mse_loss(OpCall& call) {
  if (!of_one_type(call, {"self", "target"})) return call.decline(Reason::call_dtype);
  const std::vector<ValueId> pair{call.value("self"), call.value("target")};
  if (layout_is_open(call, pair)) return call.decline(Reason::call_layout);
  return reduced_in_their_memory(call, call.build.pointwise(Op::square, std::vector<ValueId>{call.build.pointwise(Op::sub, pair)}));
}

// ATen rounds between the steps of one half type and not of the other; of smooth_l1 it is float16, of huber bfloat16.
bool lower_smooth_l1_loss(OpCall& call) {
  if (!of_one_type(call, {"self", "target"}) || call.result_type() == DType::f16) return call.decline(Reason::call_dtype);
  return lower_distance(call, Op::smooth_l1, reduced_in_their_memory);
}

bool lower_huber_loss(OpCall& call) {
  if (!of_one_type(call, {"self", "target"}) || call.result_type() == DType::bf16) return call.decline(Reason::call_dtype);
  if (!is_like_input(call)) return call.decline(Reason::call_layout);
  return lower_distance(call, Op::huber, reduced);
}

// (1 - target) * input - log_sigmoid(input), the latter times 1 + (pos_weight - 1) * target; all that times weight.
bool lower_bce_with_logits(OpCall& call) {
  if (!of_one_type(call, {"self", "target", "weight", "pos_weight"})) return call.decline(Reason::call_dtype);
  if (!is_like_input(call)) return call.decline(Reason::call_layout);
  const ValueId input = call.value("self"), target = call.value("target"), one = call.constant(1, call.result_type());
  const auto apply = [&](Op op, std::vector<ValueId> operands) { return call.build.pointwise(op, operands); };
  if (layout_is_open(call, {input, target})) return call.decline(Reason::call_layout);
  ValueId sigmoid = apply(Op::log_sigmoid, {input});
  if (call.given("pos_weight")) {
    const ValueId more = apply(Op::mul, {apply(Op::sub, {call.value("pos_weight"), one}), target});
    sigmoid = apply(Op::mul, {sigmoid, apply(Op::add, {more, one})});
  }
  ValueId loss = apply(Op::sub, {apply(Op::mul, {apply(Op::sub, {one, target}), input}), sigmoid});
  if (call.given("weight")) loss = apply(Op::mul, {loss, call.value("weight")});
  return reduced(call, loss);
}

bool lower_soft_margin_loss(OpCall& call) {
  if (!of_one_type(call, {"self", "target"})) return call.decline(Reason::call_dtype);
  if (!is_like_input(call)) return call.decline(Reason::call_layout);
  const ValueId input = call.value("self"), target = call.value("target");
  if (layout_is_open(call, {input, target})) return call.decline(Reason::call_layout);
  const auto apply = [&](Op op, std::vector<ValueId> operands) { return call.build.pointwise(op, operands); };
  return reduced_in_their_memory(call, apply(Op::log1p, {apply(Op::exp, {apply(Op::mul, {apply(Op::neg, {input}), target})})}));
}

}  // namespace escapement
