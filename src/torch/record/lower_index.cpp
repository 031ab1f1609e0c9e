// Creation, indexing, combining, contractions.
#include "torch/record/lower_families.h"
#include "torch/record/suggested_format.h"
#include "torch/record/symnode.h"

namespace escapement {

namespace {

Number number(double value) {
  Number n;
  n.kind = Number::Kind::real;
  n.real = value;
  return n;
}

bool positions_ok(const OpCall& call, ValueId v) {
  const DType t = call.type(v).dtype;
  return t == DType::i64 || t == DType::i32;
}

// On a device a position out of range would be known only once its stream has been waited for: there ATen looks up, and the result has the sizes
// that ours would have.
bool looked_up(OpCall& call, ValueId found) {
  if (!call.tape.on_device()) return call.done(found);
  call.result_sizes = call.type(found).sizes;
  return call.decline(Reason::call_lookup);
}

// Of nothing, ATen checks the positions though no element is looked up, and an axis without elements is an error of its own kind.
bool holds_something(OpCall& call, const std::vector<Dim>& sizes) {
  DimTable& dims = call.table();
  const Dim count = dims.product(sizes);
  const bool some = dims.hint(count) != std::optional<int64_t>(0);
  call.tape.guard_relation(Guard::Kind::less, dims.constant(0), count, some, "something to look up in that has elements");
  return some;
}

// The sizes that the factory was asked for: an argument, or those of its model.
std::vector<Dim> asked_sizes(const OpCall& call) {
  if (call.plan.base == "scalar_tensor") return {};
  if (call.find("size") >= 0) return call.lengths("size");
  return call.type(call.value("self")).sizes;
}

}  // namespace

// --- creation

bool lower_full(OpCall& call) {
  const DType dtype = call.result_type();
  const std::string& base = call.plan.base;
  if (call.plan.form == OpPlan::Form::out) call.result_sizes = asked_sizes(call);
  if (dtype == DType::other || call.plan.form == OpPlan::Form::out) return call.decline(Reason::call_dtype);
  if (!call.reals[0].is_contiguous() || call.lays_out_otherwise()) return call.decline(Reason::call_layout);
  if (base.ends_with("_like") && !call.build.is_contiguous(call.type(call.value("self")))) return call.decline(Reason::call_layout);
  if (base.ends_with("_like")) hold_format(call, call.value("self"), call.real("self"));
  Attrs attrs;
  attrs.sizes = asked_sizes(call);
  attrs.dtype = dtype;
  const auto given = call.scalar_arg(base == "scalar_tensor" ? "s" : "fill_value");
  if (given && !call.must_fit(*given, dtype)) return call.decline(Reason::call_attribute);
  if (given && given->isSymFloat()) {
    const ValueId v = call.scalar(*given, dtype);
    Attrs shape;
    shape.sizes = attrs.sizes;
    if (shape.sizes.empty()) return call.done(call.build.pointwise(Op::copy, std::vector<ValueId>{v}));
    return call.done(call.build.pointwise(Op::copy, std::vector<ValueId>{call.build.view(Op::expand, v, std::move(shape))}, {},
                                          call.build.contiguous_strides(attrs.sizes)));
  }
  if (given) {
    attrs.value = number_of(call.tape, *given);
  } else {
    attrs.value.kind = Number::Kind::integer;
    attrs.value.integer = base.find("ones") != base.npos;
  }
  return call.done(call.build.create(Op::full, std::move(attrs)));
}

namespace {

// start, end and step of an arange, or nothing where one is no number that the trace can name.
struct Steps {
  FloatExprPtr start, end, step;
};

FloatExprPtr number_given(OpCall& call, std::string_view name, double otherwise) {
  if (!call.given(name)) return float_constant(otherwise);
  const auto s = call.scalar_arg(name);
  if (!s || s->isComplex()) return nullptr;
  if (!s->isSymInt() && !s->isSymFloat()) return float_constant(s->toDouble());
  const Node* const node = Node::of(s->isSymInt() ? s->toSymInt().toSymNodeImplUnowned() : s->toSymFloat().toSymNodeImplUnowned());
  return node != nullptr && &node->tape() == &call.tape ? node->as_float() : nullptr;
}

// The length is computed in double, as ATen does, from numbers of which one is a float of sizes. Of constants it is ATen's own call, to the last bit.
bool lower_float_arange(OpCall& call, DType dtype) {
  const Steps of{number_given(call, "start", 0), number_given(call, "end", 0), number_given(call, "step", 1)};
  if (!is_float(dtype) || !of.start || !of.end || !of.step) return call.decline(Reason::call_attribute);
  const FloatExprPtr count = float_binary(FloatExpr::Kind::div, float_binary(FloatExpr::Kind::sub, of.end, of.start), of.step);
  const auto quotient = count->kind != FloatExpr::Kind::constant ? real_dim(call.tape, *count) : std::nullopt;
  if (!quotient || !(count->hint >= 0)) return call.decline(Reason::call_attribute);
  DimTable& dims = call.table();
  call.tape.guard_relation(Guard::Kind::equal, dims.apply(SizeOp::real_less, *quotient, dims.real(0)), dims.constant(0), true, "arange does not run backwards");
  Attrs attrs;
  attrs.sizes = {dims.neg(dims.apply(SizeOp::real_floor, dims.apply(SizeOp::real_mul, *quotient, dims.real(-1))))};
  attrs.dtype = DType::f64;
  attrs.value = number_of(call.tape, c10::Scalar(0));
  attrs.value2 = number_of(call.tape, c10::Scalar(1));
  const ValueId counted = call.build.create(Op::arange, std::move(attrs));
  const auto apply = [&](Op op, ValueId a, ValueId b) { return call.build.pointwise(op, std::vector<ValueId>{a, b}); };
  return call.done(call.build.cast(apply(Op::add, apply(Op::mul, counted, materialise(call.tape, *of.step)), materialise(call.tape, *of.start)), dtype));
}

}  // namespace

// arange of integers, and of floats where start, end and step are whole numbers: there the length follows from integers. In half types ATen
// counts on from numbers that are rounded already, by vectors of the machine's width.
bool lower_arange(OpCall& call) {
  const DType dtype = call.result_type();
  if (is_half(dtype)) return call.decline(Reason::call_dtype);
  if (dtype == DType::other || call.plan.form == OpPlan::Form::out) return call.decline(Reason::call_dtype);
  DimTable& dims = call.table();
  const auto whole = [&](std::string_view name, int64_t otherwise) -> std::optional<Dim> {
    if (!call.given(name)) return dims.constant(otherwise);
    const auto s = call.scalar_arg(name);
    if (!s) return {};
    if (s->isSymInt()) return call.tape.dim_of(s->toSymInt());
    if (s->isSymFloat()) return {};
    if (s->isIntegral(/*includeBool=*/true)) return dims.constant(s->toLong());
    const double v = s->toDouble();
    if (!(std::abs(v) < 0x1p63) || v != static_cast<double>(static_cast<int64_t>(v))) return {};
    return dims.constant(static_cast<int64_t>(v));
  };
  const auto start = whole("start", 0), end = whole("end", 0), step = whole("step", 1);
  if (!start || !end || !step) return lower_float_arange(call, dtype);
  if (!dims.as_constant(*step)) return call.decline(Reason::call_attribute);
  const int64_t by = *dims.as_constant(*step);
  const Dim span = by > 0 ? dims.sub(*end, *start) : dims.sub(*start, *end);
  const Dim stride = dims.constant(by > 0 ? by : -by);
  const Dim length = dims.floordiv(dims.add(span, dims.sub(stride, dims.constant(1))), stride);
  call.tape.guard_relation(Guard::Kind::less_equal, dims.constant(0), span, true, "arange does not run backwards");
  Attrs attrs;
  attrs.sizes = {length};
  attrs.dtype = dtype;
  const auto as_number = [&](Dim d) {
    Number n;
    const auto c = dims.as_constant(d);
    n.kind = c ? Number::Kind::integer : Number::Kind::dim;
    if (c) n.integer = *c; else n.dim = d;
    return n;
  };
  attrs.value = as_number(*start);
  attrs.value2 = as_number(*step);
  return call.done(call.build.create(Op::arange, std::move(attrs)));
}

// --- indexing

bool lower_embedding(OpCall& call) {
  const ValueId table = call.value("weight"), positions = call.value("indices");
  if (!positions_ok(call, positions) || call.type(table).dtype == DType::other) return call.decline(Reason::call_dtype);
  if (!holds_something(call, call.type(table).sizes)) return call.decline(Reason::call_attribute);
  return looked_up(call, call.build.index(Op::embedding, std::vector<ValueId>{table, positions}, {}));
}

bool lower_index_select(OpCall& call) {
  const ValueId data = call.value("self"), positions = call.value("index");
  const auto axis = call.axis("dim", call.rank(data));
  if (call.type(data).dtype == DType::other) return call.decline(Reason::call_dtype);
  if (!axis || call.rank(data) == 0 || call.rank(positions) != 1 || !positions_ok(call, positions)) return call.decline(Reason::call_attribute);
  if (!holds_something(call, call.type(data).sizes)) return call.decline(Reason::call_attribute);
  Attrs attrs;
  attrs.axis = *axis;
  return looked_up(call, call.build.index(Op::index_select, std::vector<ValueId>{data, positions}, std::move(attrs)));
}

bool lower_gather(OpCall& call) {
  const ValueId data = call.value("self"), positions = call.value("index");
  const auto axis = call.axis("dim", call.rank(data));
  if (call.type(data).dtype == DType::other) return call.decline(Reason::call_dtype);
  if (!axis || call.rank(data) == 0 || call.rank(positions) != call.rank(data) || !positions_ok(call, positions))
    return call.decline(Reason::call_attribute);
  Attrs attrs;
  attrs.axis = *axis;
  return looked_up(call, call.build.index(Op::gather, std::vector<ValueId>{data, positions}, std::move(attrs)));
}

// x[i] with one vector of positions, on any axis. Negative positions count from the end in x[i], but not in index_select.
bool lower_index(OpCall& call) {
  const ValueId data = call.value("self");
  const std::vector<ValueId> indices = call.list("indices");
  int axis = -1;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    if (axis >= 0) return call.decline(Reason::call_attribute);
    axis = static_cast<int>(i);
  }
  if (axis < 0 || call.rank(indices[axis]) != 1 || call.type(indices[axis]).dtype != DType::i64) return call.decline(Reason::call_attribute);
  if (call.type(data).dtype == DType::other) return call.decline(Reason::call_dtype);
  std::vector<Dim> others = call.type(data).sizes;
  others.erase(others.begin() + axis);   // the kernel checks each position that it looks up
  if (!holds_something(call, others)) return call.decline(Reason::call_attribute);
  const DType i64 = DType::i64;
  Number size;
  size.kind = Number::Kind::dim;
  size.dim = call.type(data).sizes[axis];
  const ValueId position = indices[axis];
  const ValueId negative = call.build.pointwise(Op::lt, std::vector<ValueId>{position, call.scalar(c10::Scalar(0), i64)});
  const ValueId wrapped = call.build.pointwise(Op::add, std::vector<ValueId>{position, call.tape.scalar(size, i64)});
  const ValueId normal = call.build.pointwise(Op::where, std::vector<ValueId>{negative, wrapped, position});
  Attrs attrs;
  attrs.axis = axis;
  attrs.mode = "index";   // what it raises
  return looked_up(call, call.build.index(Op::index_select, std::vector<ValueId>{data, normal}, std::move(attrs)));
}

