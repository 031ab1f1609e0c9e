// Loop nests of typical kernels, as the planner would make them, for benchmarks of generated code.
#pragma once

#include <utility>

#include "kernels/loops.h"
#include "trace/scalar_math.h"

namespace escapement {

using scalar::Expr;

inline constexpr DType kF32 = DType::f32;

inline LoopInput load_of(uint32_t param) { return {.kind = LoopInput::Kind::load, .number = param}; }
inline LoopInput row_of(uint32_t value) { return {.kind = LoopInput::Kind::row, .number = value}; }
inline Expr in(Stage& s, int number) { return {&s.body, s.body.input(number, kF32)}; }
inline Expr param(Stage& s, int number) { return {&s.body, s.body.param(number, kF32)}; }

inline Expr gelu(Expr x) {
  return x * scalar::constant(x, 0.5) * (scalar::constant(x, 1) + scalar::erf(x * scalar::constant(x, 0.70710678118654752)));
}

inline LoopNest map_nest(int operands, DType type) {
  LoopNest nest;
  nest.axes.resize(1);
  for (int p = 0; p < operands; ++p) nest.params.push_back({type, false, InnerStride::unit});
  nest.params.push_back({type, true, InnerStride::unit});
  nest.stages.resize(1);
  for (int p = 0; p < operands; ++p) nest.stages[0].inputs.push_back(load_of(static_cast<uint32_t>(p)));
  return nest;
}

inline LoopNest add_nest(DType type) {
  LoopNest nest = map_nest(2, type);
  Stage& s = nest.stages[0];
  Expr sum = in(s, 0) + in(s, 1);
  s.stores = {{2, sum.reg}};
  return nest;
}

inline LoopNest chain_nest(DType type) {  // relu((a * b + a) * 1.5 - b)
  LoopNest nest = map_nest(2, type);
  Stage& s = nest.stages[0];
  Expr a = in(s, 0), b = in(s, 1);
  s.stores = {{2, scalar::relu((a * b + a) * scalar::constant(a, 1.5) - b).reg}};
  return nest;
}

inline LoopNest silu_mul_nest(DType type) {
  LoopNest nest = map_nest(2, type);
  Stage& s = nest.stages[0];
  s.stores = {{2, (scalar::silu(in(s, 0)) * in(s, 1)).reg}};
  return nest;
}

inline LoopNest gelu_nest(DType type) {
  LoopNest nest = map_nest(1, type);
  Stage& s = nest.stages[0];
  s.stores = {{1, gelu(in(s, 0)).reg}};
  return nest;
}

inline LoopNest row_nest() {
  LoopNest nest;
  nest.schedule = Schedule::row;
  nest.axes = {{false, false}, {true, false}};
  return nest;
}

inline LoopNest softmax_nest(DType type) {
  LoopNest nest = row_nest();
  nest.params = {{type, false, InnerStride::unit}, {type, true, InnerStride::unit}};
  nest.row_values = {kF32, kF32};
  nest.stages.resize(3);
  Stage &largest = nest.stages[0], &sum = nest.stages[1], &result = nest.stages[2];
  largest.inputs = {load_of(0)};
  largest.reductions = {{Op::amax, in(largest, 0).reg, 0}};
  sum.inputs = {load_of(0), row_of(0)};
  sum.reductions = {{Op::sum, scalar::exp(in(sum, 0) - in(sum, 1)).reg, 1}};
  result.inputs = {load_of(0), row_of(0), row_of(1)};
  result.stores = {{1, (scalar::exp(in(result, 0) - in(result, 1)) / in(result, 2)).reg}};
  return nest;
}

inline LoopNest layer_norm_nest(DType type, bool with_gelu) {
  LoopNest nest = row_nest();
  nest.params = {{type, false, InnerStride::unit}, {type, false, InnerStride::unit}, {type, false, InnerStride::unit}, {type, true, InnerStride::unit}};
  nest.scalars = {kF32, kF32};  // 1/n, eps
  nest.row_values = {kF32, kF32, kF32, kF32};
  nest.stages.resize(5);
  Stage &sum = nest.stages[0], &mean = nest.stages[1], &squares = nest.stages[2], &scale = nest.stages[3], &result = nest.stages[4];
  sum.inputs = {load_of(0)};
  sum.reductions = {{Op::sum, in(sum, 0).reg, 0}};
  mean.kind = scale.kind = Stage::Kind::each_row;
  mean.inputs = {row_of(0)};
  mean.keeps = {{(in(mean, 0) * param(mean, 0)).reg, 1}};
  squares.inputs = {load_of(0), row_of(1)};
  Expr d = in(squares, 0) - in(squares, 1);
  squares.reductions = {{Op::sum, (d * d).reg, 2}};
  scale.inputs = {row_of(2)};
  Expr variance = in(scale, 0) * param(scale, 0) + param(scale, 1);
  scale.keeps = {{(scalar::constant(variance, 1) / scalar::sqrt(variance)).reg, 3}};
  result.inputs = {load_of(0), row_of(1), row_of(3), load_of(1), load_of(2)};
  Expr y = (in(result, 0) - in(result, 1)) * in(result, 2) * in(result, 3) + in(result, 4);
  result.stores = {{3, (with_gelu ? gelu(y) : y).reg}};
  return nest;
}

inline LoopNest with_sum(LoopNest nest) {   // of parameter 0, to parameter 1
  nest.row_values = {kF32};
  nest.stages.resize(2);
  nest.stages[0].inputs = {load_of(0)};
  nest.stages[0].reductions = {{Op::sum, in(nest.stages[0], 0).reg, 0}};
  nest.stages[1].kind = Stage::Kind::each_row;
  nest.stages[1].inputs = {row_of(0)};
  nest.stages[1].stores = {{1, in(nest.stages[1], 0).reg}};
  return nest;
}

inline LoopNest column_sum_nest(DType type) {
  LoopNest nest;
  nest.schedule = Schedule::column;
  nest.axes = {{true, false}, {false, false}};
  nest.params = {{type, false, InnerStride::unit}, {type, true, InnerStride::unit}};
  return with_sum(std::move(nest));
}

inline LoopNest layer_norm(DType type) { return layer_norm_nest(type, false); }
inline LoopNest layer_norm_gelu(DType type) { return layer_norm_nest(type, true); }

// out[r, c] = in[r, c] + 1 with two axes: for operands whose strides go another way than the result's, and for broadcasts.
inline LoopNest shift_nest(DType type) {
  LoopNest nest = map_nest(1, type);
  nest.axes.resize(2);
  Stage& s = nest.stages[0];
  Expr x = in(s, 0);
  s.stores = {{1, (x + scalar::constant(x, 1)).reg}};
  return nest;
}

inline LoopNest add_bias_nest(DType type) {   // [rows, columns] + [columns]
  LoopNest nest = add_nest(type);
  nest.axes.resize(2);
  return nest;
}

inline LoopNest row_sum_nest(DType type) {
  LoopNest nest = row_nest();
  nest.params = {{type, false, InnerStride::unit}, {type, true, InnerStride::zero}};
  return with_sum(std::move(nest));
}

}  // namespace escapement
