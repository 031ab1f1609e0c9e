// Guard program: whether relations hold between sizes that the caller has read, as one flat program over a table of int64.
//
// The caller writes the slots of symbols and of inputs, then asks `holds`; afterwards it may read the slots that it said it keeps.
// A program is interpreted until someone finds it worth machine code (`compile`), which is tested against the interpreter. Arithmetic that overflows
// and a division by zero make the answer no: eager says what it thinks of such sizes.
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "jit/run/guard_code.h"
#include "jit/run/shape_program.h"
#include "trace/trace.h"

namespace escapement {

class GuardProgram {
 public:
  struct Test {
    Guard::Kind kind;
    Slot left, right;
  };

  explicit GuardProgram(const DimTable& dims);

  // --- building
  Slot value(Dim dim) { return shapes_.add(dim); }
  Slot input() { return shapes_.add_input(); }  // not a symbol, yet written by the caller
  void keep(Slot slot);                         // the caller reads it after `holds` said yes
  void test(Guard::Kind kind, Slot left, Slot right) { tests_.push_back({kind, left, right}); }
  void finish();

  // --- running
  size_t table_size() const { return shapes_.table_size(); }
  bool holds(int64_t* table) const {
    const Function function = function_.load(std::memory_order_acquire);
    return function != nullptr ? function(table) : interpret(table);
  }
  bool interpret(int64_t* table) const;
  bool compile(GuardCompiler compiler) const;   // once, and also while others run it; whether it made code now

  // --- for those who compile it
  std::span<const ShapeProgram::Code> code() const { return shapes_.code(); }
  std::span<const std::pair<Slot, int64_t>> constants() const { return shapes_.constants(); }
  std::span<const Test> tests() const { return tests_; }
  std::span<const Slot> kept() const { return kept_; }
  std::string to_string() const;                // one line an instruction: "t3 = mod t0 t2", "t3 == t1"

 private:
  using Function = bool (*)(int64_t* table);

  ShapeProgram shapes_;
  std::vector<Test> tests_;
  std::vector<Slot> kept_;
  mutable std::once_flag compiled_;
  mutable GuardCode code_;
  mutable std::atomic<Function> function_{nullptr};
};

}  // namespace escapement