// --- combining

namespace {

bool combined(OpCall& call, const std::vector<ValueId>& parts, int axis) {
  Attrs attrs;
  attrs.axis = axis;
  const ValueId v = call.build.combine(Op::cat, parts, std::move(attrs));
  return call.done(v);
}

}  // namespace

bool lower_cat(OpCall& call) {
  if (call.given("dim") && call.arg("dim").isString()) return call.decline(Reason::call_attribute);
  std::vector<ValueId> parts;
  std::vector<at::Tensor> reals;
  for (int i = 0; const ValueId v : call.list("tensors")) {
    const at::Tensor real = call.real_in("tensors", i++);
    // An old rule: a one-dimensional empty tensor is skipped whatever its rank.
    if (call.rank(v) == 1 && call.reals[0].dim() != 1) {
      if (call.table().as_constant(call.type(v).sizes[0]) != std::optional<int64_t>(0)) return call.decline(Reason::call_attribute);
      continue;
    }
    if (call.type(v).dtype == DType::other) return call.decline(Reason::call_dtype);
    parts.push_back(v);
    reals.push_back(real);
  }
  const auto axis = axis_in(call.integer("dim"), call.reals[0].dim());
  if (!axis || parts.empty() || !call.reals[0].is_contiguous()) return call.decline(Reason::call_layout);
  for (size_t i = 0; i < parts.size(); ++i) hold_format(call, parts[i], reals[i]);
  return combined(call, parts, *axis);
}

