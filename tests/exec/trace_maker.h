// Short names for building traces in tests: the composites that fusion must handle, written out in simple ops.
#pragma once

#include "trace/builder.h"

namespace escapement::testing {

struct Maker {
  Trace trace;
  Builder b{trace};
  using V = ValueId;

  Dim size(int64_t hint = 5) { return b.dims().new_symbol(SymbolKind::size, {}, hint); }
  Dim k(int64_t value) { return b.dims().constant(value); }
  V in(std::vector<Dim> sizes, DType dtype = DType::f32, bool odd = false) {
    TensorType type;
    type.dtype = dtype;
    type.sizes = std::move(sizes);
    if (odd) {
      for (size_t d = 0; d + 1 < type.sizes.size(); ++d) type.strides.push_back(b.dims().new_symbol(SymbolKind::stride, {}, 7));
      if (!type.sizes.empty()) type.strides.push_back(k(1));
    }
    return b.input(type);
  }
  const std::vector<Dim>& sizes(V v) const { return trace.type(v).sizes; }

  V op(Op o, std::vector<V> operands, Attrs attrs = {}) { return b.pointwise(o, operands, attrs); }
  V op(Op o, V a, double number) {
    Attrs attrs;
    attrs.value.kind = Number::Kind::real;
    attrs.value.real = number;
    return b.pointwise(o, std::vector<V>{a}, attrs);
  }
  V reduce(Op o, V a, std::vector<int32_t> axes, bool keepdim = true) { return b.reduce(o, a, std::move(axes), keepdim); }
  V permute(V a, std::vector<int32_t> axes) {
    Attrs attrs;
    attrs.axes = std::move(axes);
    return b.view(Op::permute, a, attrs);
  }
  V reshape(V a, std::vector<Dim> to) {
    Attrs attrs;
    attrs.sizes = std::move(to);
    return b.view(Op::reshape, a, attrs);
  }
  V expand(V a, std::vector<Dim> to) {
    Attrs attrs;
    attrs.sizes = std::move(to);
    return b.view(Op::expand, a, attrs);
  }
  V unsqueeze(V a, int32_t axis) {
    Attrs attrs;
    attrs.axis = axis;
    return b.view(Op::unsqueeze, a, attrs);
  }
  V slice(V a, int32_t axis, Dim start, Dim length) {
    Attrs attrs;
    attrs.axis = axis;
    attrs.start = start;
    attrs.step = k(1);
    attrs.sizes = {length};
    return b.view(Op::slice, a, attrs);
  }
  V arange(Dim length, DType dtype = DType::i64) {
    Attrs attrs;
    attrs.sizes = {length};
    attrs.dtype = dtype;
    attrs.value.kind = attrs.value2.kind = Number::Kind::integer;
    attrs.value2.integer = 1;
    return b.create(Op::arange, attrs);
  }
  V full(std::vector<Dim> to, double value, DType dtype = DType::f32) {
    Attrs attrs;
    attrs.sizes = std::move(to);
    attrs.dtype = dtype;
    attrs.value.kind = Number::Kind::real;
    attrs.value.real = value;
    return b.create(Op::full, attrs);
  }
  V cat(std::vector<V> parts, int32_t axis) {
    Attrs attrs;
    attrs.axis = axis;
    return b.combine(Op::cat, parts, attrs);
  }
  V index(Op o, V data, V positions, int32_t axis = -1) {
    Attrs attrs;
    attrs.axis = axis;
    return b.index(o, std::vector<V>{data, positions}, attrs);
  }
  V softmax(V x, int32_t axis) {
    const V e = op(Op::exp, {op(Op::sub, {x, reduce(Op::amax, x, {axis})})});
    return op(Op::div, {e, reduce(Op::sum, e, {axis})});
  }
  V layer_norm(V x, V weight, V bias) {
    const auto last = static_cast<int32_t>(sizes(x).size() - 1);
    const V n = op(Op::cast, {full({}, 64.0)}, cast_to(DType::f32));
    const V centred = op(Op::sub, {x, op(Op::div, {reduce(Op::sum, x, {last}), n})});
    const V variance = op(Op::div, {reduce(Op::sum, op(Op::mul, {centred, centred}), {last}), n});
    const V scaled = op(Op::mul, {centred, op(Op::rsqrt, {op(Op::add, variance, 1e-5)})});
    return op(Op::add, {op(Op::mul, {scaled, weight}), bias});
  }
  V call(std::string target, std::vector<V> operands, std::vector<Dim> to, DType dtype = DType::f32) {
    const InstrId i = b.call(target, operands, {}, {b.fresh(dtype, std::move(to))}, {}, false, Reason::call_contraction);
    return trace[i].results[0];
  }
  static Attrs cast_to(DType dtype) {
    Attrs attrs;
    attrs.dtype = dtype;
    return attrs;
  }
  void out(V v) {
    Output o;
    o.value = v;
    b.output(o);
  }
};

}  // namespace escapement::testing
