// Entry checks: does a call fit a program? The relations of guards/relations.h, compiled into flat rows, one a tensor.
//
// Most tensors are contiguous, of rank 5 at most, and share dtype and rank with others. They stand in *runs*: what a run shares is
// held in registers, and a row is an argument's number and what its sizes must equal. The others (strides that matter, higher ranks)
// have a row that says everything by itself. Differences of a row are joined and tested once.
//
// Order: first the tensors that bind symbols, whose sizes go into a table; then the guards, which are machine code over that table
// (jit/run/guard_program.h); then everything else. So a version that a guard rules out costs a few tensors and not all. Every metadata word that
// matters is read at every call, of parameters and captured tensors too: nothing in a TensorImpl tells that it was
// resized (`resize_` and `.data =` move neither its address nor its version counter), so a check that trusted an unchanged address would sooner or later read memory that is no longer there.
//
// A size is compared with `table[slot] + plus`, where the slot of constants holds 0: constants and symbols need no branch.
// program_entry_compile.cpp makes the tables, program_entry.cpp checks, program_miss.cpp says what a relation means by itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "guards/relations.h"
#include "jit/run/guard_program.h"
#include "torch/program/program.h"

namespace escapement {

class EntryChecks {
 public:
  // `plan` must outlive this. `left_out`: for tests, a relation (counted from 1) that is not checked; 0: none. `device`: where all tensors lie. Dispatch
  // keys tell kinds of devices apart; of a device's program every tensor has a row, which compares its number, too.
  EntryChecks(const LaunchPlan& plan, std::vector<at::Tensor> captured, uint32_t left_out = 0, c10::Device device = c10::DeviceType::CPU);

  bool fits(std::span<const Argument> arguments) const;
  bool compile(GuardCompiler compiler) const { return program_.compile(compiler); }  // the guards; may run beside `fits`
  Miss explain(std::span<const Argument> arguments) const;
  // Values of the entry symbols, of arguments that fit.
  void bind(std::span<const Argument> arguments, std::span<int64_t> symbols) const;

  const at::Tensor* tensor(std::span<const Argument> arguments, uint32_t input) const {
    return input < arguments.size() ? arguments.data()[input].tensor : captured_.data() + (input - arguments.size());
  }
  std::span<const at::Tensor> captured() const { return captured_; }
  c10::Device device() const { return device_; }
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
    bool on_device = false;                    // of the program's device: its number is compared
    bool whole = true;                         // every size is compared or binds a symbol
    uint32_t input = 0;
    uint32_t sizes = 0, strides = 0, end = 0;  // [sizes, strides) and [strides, end) of compares_
    uint32_t order = 0, order_size = 0;        // of orders_
  };
  static constexpr int kMaxRunRank = 5;        // what a TensorImpl holds inline
  enum class Sizes : uint8_t {
    bind,                                      // written into the table; those that a constant says are compared with it
    constants, symbols, sums,                  // compared with: constants, slots, both added
  };
  struct Run {
    using Check = bool (*)(const EntryChecks& checks, const Run& run, const Argument* arguments, int64_t* table);
    Form form;
    bool captured = false;
    Sizes sizes = Sizes::constants;
    std::vector<uint32_t> inputs;              // arguments, or captured tensors counted from the first
    std::vector<Slot> slots;                   // rank of them per input, in the order of axes; so are the others
    std::vector<int64_t> constants;
    std::vector<int64_t> masks;                // bind only: all ones where the constant is compared
    Check check = nullptr;
  };
  struct Integer {
    uint32_t input;
    Slot slot;
    bool checked;                              // that it is one
  };

  void compile();
  void compile_integer(uint32_t input, std::span<const Relation> own, std::span<const Binding> bound);
  void compile_tensor(uint32_t input, std::span<const Relation> own, std::span<const Binding> bound);
  Row row(uint32_t input, std::span<const Relation> own, std::span<const Binding> bound);
  void compile_row(Row& row, const Relation& relation);
  Compare compare_with(uint32_t axis, Dim expected);
  bool may_join_run(const Row& row) const;
  Run& run_like(const Form& form, bool captured, Sizes sizes);
  void join_run(const Row& row);
  void join_binding_run(const Row& row, std::span<const Binding> bound);

  bool check(std::span<const Argument> arguments, int64_t* table) const;
  bool check_row(const Row& row, const at::Tensor* tensor, const int64_t* table) const;
  bool check_strides(const Row& row, const at::Tensor& tensor, const int64_t* table) const;
  template <int kRank, Sizes kSizes, bool kCaptured>
  static bool run_holds(const EntryChecks& checks, const Run& run, const Argument* arguments, int64_t* table);
  template <Sizes kSizes, bool kCaptured>
  static Run::Check check_of_rank(size_t rank);
  template <Sizes kSizes>
  static Run::Check check_of_sizes(const Run& run);
  static Run::Check check_of(const Run& run);
  bool check_integers(std::span<const Argument> arguments, int64_t* table) const;
  bool check_apart(std::span<const Argument> arguments) const;
  bool apart(std::span<const Argument> arguments, uint32_t input) const;
  bool bind_others(std::span<const Argument> arguments, int64_t* table) const;
  int64_t read(const Binding& binding, std::span<const Argument> arguments) const;

  bool holds(const Relation& relation, std::span<const Argument> arguments, std::span<const int64_t> symbols) const;
  Miss miss(const Relation& relation, std::span<const Argument> arguments, std::span<const int64_t> symbols) const;
  Miss first_miss(std::span<const Argument> arguments) const;
  const TensorType& type(uint32_t input) const { return trace_.type(trace_.inputs[input].value); }

  const Trace& trace_;
  const c10::Device device_;
  std::vector<at::Tensor> captured_;
  size_t argument_count_ = 0;
  EntryRelations relations_;

  // --- compiled
  GuardProgram program_;
  Slot zero_ = 0;
  std::vector<Integer> integers_;
  std::vector<Run> binding_runs_, runs_;
  std::vector<Row> rows_;              // all that stand in no run
  std::vector<std::pair<uint32_t, Form>> binding_rows_;  // of those, the ones that bind symbols
  std::vector<Binding> others_;        // bindings that no binding run and no integer does
  std::vector<Compare> compares_;
  std::vector<int32_t> orders_;
  std::vector<uint32_t> apart_, items_;  // inputs
};

}  // namespace escapement