bool lower_stack(OpCall& call) {
  const auto axis = axis_in(call.integer("dim"), call.reals[0].dim());
  if (!axis || call.result_type() == DType::other) return call.decline(Reason::call_dtype);
  std::vector<ValueId> parts;
  for (const ValueId v : call.list("tensors")) {
    Attrs attrs;
    attrs.axis = *axis;
    parts.push_back(call.build.view(Op::unsqueeze, v, std::move(attrs)));
  }
  return !parts.empty() && combined(call, parts, *axis);
}

namespace {

// Then eager clones, and so keeps a strange layout; else the result is contiguous, whether the argument is or not.
bool pads_nothing(OpCall& call, ValueId v, std::span<const Dim> pads) {
  if (call.build.is_contiguous(call.type(v))) return false;
  DimTable& dims = call.table();
  Dim all = dims.constant(0);
  for (const Dim pad : pads) all = dims.add(all, pad);
  const bool nothing = dims.hint(all) == std::optional<int64_t>(0);
  call.tape.guard_relation(Guard::Kind::equal, all, dims.constant(0), nothing, "a pad of nothing");
  return nothing;
}

}  // namespace

// What is padded is contiguous unless the tensor's strides are those of channels last. Those have the channels innermost, which a tensor that
// is contiguous only because its other axes have one element may have, too.
bool pads_to_contiguous(OpCall& call, const TensorType& type) {
  if (type.rank() < 4 || type.rank() > 5) return true;
  const Dim channels = type.strides[1], last = type.strides[type.rank() - 1];
  if (call.table().as_constant(last) == std::optional<int64_t>(1)) return true;
  if (call.table().hint(channels) <= call.table().hint(last)) return false;
  call.tape.guard_relation(Guard::Kind::less, last, channels, true, "the layout of a padded tensor");
  return true;
}

