// Small programs for the tests of the evaluator and of expansion.
#pragma once

#include <cmath>
#include <random>

#include "trace/builder.h"
#include "trace/evaluator.h"
#include "trace/scalar.h"
#include "trace/verifier.h"

namespace escapement::evaluator_test {

// A trace under construction, whose tensor inputs have a symbol per axis, seen with the given sizes.
struct Program {
  Trace trace;
  Builder b{trace};

  ValueId tensor(DType dtype, std::vector<int64_t> sizes) {
    TensorType type;
    type.dtype = dtype;
    for (int64_t size : sizes) type.sizes.push_back(trace.dims.new_symbol(SymbolKind::size, {}, size));
    return b.input(type);
  }
  ValueId op(Op op, std::vector<ValueId> operands, Attrs attrs = {}) { return b.pointwise(op, operands, attrs); }
  void result(ValueId v) {
    Output output;
    output.value = v;
    b.output(output);
  }
  Dim constant(int64_t value) { return trace.dims.constant(value); }
  Dim size(ValueId v, size_t axis) { return trace.type(v).sizes[axis]; }

  // Verifies first: what the evaluator runs must be a trace.
  std::vector<HostOutput> run(std::vector<HostInput> inputs, const EvaluatorHooks& hooks = {}) {
    verify(trace);
    Evaluation e = evaluate(trace, inputs, hooks);
    if (e.failed_guard) throw UserError(explain_guard(trace, *e.failed_guard, inputs));
    return e.outputs;
  }
  HostTensor run_one(std::vector<HostInput> inputs) { return std::get<HostTensor>(run(std::move(inputs)).at(0)); }
};

inline Number integer(int64_t value) {
  Number n;
  n.kind = Number::Kind::integer;
  n.integer = value;
  return n;
}

inline Number real(double value) {
  Number n;
  n.kind = Number::Kind::real;
  n.real = value;
  return n;
}

inline HostTensor random_tensor(DType dtype, std::vector<int64_t> sizes, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  HostTensor t = HostTensor::make(dtype, std::move(sizes));
  for (int64_t place : t.places()) t.store(place, to_bits(is_float(dtype) ? normal(random) : std::floor(normal(random) * 5), dtype));
  return t;
}

inline HostTensor tensor_of(DType dtype, std::vector<int64_t> sizes, std::vector<double> values) {
  return HostTensor::from_doubles(dtype, std::move(sizes), values);
}

}  // namespace escapement::evaluator_test
