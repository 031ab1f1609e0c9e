// Reductions and the composites that reduce: sum, mean, max, var, norms, softmax, normalisations.
#include "torch/record/lower_families.h"
#include "torch/record/suggested_format.h"
#include "trace/reductions.h"

#include <cmath>
#include <limits>

namespace escapement {

namespace {

bool float_in(const OpCall& call, ValueId v) { return is_float(call.type(v).dtype); }

std::optional<DType> dtype_argument(const OpCall& call) {
  if (!call.given("dtype")) return {};
  return dtype_of(static_cast<c10::ScalarType>(call.integer("dtype")));
}

// The input in the dtype that `dtype=` asks for; as it is where there are no kernels of ours for one of the two.
ValueId in_dtype(OpCall& call, ValueId v) {
  const auto dtype = dtype_argument(call);
  return dtype && *dtype != DType::other && call.type(v).dtype != DType::other ? call.build.cast(v, *dtype) : v;
}

std::vector<int32_t> reduced_axes(const OpCall& call, ValueId v) {
  return call.axes("dim", call.rank(v));
}

Attrs reduce_attrs(const OpCall& call, ValueId v) {
  Attrs attrs;
  attrs.axes = reduced_axes(call, v);
  if (attrs.axes.empty())
    for (int i = 0; i < call.rank(v); ++i) attrs.axes.push_back(i);
  attrs.keepdim = call.flag("keepdim");
  return attrs;
}

std::vector<ValueId> one(ValueId v) { return {v}; }

ValueId reduced(OpCall& call, Op op, ValueId v) {
  return call.build.reduce(op, v, reduced_axes(call, v), call.flag("keepdim"));
}

}  // namespace

namespace {

// Summed up in the type of the result.
bool lower_total(OpCall& call, Op op) {
  ValueId v = call.value("self");
  if (call.type(v).dtype == DType::other || call.result_type() == DType::other) return call.decline(Reason::call_dtype);
  v = in_dtype(call, v);
  if (call.type(v).dtype != call.result_type() && !is_integer(call.type(v).dtype) && call.type(v).dtype != DType::b8)
    return call.decline(Reason::call_dtype);
  return call.done(reduced(call, op, v));
}

bool lower_extreme(OpCall& call, Op op) {
  const ValueId v = call.value("self");
  const DType type = call.type(v).dtype;
  if (type == DType::other || (gives_position(op) && type == DType::b8)) return call.decline(Reason::call_dtype);
  return call.done(reduced(call, op, v));
}

bool lower_truth(OpCall& call, Op op) {
  const ValueId v = call.value("self");
  if (call.type(v).dtype == DType::other || call.result_type() != DType::b8) return call.decline(Reason::call_dtype);
  if (call.given("dim") && call.rank(v) > 0 && call.axes("dim", call.rank(v)).empty()) return call.decline(Reason::call_attribute);   // of no axes: as it is
  return call.done(reduced(call, op, v));
}

}  // namespace

bool lower_reduction(OpCall& call, Op op) {
  switch (reduction(op).accumulator) {
    case Accumulator::result: return lower_total(call, op);
    case Accumulator::operand:
    case Accumulator::count: return lower_extreme(call, op);
    case Accumulator::truth: return lower_truth(call, op);
  }
  throw InternalError("unknown accumulator");
}

// A mean that is asked for in a half type is rounded when it is done.
bool lower_mean(OpCall& call) {
  const ValueId self = call.value("self");
  const auto dtype = dtype_argument(call);
  const DType given = call.type(self).dtype;
  const bool late = dtype && is_half(*dtype) && given != *dtype && given != DType::other;
  const ValueId v = late ? call.build.cast(self, DType::f32) : in_dtype(call, self);
  if (!float_in(call, v)) return call.decline(Reason::call_dtype);
  const ValueId mean = call.build.composite(Op::mean, one(v), reduce_attrs(call, v));
  return call.done(late ? call.build.cast(mean, *dtype) : mean);
}

// max(x), max(x, other), and max(x, dim) with its indices.
bool lower_max(OpCall& call) {
  const bool max = call.plan.base == "max";
  if (call.given("other")) return lower_pointwise(call, max ? Op::maximum : Op::minimum);
  const ValueId v = call.value("self");
  if (call.type(v).dtype == DType::other || call.type(v).dtype == DType::b8) return call.decline(Reason::call_dtype);
  call.done(reduced(call, max ? Op::amax : Op::amin, v));
  if (call.reals.size() == 2) call.done(reduced(call, max ? Op::argmax : Op::argmin, v));
  return true;
}

namespace {

std::optional<int32_t> correction_of(const OpCall& call) {
  if (call.find("unbiased") >= 0) return call.flag("unbiased", true) ? 1 : 0;
  if (!call.given("correction")) return 1;
  const double c = call.number("correction");
  if (!(std::abs(c) < 0x1p31) || c != static_cast<int32_t>(c)) return {};
  return static_cast<int32_t>(c);
}

// With an `out` of another dtype ATen computes in that one.
bool is_as_wide(const OpCall& call, ValueId v) { return call.result_type() == call.type(v).dtype; }

}  // namespace

bool lower_var(OpCall& call) {
  const ValueId v = call.value("self");
  const auto correction = correction_of(call);
  if (!float_in(call, v) || !correction || !is_as_wide(call, v)) return call.decline(Reason::call_dtype);
  Attrs attrs = reduce_attrs(call, v);
  attrs.correction = *correction;
  return call.done(call.build.composite(call.plan.base == "var" ? Op::var : Op::std, one(v), std::move(attrs)));
}

bool lower_var_mean(OpCall& call) {
  const ValueId v = call.value("self");
  const auto correction = correction_of(call);
  if (!float_in(call, v) || !correction) return call.decline(Reason::call_dtype);
  Attrs attrs = reduce_attrs(call, v);
  Attrs with = attrs;
  with.correction = *correction;
  call.done(call.build.composite(call.plan.base == "var_mean" ? Op::var : Op::std, one(v), std::move(with)));
  const DType dtype = call.type(v).dtype;   // the mean is a by-product of the variance, and as wide
  const ValueId wide = dtype == DType::f16 ? v : call.build.cast(v, DType::f64);
  return call.done(call.build.cast(call.build.composite(Op::mean, one(wide), std::move(attrs)), dtype));
}

bool lower_norm(OpCall& call) {
  const bool vector_norm = call.plan.base == "linalg_vector_norm";
  const ValueId v = in_dtype(call, call.value("self"));
  if (!float_in(call, v)) return call.decline(Reason::call_dtype);
  double p = 2;
  const char* name = vector_norm ? "ord" : "p";
  if (call.given(name)) {
    if (call.arg(name).isString()) return call.decline(Reason::call_attribute);
    p = call.number(name);
  }
  Attrs attrs = reduce_attrs(call, v);
  attrs.value.kind = Number::Kind::real;
  attrs.value.real = p;
  // An extreme of nothing is eager's error, in eager's words: another recording, which raises it.
  if (p < 0 || std::isinf(p)) {
    std::vector<Dim> sizes;
    for (const int32_t axis : attrs.axes) sizes.push_back(call.type(v).sizes[static_cast<size_t>(axis)]);
    call.tape.guard_relation(Guard::Kind::less, call.table().constant(0), call.table().product(sizes), true,
                             "a norm of this order needs elements");
  }
  return call.done(call.build.composite(Op::norm, one(v), std::move(attrs)));
}

bool lower_logsumexp(OpCall& call) {
  const ValueId v = call.value("self");
  if (!float_in(call, v) || !is_as_wide(call, v)) return call.decline(Reason::call_dtype);
  if (call.axes("dim", call.rank(v)).empty()) return call.decline(Reason::call_attribute);   // ATen takes it for all axes, and refuses most sizes
  return call.done(call.build.composite(Op::logsumexp, one(v), reduce_attrs(call, v)));
}

// --- softmax

bool lower_softmax(OpCall& call) {
  const bool log = call.plan.base.ends_with("log_softmax");
  const ValueId v = call.value("self");
  const auto axis = call.axis("dim", call.rank(v));
  if (!axis || call.rank(v) == 0 || call.type(v).dtype == DType::other) return call.decline(Reason::call_dtype);
  Attrs attrs;
  attrs.axis = *axis;
  const DType result = call.result_type();
  if (!is_float(result)) return call.decline(Reason::call_dtype);   // ATen refuses it, but not of nothing
  const bool widens = call.type(v).dtype == DType::f16 && result == DType::f32;   // any other dtype the input is brought to first
  const ValueId x = widens || result == call.type(v).dtype ? v : call.build.cast(v, result);
  if (widens) attrs.dtype = result;
  return call.done(call.build.composite(log ? Op::log_softmax : Op::softmax, one(x), std::move(attrs)));
}

// Rows of which all is masked are zeros instead of nan.
bool lower_safe_softmax(OpCall& call) {
  const ValueId x = call.value("self");
  const auto axis = call.axis("dim", call.rank(x));
  const DType type = call.result_type();
  if (!axis || call.rank(x) == 0 || !is_float(type) || call.type(x).dtype != type) return call.decline(Reason::call_dtype);
  Attrs attrs;
  attrs.axis = *axis;
  const ValueId rows = call.build.composite(Op::softmax, one(x), std::move(attrs));
  const ValueId most = call.build.reduce(Op::amax, x, {*axis}, /*keepdim=*/true);
  const ValueId masked = call.build.pointwise(Op::eq, std::vector<ValueId>{most, call.scalar(-std::numeric_limits<double>::infinity(), type)});
  return call.done(call.build.pointwise(Op::where, std::vector<ValueId>{masked, call.scalar(0.0, type), rows}));
}

bool lower_softmax_backward(OpCall& call) {
  const bool log = call.plan.base.starts_with("_log");
  const ValueId gradient = call.value("grad_output"), output = call.value("output");
  const auto axis = call.axis("dim", call.rank(output));
  if (!axis || call.rank(output) == 0 || call.result_type() != call.type(output).dtype) return call.decline(Reason::call_dtype);
  Attrs attrs;
  attrs.axis = *axis;
  return call.done(call.build.composite(log ? Op::log_softmax_backward : Op::softmax_backward,
                                        std::vector<ValueId>{gradient, output}, std::move(attrs)));
}

// --- normalisations. Absent weights are left out from the end: x; x, weight; x, weight, bias.

namespace {

// Empty: a bias without a weight, which no row describes.
std::vector<ValueId> with_affine(const OpCall& call, ValueId x) {
  std::vector<ValueId> operands{x};
  if (call.given("weight")) operands.push_back(call.value("weight"));
  if (call.given("bias")) {
    if (operands.size() == 1) return {};
    operands.push_back(call.value("bias"));
  }
  return operands;
}

// The last axes, whose sizes the program says.
std::vector<int32_t> normalised_axes(OpCall& call, ValueId x) {
  const std::vector<Dim> said = call.dims("normalized_shape");
  std::vector<int32_t> axes;
  for (const Dim size : said) {
    const int axis = call.rank(x) - static_cast<int>(said.size()) + static_cast<int>(axes.size());
    call.tape.guard_relation(Guard::Kind::equal, size, call.type(x).sizes[axis], true, "normalized_shape is the input's own");
    axes.push_back(axis);
  }
  return axes;
}

// A composite over x and its weights; no value if they are not describable.
ValueId normalised(OpCall& call, Op op, ValueId x, Attrs attrs, double default_eps = 1e-5) {
  const std::vector<ValueId> operands = with_affine(call, x);
  attrs.eps = call.number("eps", default_eps);
  return operands.empty() ? ValueId() : call.build.composite(op, operands, std::move(attrs));
}

bool done_or_decline(OpCall& call, ValueId v) { return v ? call.done(v) : call.decline(Reason::call_attribute); }

}  // namespace

bool lower_layer_norm(OpCall& call) {
  const ValueId x = call.value("input");
  if (!float_in(call, x)) return call.decline(Reason::call_dtype);
  Attrs attrs;
  attrs.axes = normalised_axes(call, x);
  return done_or_decline(call, normalised(call, Op::layer_norm, x, std::move(attrs)));
}

namespace {

// Eager's mean of no elements is 0 here, and NaN everywhere else.
bool has_elements(OpCall& call, ValueId x, std::span<const int32_t> axes) {
  Dim count = call.table().constant(1);
  for (const int32_t axis : axes) count = call.table().mul(count, call.type(x).sizes[static_cast<size_t>(axis)]);
  const bool some = call.table().hint(count) != std::optional<int64_t>(0);
  call.tape.guard_relation(Guard::Kind::less, call.table().constant(0), count, some, "a mean of some elements");
  return some;
}

}  // namespace

bool lower_native_layer_norm(OpCall& call) {
  const ValueId x = call.value("input");
  if (!float_in(call, x) || call.result_type(1) != call.type(x).dtype) return call.decline(Reason::call_dtype);
  Attrs attrs;
  attrs.axes = normalised_axes(call, x);
  if (!has_elements(call, x, attrs.axes)) return call.decline(Reason::call_attribute);
  const ValueId y = normalised(call, Op::layer_norm, x, attrs);
  if (!y) return call.decline(Reason::call_attribute);
  call.done(y);
  attrs.keepdim = true;
  call.done(call.build.composite(Op::mean, one(x), attrs));
  const ValueId variance = call.build.composite(Op::var, one(x), std::move(attrs));  // correction 0
  const ValueId eps = call.constant(call.number("eps", 1e-5), compute_type(call.type(x).dtype));
  const ValueId sum = call.build.pointwise(Op::add, std::vector<ValueId>{variance, eps});
  return call.done(call.build.pointwise(Op::rsqrt, one(sum)));
}

bool lower_rms_norm(OpCall& call) {
  const ValueId x = call.value("input");
  if (!float_in(call, x) || call.result_type() != call.type(x).dtype) return call.decline(Reason::call_dtype);
  Attrs attrs;
  attrs.axes = normalised_axes(call, x);
  // ATen's default is the epsilon of the type it computes in: float's for half types.
  const double eps = call.type(x).dtype == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  return done_or_decline(call, normalised(call, Op::rms_norm, x, std::move(attrs), eps));
}

bool lower_group_norm(OpCall& call) {
  const ValueId x = call.value("input");
  if (!float_in(call, x) || !call.build.is_contiguous(call.type(x))) return call.decline(Reason::call_dtype);
  Attrs attrs;
  attrs.axis = static_cast<int32_t>(call.integer("num_groups"));
  return done_or_decline(call, normalised(call, Op::group_norm, x, std::move(attrs)));
}

namespace {

std::optional<ValueId> inference_batch_norm(OpCall& call, ValueId x) {
  if (!is_float(call.type(x).dtype) || call.rank(x) < 2 || !call.given("running_mean") || !call.given("running_var")) return {};
  const Dim features = call.type(x).sizes[1];   // eager looks at the first of them
  const bool some = call.table().hint(features) != std::optional<int64_t>(0);
  call.tape.guard_relation(Guard::Kind::less, call.table().constant(0), features, some, "batch_norm of some features");
  if (!some) return {};
  Attrs attrs;
  attrs.eps = call.number("eps", 1e-5);
  std::vector<ValueId> operands = with_affine(call, x);
  if (operands.empty()) return {};
  operands.push_back(call.value("running_mean"));
  operands.push_back(call.value("running_var"));
  return call.build.composite(Op::batch_norm, operands, std::move(attrs));
}

}  // namespace

bool lower_batch_norm(OpCall& call) {
  if (call.flag("training")) return call.decline(Reason::call_attribute);
  if (!suggests_one_format(call, call.value("input"))) return call.decline(Reason::call_layout);
  const auto v = inference_batch_norm(call, call.value("input"));
  return v ? call.done(*v) : call.decline(Reason::call_attribute);
}

bool lower_native_batch_norm(OpCall& call) {
  (void)call;
  return call.decline(Reason::call_attribute);  // three results, two of them empty: training graphs only
}

bool lower_tril(OpCall& call) {
  const ValueId v = call.value("self");
  if (call.type(v).dtype == DType::other) return call.decline(Reason::call_dtype);
  Attrs attrs;
  attrs.start = call.given("diagonal") ? call.dim("diagonal") : call.table().constant(0);
  return call.done(call.build.composite(call.plan.base == "tril" ? Op::tril : Op::triu, one(v), std::move(attrs)));
}

bool lower_glu(OpCall& call) {
  const ValueId v = call.value("self");
  const auto axis = axis_in(call.integer("dim", -1), call.rank(v));
  if (!axis || !float_in(call, v)) return call.decline(Reason::call_dtype);
  Attrs attrs;
  attrs.axis = *axis;
  return call.done(call.build.composite(Op::glu, one(v), std::move(attrs)));
}

// Outside training the op returns its argument; in training it draws random numbers, but for a tensor without elements.
bool lower_dropout(OpCall& call) {
  const ValueId input = call.value("input");
  if (!input || call.reals.size() != 1) return call.decline(Reason::call_random);
  if (!call.reals[0].is_same(call.real("input"))) return call.decline(Reason::call_random);
  if (call.flag("train") && call.number("p") != 0) {
    const Dim count = call.table().product(call.type(input).sizes);
    call.tape.guard_relation(Guard::Kind::equal, count, call.table().constant(0), true, "dropout of nothing draws nothing");
  }
  return call.done(input);
}

}  // namespace escapement