bool lower_pad(OpCall& call) {
  const ValueId v = call.value("self");
  if (call.plan.base == "pad" && call.text("mode") != "constant") return call.decline(Reason::call_attribute);
  if (call.type(v).dtype == DType::other || !call.reals[0].is_contiguous()) return call.decline(Reason::call_dtype);
  Attrs attrs;
  attrs.sizes = call.dims("pad");
  for (const Dim d : attrs.sizes)  // a negative pad cuts: left to ATen
    if (call.table().less_equal(call.table().constant(0), d) != Truth::yes) return call.decline(Reason::call_attribute);
  if (pads_nothing(call, v, attrs.sizes)) return lower_clone(call);
  const TensorType type = call.type(v);
  hold_format(call, v, call.real("self"));
  if (!pads_to_contiguous(call, type)) return call.decline(Reason::call_layout);
  if (call.given("value") && !call.must_fit(call.arg("value").toScalar(), call.result_type())) return call.decline(Reason::call_attribute);
  attrs.value = call.given("value") ? number_of(call.tape, call.arg("value")) : number(0);
  return call.done(call.build.combine(Op::pad, std::vector<ValueId>{v}, std::move(attrs)));
}

// --- contractions: the arguments are kept as the schema has them; only the sizes are ours

namespace {

// Rows of the first by columns of the second, and what both are repeated along.
std::vector<Dim> contracted_sizes(OpCall& call) {
  const auto operand = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      if (call.find(name) >= 0) return call.type(call.value(name)).sizes;
    return std::vector<Dim>();
  };
  const std::vector<Dim> a = operand({"mat1", "batch1", "self"}), b = operand({"mat2", "batch2", "other"});
  if (a.empty() || b.empty()) return {};
  const size_t rows = a.size() > 1 ? 2 : 1, columns = b.size() > 1 ? 2 : 1;
  std::vector<Dim> sizes = call.build.broadcast(std::vector<Dim>(a.begin(), a.end() - rows), std::vector<Dim>(b.begin(), b.end() - columns), "matmul");
  if (rows == 2) sizes.push_back(a[a.size() - 2]);
  if (columns == 2) sizes.push_back(b.back());
  return sizes;
}

}  // namespace

bool lower_contract(OpCall& call) {
  const auto op = op_from_name(call.plan.base);
  if (call.plan.form == OpPlan::Form::out && call.plan.base != "linear") call.result_sizes = contracted_sizes(call);
  if (!op || call.plan.form != OpPlan::Form::functional) return call.decline(Reason::call_contraction);
  if (!is_float(call.result_type())) return call.decline(Reason::call_dtype);
  CallArgs collected = call_args(call.tape, *call.plan.schema, call.args, call.values);
  Attrs attrs;
  attrs.target = call.plan.target;
  attrs.args = std::move(collected.args);
  return call.done(call.build.contract(*op, collected.operands, std::move(attrs)));
}

bool lower_linear(OpCall& call) { return lower_contract(call); }

bool lower_attention(OpCall& call) {
  if (call.number("dropout_p") != 0) return call.decline(Reason::call_random);
  if (!is_float(call.result_type())) return call.decline(Reason::call_dtype);
  CallArgs collected = call_args(call.tape, *call.plan.schema, call.args, call.values);
  Attrs attrs;
  attrs.target = call.plan.target;
  attrs.args = std::move(collected.args);
  return call.done(call.build.contract(Op::attention, collected.operands, std::move(attrs)));
}

}  // namespace escapement
