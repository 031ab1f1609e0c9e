// Entry checks: does a call fit a program? The relations of guards/relations.h, compiled into flat rows, one a tensor.
//
// Most tensors are contiguous, of rank 5 at most, and share dtype and rank with others. They stand in *runs*: what a run shares is
// held in registers, and a row is an argument's number and what its sizes must equal. The others (strides that matter, higher ranks)
// have a row that says everything by itself. Differences of a row are joined and tested once.
//
// Order: first the tensors that bind symbols, then the guards, then everything else, so that a version that a guard rules out costs
// a few tensors and not all. Every metadata word that matters is read at every call, of parameters and captured tensors too: nothing
// in a TensorImpl tells that it was resized (`resize_` and `.data =` move neither its address nor its version counter), so a check
// that trusted an unchanged address would sooner or later read memory that is no longer there.
//
// A size is compared with `table[slot] + plus`, where the slot of constants holds 0: constants and symbols need no branch.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "guards/relations.h"
#include "jit/run/shape_program.h"
#include "torch/program.h"

namespace escapement {

class EntryChecks {
 public:
  // `plan` must outlive this. `left_out`: for tests, a relation (counted from 1) that is not checked; 0: none.
  EntryChecks(const LaunchPlan& plan, std::vector<at::Tensor> captured, uint32_t left_out = 0);

  bool fits(std::span<const Argument> arguments) const;
  Miss explain(std::span<const Argument> arguments) const;
  // Values of the entry symbols, of arguments that fit.
  void bind(std::span<const Argument> arguments, std::span<int64_t> symbols) const;

  const at::Tensor* tensor(std::span<const Argument> arguments, uint32_t input) const {
    return input < arguments.size() ? arguments.data()[input].tensor : captured_.data() + (input - arguments.size());
  }
  std::span<const at::Tensor> captured() const { return captured_; }
  std::span<const Relation> relations() const { return relations_.list; }

 private:
  enum class Layout : uint8_t { any, contiguous, strided };
  struct Compare {
    uint32_t axis = 0;
    Slot slot = 0;
    int64_t plus = 0;
  };
  struct Form {                                // masks are zero only where a test left a relation out
    uint64_t keys = 0, keys_mask = 0;
    uint16_t dtype = 0, dtype_mask = 0;
    uint8_t rank = 0, rank_mask = 0;
    friend bool operator==(const Form&, const Form&) = default;
  };
  struct Row {
    Form form;
    Layout layout = Layout::any;
    bool irregular = false;                    // strided: must not be contiguous
    bool whole = true;                         // every size is compared or binds a symbol
    uint32_t input = 0;
    uint32_t sizes = 0, strides = 0, end = 0;  // [sizes, strides) and [strides, end) of compares_
    uint32_t order = 0, order_size = 0;        // of orders_
  };
  static constexpr int kMaxRunRank = 5;        // what a TensorImpl holds inline
  struct Run {
    Form form;
    bool captured = false;
    bool constant = true;                      // no size depends on a symbol
    std::vector<uint32_t> inputs;              // arguments, or captured tensors counted from the first
    std::vector<Compare> compares;             // rank of them per input, in the order of axes
  };
  struct Value {
    uint32_t input;
    bool compared;
    Compare with;
  };
  struct GuardCheck {
    Guard::Kind kind;
    Slot left, right;
  };

  void compile();
  Row row(uint32_t input, std::span<const Relation> own);
  void compile_row(Row& row, const Relation& relation);
  void note_missing_sizes(Row& row, std::span<const Relation> own);
  void compile_guard(const Guard& guard);
  Compare compare_with(uint32_t axis, Dim expected);
  bool may_join_run(const Row& row) const;
  void join_run(const Row& row);

  bool check(std::span<const Argument> arguments, std::span<int64_t> table) const;
  bool check_row(const Row& row, const at::Tensor* tensor, const int64_t* table) const;
  bool check_strides(const Row& row, const at::Tensor& tensor, const int64_t* table) const;
  bool check_run(const Run& run, std::span<const Argument> arguments, const int64_t* table) const;
  bool check_values(std::span<const Argument> arguments, const int64_t* table) const;
  bool check_guards(const int64_t* table) const;
  bool check_apart(std::span<const Argument> arguments) const;
  bool apart(std::span<const Argument> arguments, uint32_t input) const;
  bool bind_checked(std::span<const Argument> arguments, std::span<int64_t> table) const;
  int64_t read(const Binding& binding, std::span<const Argument> arguments) const;

  bool holds(const Relation& relation, std::span<const Argument> arguments, std::span<const int64_t> symbols) const;
  Miss miss(const Relation& relation, std::span<const Argument> arguments, std::span<const int64_t> symbols) const;
  Miss first_miss(std::span<const Argument> arguments) const;
  const TensorType& type(uint32_t input) const { return trace_.type(trace_.inputs[input].value); }

  const Trace& trace_;
  std::vector<at::Tensor> captured_;
  size_t argument_count_ = 0;
  EntryRelations relations_;

  // --- compiled
  ShapeProgram shapes_;                // of guards and expressions only
  Slot zero_ = 0;
  bool evaluates_ = false;             // there is something for shapes_ to compute
  std::vector<std::pair<uint32_t, Form>> binding_;  // inputs that bind symbols
  std::vector<Run> runs_;
  std::vector<Row> rows_;              // all that stand in no run
  std::vector<Compare> compares_;
  std::vector<int32_t> orders_;
  std::vector<Value> values_;
  std::vector<GuardCheck> guards_;
  std::vector<uint32_t> apart_, items_;  // inputs
};

}  // namespace escapement
