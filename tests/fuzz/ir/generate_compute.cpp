// Ops that compute: see trace_generator.h. Which op takes which dtype: the row's domain.
#include <algorithm>
#include <utility>

#include "fuzz/ir/trace_generator.h"

namespace escapement::fuzz {
namespace {

bool takes(Op op, DType type) { return computes_on(op, type) && !(is_float(type) && info(op).domain == Domain::bits); }

std::vector<Op> ops_of(OpKind kind, int arity) {
  std::vector<Op> found;
  for (int i = 0; i < op_count(); ++i) {
    const Op op = static_cast<Op>(i);
    if (info(op).kind == kind && info(op).arity == arity) found.push_back(op);
  }
  return found;
}

Number real(double value) {
  Number n;
  n.kind = Number::Kind::real;
  n.real = value;
  return n;
}

Number whole(int64_t value) {
  Number n;
  n.kind = Number::Kind::integer;
  n.integer = value;
  return n;
}

}  // namespace

// --- pointwise

void TraceGenerator::choose_numbers(Op op, Attrs& attrs) {
  for (const RowNumber& row : numbers_of(op))
    (row.place == RowNumber::Place::value ? attrs.value : attrs.value2) = real(random_.one_in(4) ? row.otherwise : random_.pick({-1.0, 0.25, 1.0, 20.0}));
}

void TraceGenerator::unary() {
  static const std::vector<Op> ops = ops_of(OpKind::pointwise, 1);
  const Op op = random_.pick(ops);
  ValueId v = any();
  if (!takes(op, type(v).dtype)) v = floating(v);
  if (!takes(op, type(v).dtype)) return;
  Attrs attrs;
  if (op == Op::cast) attrs.dtype = dtype();
  else if (random_.one_in(12)) attrs.dtype = dtype();
  choose_numbers(op, attrs);
  for (int again = random_.one_in(6) ? 2 : 1; again > 0; --again) {   // twice: signs, and what changes nothing more
    const ValueId operands[] = {v};
    if (takes(op, type(v).dtype)) v = b_.pointwise(op, operands, attrs);
  }
  add(v);
}

// A number that changes nothing, for some operators.
ValueId TraceGenerator::unit(DType type) {
  Attrs attrs;
  attrs.dtype = type;
  const double value = random_.pick({1.0, 0.0, -0.0});
  attrs.value = random_.one_in(2) || !is_float(type) ? whole(static_cast<int64_t>(value)) : real(value);
  return b_.create(Op::full, attrs);
}

void TraceGenerator::binary() {
  static const std::vector<Op> ops = ops_of(OpKind::pointwise, 2);
  const Op op = random_.pick(ops);
  ValueId a = any(), second = random_.one_in(3) ? any() : like(a);
  if (random_.one_in(8)) second = a;   // what is always zero, or one: LLVM finds that out at several places
  if (random_.one_in(10)) second = unit(type(a).dtype);
  if (random_.one_in(10)) std::swap(a, second);
  if (!takes(op, promote(type(a).dtype, type(second).dtype))) a = floating(a), second = floating(second);
  if (!takes(op, promote(type(a).dtype, type(second).dtype)) || !takes(op, type(a).dtype)) return;
  Attrs attrs;
  choose_numbers(op, attrs);
  if (op == Op::copysign) {  // of a number that is none the sign is not defined; sign makes 0 of it
    const ValueId operand[] = {floating(second)};
    second = b_.pointwise(Op::sign, operand);
  }
  if ((op == Op::add || op == Op::sub) && is_float(type(a).dtype) && random_.one_in(6)) attrs.value2 = symbolic_or(number(type(a).dtype));
  const bool by_number = numbers_of(op).empty() && random_.one_in(3);
  if (by_number) attrs.value = symbolic_or(number(type(a).dtype));
  if (by_number && op == Op::pow) attrs.value = real(random_.pick({2.0, 3.0, 0.5, -2.0, 1.7}));
  if (random_.one_in(16)) attrs.dtype = dtype();
  const ValueId operands[] = {a, second};
  add(b_.pointwise(op, std::span(operands, by_number ? 1 : 2), attrs));
}

void TraceGenerator::ternary() {
  const Op op = random_.pick({Op::where, Op::where, Op::addcmul, Op::addcdiv, Op::lerp, Op::masked_fill});
  const ValueId first = any(), second = like(first), third = random_.one_in(2) ? like(first) : any();
  Attrs attrs;
  if (op == Op::where) {
    const ValueId operands[] = {as(DType::b8, first), second, as(type(second).dtype, third)};
    if (random_.one_in(4)) attrs.value = symbolic_or(number(type(second).dtype));
    add(b_.pointwise(op, std::span(operands, attrs.value.kind == Number::Kind::none ? 3 : 2), attrs));
    return;
  }
  if (op == Op::masked_fill) {
    attrs.value = number(type(second).dtype);
    const ValueId operands[] = {second, as(DType::b8, first)};
    add(b_.composite(op, operands, attrs));
    return;
  }
  const ValueId operands[] = {floating(first), floating(second), floating(third)};
  choose_numbers(op, attrs);
  add(b_.pointwise(op, operands, attrs));
}

// Through a narrow type and back, which no pass may leave out.
void TraceGenerator::cast_chain() {
  ValueId v = any();
  const DType back = type(v).dtype;
  const size_t length = 1 + random_.below(3);
  for (size_t i = 0; i < length; ++i) v = as(dtype(), v);
  add(as(back, v));
}

// --- reductions

std::vector<int32_t> TraceGenerator::some_axes(ValueId v) {
  std::vector<int32_t> axes;
  for (int32_t axis = 0; axis < type(v).rank(); ++axis)
    if (random_.one_in(2)) axes.push_back(axis);
  if (axes.empty() && type(v).rank() > 0) axes.push_back(axis_of(v));
  return axes;
}

void TraceGenerator::reduction() {
  static const std::vector<Op> ops = ops_of(OpKind::reduce, 1);
  const Op op = random_.pick(ops);
  const ValueId v = any();
  std::vector<int32_t> axes = some_axes(v);
  if (op == Op::argmax || op == Op::argmin) axes = random_.one_in(4) || type(v).rank() == 0 ? std::vector<int32_t>{} : std::vector<int32_t>{axis_of(v)};
  Attrs attrs;
  const bool adds = op == Op::sum || op == Op::prod;
  if (adds && random_.one_in(4)) attrs.dtype = random_.pick({DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32});
  if ((op == Op::amax || op == Op::amin) && random_.one_in(4)) attrs.mode = "identity";
  add(b_.reduce(op, v, std::move(axes), random_.one_in(2), attrs));
}

void TraceGenerator::composite() {
  const Op op = random_.pick({Op::mean, Op::var, Op::std, Op::norm, Op::softmax, Op::softmax, Op::log_softmax, Op::softmax_backward,
                              Op::log_softmax_backward, Op::logsumexp, Op::tril, Op::triu, Op::glu});
  const ValueId v = op == Op::tril || op == Op::triu ? any() : floating(any());
  Attrs attrs;
  attrs.axis = axis_of(v);
  const bool reduces = op == Op::mean || op == Op::var || op == Op::std || op == Op::norm || op == Op::logsumexp;
  if (reduces) attrs.axes = some_axes(v), attrs.keepdim = random_.one_in(2), attrs.axis = -1;
  if (op == Op::var || op == Op::std) attrs.correction = static_cast<int32_t>(random_.below(3));
  if (op == Op::norm) attrs.value = real(random_.pick({2.0, 1.0, 0.0, 3.0, static_cast<double>(INFINITY), static_cast<double>(-INFINITY)}));
  if (op == Op::tril || op == Op::triu) attrs.axis = -1, attrs.start = random_.one_in(2) ? k(random_.between(-2, 2)) : expression();
  if (op == Op::softmax && random_.one_in(5)) attrs.dtype = DType::f32;
  const bool two = op == Op::softmax_backward || op == Op::log_softmax_backward;
  const ValueId operands[] = {v, two ? as(type(v).dtype, like(v)) : ValueId()};
  add(b_.composite(op, std::span(operands, two ? 2 : 1), attrs));
}

// Norms take vectors of the right length: made of a value that has it, or of a constant.
void TraceGenerator::normalisation() {
  const Op op = random_.pick({Op::layer_norm, Op::layer_norm, Op::rms_norm, Op::group_norm, Op::batch_norm});
  const bool channels = op == Op::group_norm || op == Op::batch_norm;
  const ValueId found = of_rank(channels ? 2 : 1);
  if (!found) return;
  const ValueId x = floating(found);
  const auto rank = static_cast<int32_t>(type(x).rank());
  Attrs attrs;
  attrs.eps = 1e-5;
  const int32_t first = channels ? 1 : rank - 1 - (rank > 1 && random_.one_in(4) ? 1 : 0);
  std::vector<Dim> sizes{type(x).sizes[1 < rank ? 1 : 0]};
  if (!channels) {
    for (int32_t axis = first; axis < rank; ++axis) attrs.axes.push_back(axis);
    sizes.assign(type(x).sizes.begin() + first, type(x).sizes.end());
  }
  std::vector<ValueId> operands{x};
  const size_t most = op == Op::rms_norm ? 2 : op == Op::batch_norm ? 5 : 3;
  const size_t count = op == Op::batch_norm ? random_.pick<size_t>({3, 4, 5}) : 1 + random_.below(most);
  if (op == Op::group_norm) attrs.axis = static_cast<int32_t>(random_.between(1, 2));
  if (op == Op::batch_norm) attrs.mode = count == 3 ? "plain" : count == 4 ? "weight" : "";
  if (count == 2 && op != Op::rms_norm && random_.one_in(3)) attrs.mode = "bias";
  while (operands.size() < count) operands.push_back(full(sizes, type(x).dtype));
  add(b_.composite(op, operands, attrs));
}

// --- creation

ValueId TraceGenerator::full(std::vector<Dim> sizes, DType type) {
  Attrs attrs;
  attrs.sizes = std::move(sizes);
  attrs.dtype = type;
  attrs.value = symbolic_or(number(type));
  return b_.create(Op::full, attrs);
}

ValueId TraceGenerator::arange(Dim length, DType type) {
  Attrs attrs;
  attrs.sizes = {length};
  attrs.dtype = type;
  attrs.value = symbolic_or(number(is_float(type) && random_.one_in(2) ? DType::f32 : DType::i64));
  attrs.value2 = is_float(type) && random_.one_in(2) ? real(random_.pick({0.5, -1.5, 0.1, 2.0, 1e-3})) : whole(random_.pick<int64_t>({1, 2, 3, -1, -2}));
  return b_.create(Op::arange, attrs);
}

void TraceGenerator::creation() {
  if (random_.one_in(2)) {
    add(arange(random_.pick(symbols_), dtype()));
    return;
  }
  std::vector<Dim> sizes = type(any()).sizes;
  if (random_.one_in(4)) sizes.clear();
  add(full(std::move(sizes), dtype()));
}

// --- contractions: the evaluator's own, in f32

// A parameter, which the recorder meets where it is used; the linear of one may take an epilogue.
ValueId TraceGenerator::weight(Dim columns) {
  const std::vector<Dim> sizes{k(random_.between(1, 4)), columns};
  const auto symbol = dims().as_symbol(columns);
  const bool known = dims().as_constant(columns) || (symbol && dims().info(*symbol).source.kind == Source::Kind::input_size);
  if (!known || random_.one_in(4)) return full(sizes, DType::f32);
  TensorType type;
  type.sizes = sizes;
  return b_.input(std::move(type), "", true);
}

void TraceGenerator::contraction() {
  const Op op = random_.pick({Op::linear, Op::linear, Op::matmul, Op::mm, Op::bmm, Op::addmm, Op::baddbmm});
  const ValueId a = of_rank(op == Op::bmm || op == Op::baddbmm ? 3 : 2);
  if (!a) return;
  const ValueId x = as(DType::f32, a);
  std::vector<ValueId> operands;
  if (op == Op::linear) {
    operands = {x, weight(type(x).sizes.back())};
    if (random_.one_in(2)) operands.push_back(full({type(operands[1]).sizes[0]}, DType::f32));
  } else {
    Attrs swap;
    for (int32_t axis = 0; axis < type(x).rank(); ++axis) swap.axes.push_back(axis);
    std::swap(swap.axes.end()[-1], swap.axes.end()[-2]);
    operands = {x, b_.view(Op::permute, as(DType::f32, like(a)), swap)};
    if (op == Op::addmm || op == Op::baddbmm) operands.insert(operands.begin(), full({type(x).sizes.end()[-2]}, DType::f32));
  }
  const ValueId result = b_.contract(op, operands, {});
  add(result);
  if (op == Op::linear && random_.one_in(2)) {
    const ValueId operand[] = {result};
    add(b_.pointwise(random_.pick({Op::relu, Op::gelu, Op::tanh, Op::silu, Op::sigmoid, Op::gelu_tanh}), operand));
  }
}

}  // namespace escapement::fuzz
