// Entry checks: does a call fit a program? Compiled once into flat records; a check reads each input's TensorImpl once.
//
// The same records bind the symbols: each entry symbol is read from one place (its source), and every other place where a size
// must equal it is compared. Guards at entry and sizes that are expressions are evaluated after all symbols are bound.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "jit/run/shape_program.h"
#include "torch/program.h"

namespace escapement {

class EntryChecks {
 public:
  EntryChecks(const LaunchPlan& plan, std::vector<at::Tensor> captured);

  bool fits(std::span<const Argument> arguments) const;
  Miss explain(std::span<const Argument> arguments) const;
  // Values of the entry symbols, of arguments that fit.
  void bind(std::span<const Argument> arguments, std::span<int64_t> symbols) const;

  const at::Tensor* tensor(std::span<const Argument> arguments, uint32_t input) const {
    return input < arguments.size() ? arguments[input].tensor : &captured_[input - arguments.size()];
  }
  std::span<const at::Tensor> captured() const { return captured_; }

 private:
  struct DimCheck {                    // sizes: every dim; strides: only where the layout is not plain contiguous
    enum class Kind : uint8_t { constant, symbol, expression } kind = Kind::constant;
    int64_t value = 0;                 // constant
    Slot slot = 0;                     // symbol, expression
  };
  struct InputCheck {
    enum class Kind : uint8_t { tensor, integer, ignored } kind = Kind::ignored;
    bool contiguous = true;
    uint8_t rank = 0;
    caffe2::TypeMeta dtype;
    uint32_t sizes = 0, strides = 0;   // first DimCheck of each; strides only if not contiguous
    uint32_t order = 0, order_size = 0;  // into orders_
  };
  struct Binding {
    Source::Kind kind;
    uint32_t input, dim;
    Slot symbol;
  };
  struct GuardCheck {
    Guard::Kind kind;
    Slot left, right;
    uint32_t number;
  };
  struct Overlap {
    uint32_t written, other;
  };

  void add_input(const Trace& trace, const Input& input);
  DimCheck dim_check(const Trace& trace, Dim dim);
  void add_bindings(const LaunchPlan& plan);
  void add_overlaps(const LaunchPlan& plan);

  template <class Report>
  bool check(std::span<const Argument> arguments, std::span<int64_t> table, const Report& report) const;
  template <class Report>
  bool check_tensor(const InputCheck& check, const at::Tensor* tensor, std::span<const int64_t> table, const Report& report) const;
  bool dim_holds(const DimCheck& check, int64_t seen, std::span<const int64_t> table) const;
  int64_t read(const Binding& binding, std::span<const Argument> arguments) const;
  bool present(std::span<const Argument> arguments) const;

  std::vector<at::Tensor> captured_;
  size_t argument_count_ = 0;
  ShapeProgram shapes_;                // of guards and expressions only
  std::vector<InputCheck> inputs_;
  std::vector<DimCheck> dims_;
  std::vector<int32_t> orders_;
  std::vector<Binding> bindings_;
  std::vector<GuardCheck> guards_;
  std::vector<Overlap> overlaps_;
  std::vector<std::string> names_;
  Trace trace_;                        // for explain
};

}  // namespace escapement
