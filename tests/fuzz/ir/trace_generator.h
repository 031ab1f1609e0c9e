// Random traces that a recorder could have made: every op of the table, every dtype, symbolic sizes in expressions, views, writes
// through views, library calls with and without effects, born sizes, integer arguments, inputs that share memory.
//
// Each step is one random call of the Builder; what its rules refuse is left out. Sizes are seen with hints, as while recording, so that
// guards arise as they do there. `library.h` says what the calls compute.
//
// Not generated, because no recording has it: negative strides; devices other than the CPU; dtype `other`; NaN as the sign of a copysign
// (the sign of a NaN is not defined).
#pragma once

#include <algorithm>
#include <cmath>

#include "fuzz/ir/random.h"
#include "trace/builder.h"

namespace escapement::fuzz {

struct TraceLimits {
  size_t steps = 12;
  bool calls = true;     // library calls and born sizes
  bool writes = true;
};

Trace random_trace(Random& random, const TraceLimits& limits = {});

// --- shared by the files of the generator
class TraceGenerator {
 public:
  TraceGenerator(Random& random, const TraceLimits& limits) : random_(random), limits_(limits), b_(trace_) {}
  Trace run();

 private:
  // trace_generator.cpp: sizes, inputs, outputs
  void add_sizes();
  int64_t size_hint();
  void add_input();
  void add_integer();
  void drop_unread_sizes();
  std::vector<Dim> input_strides(const std::vector<Dim>& sizes);
  void add_outputs();
  void step();
  Dim size();                      // for inputs: a symbol or a number
  Dim expression();                // over what is known: products, quotients, rests, extremes
  Number number(DType type);       // an operand written in the program
  Number symbolic_or(Number otherwise);
  DType dtype();
  bool add(ValueId value);         // to the pool; false if there is none
  ValueId any() { return pool_[pool_.size() - 1 - std::min(random_.below(pool_.size()), random_.below(pool_.size()))]; }
  ValueId of_rank(int least);
  ValueId as(DType type, ValueId value) { return b_.cast(value, type); }
  ValueId floating(ValueId value);
  ValueId like(ValueId value);     // another value of the same sizes, if there is one
  const TensorType& type(ValueId v) const { return trace_.type(v); }
  DimTable& dims() { return trace_.dims; }
  Dim k(int64_t value) { return trace_.dims.constant(value); }
  int32_t axis_of(ValueId v) { return static_cast<int32_t>(random_.below(static_cast<size_t>(std::max(type(v).rank(), 1)))); }

  // generate_compute.cpp: pointwise ops, reductions, composites, creation, contractions
  void choose_numbers(Op op, Attrs& attrs);   // those of its row
  ValueId unit(DType type);
  void unary();
  void binary();
  void ternary();
  void cast_chain();
  void reduction();
  void composite();
  void normalisation();
  void creation();
  void contraction();
  ValueId weight(Dim columns);
  ValueId full(std::vector<Dim> sizes, DType type);
  ValueId arange(Dim length, DType type);
  std::vector<int32_t> some_axes(ValueId v);

  // generate_memory.cpp: views, indexing, combining, writes, calls
  void view();
  ValueId reshaped(ValueId v);
  ValueId sliced(ValueId v);
  ValueId windowed(ValueId v);
  void indexing();
  ValueId positions(Dim below);
  void combining();
  ValueId padded(ValueId v);
  void writing();
  void calling();
  void born();
  bool may_write(ValueId v) const;
  void again();

  Random& random_;
  const TraceLimits& limits_;
  Trace trace_;
  Builder b_;
  std::vector<ValueId> pool_;
  std::vector<Dim> symbols_, numbers_;  // of sizes; and integers without a lower bound
  std::vector<bool> overlapping_;       // per value: elements share memory, so nothing may write it
};

}  // namespace escapement::fuzz
