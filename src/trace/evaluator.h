// The reference evaluator: what a trace means, for concrete inputs. Simple and slow; everything else is tested against it.
//
// It binds the symbols from the inputs, checks the guards, expands the composites, and runs one instruction after the other on
// strided host memory. Views share storage and `write` changes it, inputs included. Contractions of matrices accumulate in f64
// and round once; attention and library calls go to a callback.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "trace/trace.h"

namespace escapement {

struct HostTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> sizes, strides;  // in elements
  std::shared_ptr<std::vector<std::byte>> storage;
  int64_t offset = 0;                   // in elements

  int64_t count() const;
  std::byte* element(int64_t place) const;            // place: elements from the storage's first
  std::vector<int64_t> places() const;                // of all elements, row-major
  std::vector<int64_t> places(std::span<const int64_t> broadcast_to) const;
  uint64_t load(int64_t place) const;                 // register form (scalar.h)
  void store(int64_t place, uint64_t bits) const;

  // Uninitialised bytes are zero. Empty strides: contiguous.
  static HostTensor make(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides = {});
  static HostTensor from_doubles(DType dtype, std::vector<int64_t> sizes, std::span<const double> values);
  std::vector<double> to_doubles() const;             // row-major
};

using HostInput = std::variant<HostTensor, int64_t>;
using HostOutput = std::variant<std::monostate, HostTensor, int64_t, bool>;

struct EvaluatorHooks {
  // Runs a call, or a contraction that has no rule here, on its tensor operands; returns the results. It may write operands.
  std::function<std::vector<HostTensor>(const Trace&, const Instr&, std::span<const HostTensor>)> call;
};

struct Evaluation {
  std::vector<HostOutput> outputs;
  std::optional<uint32_t> failed_guard;  // number among Trace::guards; then there are no outputs
};

// Throws UserError for what eager would refuse at run time (positions out of range), and for inputs that do not fit the trace.
Evaluation evaluate(const Trace& trace, std::span<const HostInput> inputs, const EvaluatorHooks& hooks = {});

// "broadcast of %3 and %4: s0 = 3, s1 = 4": why a guard failed for these inputs.
std::string explain_guard(const Trace& trace, uint32_t guard, std::span<const HostInput> inputs);

}  // namespace escapement
