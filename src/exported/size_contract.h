// SizeContract: what an exported program says about the sizes of its inputs, and the check of a call against it.
//
// A declared size is a number, a symbol with a range, or arithmetic on symbols; equal symbols are equal sizes. The check
// binds each symbol where it stands alone, or solves a*s + c for it, and compares every other size with what its expression
// gives. A lower bound of 1 or 2 admits 0 and 1: torch.export starts every dynamic size at 2 and says that 0 and 1 may come
// all the same.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/size_spec.h"

namespace escapement {

struct SizeRange {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
};

// The symbols of one program, numbered as they are met.
class SizeSymbols {
 public:
  int64_t number(const std::string& name);
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, int64_t> numbers_;
  std::vector<std::string> names_;
};

// Reads sympy's text of an expression, "Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(1))". It is parsed and
// never run; what is not arithmetic as SizeSpec has it is a UserError.
SizeSpec parse_size(std::string_view text, SizeSymbols& symbols);
std::string size_to_text(const SizeSpec& size, const SizeSymbols& symbols);   // "2*s0 + 1"

struct DeclaredInput {
  std::string name;
  bool integer = false;            // then `sizes` is its value alone
  std::vector<SizeSpec> sizes;
};

class SizeContract {
 public:
  // UserError where a symbol cannot be found from the inputs' sizes.
  SizeContract(std::vector<DeclaredInput> inputs, SizeSymbols symbols, const std::map<std::string, SizeRange>& ranges);

  // The sizes of one call: per input its sizes, or its value. UserError names input, dim, expectation and the value seen.
  void check(std::span<const std::span<const int64_t>> seen) const;

  const std::vector<DeclaredInput>& inputs() const { return inputs_; }

 private:
  struct Row {
    enum class Kind : uint8_t { constant, bind, solve, compare } kind;
    uint32_t input, axis;
    int64_t number = 0;            // constant
    uint32_t symbol = 0;           // bind, solve
    int64_t factor = 1, term = 0;  // solve: size = factor * symbol + term
  };
  void add_rows();
  Row first_row(uint32_t input, uint32_t axis, std::vector<bool>& bound) const;
  bool solve(Row& row, std::vector<bool>& bound) const;
  void require_bound(const Row& row, const std::vector<bool>& bound) const;
  bool hold(const Row& row, int64_t size, std::span<int64_t> values) const;
  bool in_range(uint32_t symbol, int64_t value) const { return value >= ranges_[symbol].least &&
      value <= ranges_[symbol].most; }
  const SizeSpec& spec(const Row& row) const { return inputs_[row.input].sizes[row.axis]; }
  [[noreturn]] void fail(const Row& row, int64_t seen, std::span<const int64_t> values) const;
  [[noreturn]] void fail_rank(size_t input, size_t seen) const;

  std::vector<DeclaredInput> inputs_;
  SizeSymbols symbols_;
  std::vector<SizeRange> ranges_;  // by symbol
  std::vector<Row> rows_;          // constants, binds, solves, compares
};

}  // namespace escapement
