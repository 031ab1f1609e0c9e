// Symbolic sizes: integer polynomials over symbols and opaque atoms, hash-consed in a DimTable.
//
// A Dim is an id of an expression *as it was written*: `to_string`, `steps`, `evaluate`, `symbols` and `hint` see that and no
// more, so a guard `s1 == s0` keeps both symbols although the two are assumed equal. `canonical` applies the facts
// (assume_equal, assume_range); two Dims of one table are provably equal iff their canonical ids are equal. The questions
// (`same`, `equal`, `less`, `range`, `as_constant`, `as_symbol`, ...) look at the canonical form.
//
// Normal form of an expression: a sum of products with integer coefficients over symbols (`s0`, `u1`, `i2`, `t3`) and opaque
// atoms floordiv, mod, min, max (Python semantics: floor towards minus infinity, the sign of mod is the divisor's) and those of floats (real.h).
// Arithmetic is checked: an overflow throws UserError, never wraps. Cost is bounded: a sum wider than kMaxTerms becomes an
// opaque atom, and a question that the ranges cannot answer is answered "unknown", which costs the caller a guard or a
// run-time test, never a search. Questions fill caches, so a table belongs to one thread at a time; `to_string`, `steps`,
// `evaluate`, `symbols` and `info` change nothing and may run on several. No symbol is assumed different from 0 or 1; who divides by an expression that may be zero
// owes the guard `divisor != 0`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/id.h"
#include "support/size_op.h"

namespace escapement {

using Dim = Id<struct DimTag>;
using Symbol = Id<struct SymbolTag>;
using ValueId = Id<struct ValueTag>;  // an SSA value of a Trace (trace.h)

enum class SymbolKind : uint8_t {
  size,      // s: size of an input
  born,      // u: a size or integer that exists only at run time (nonzero, item)
  integer,   // i: an integer argument of the program
  stride,    // t: a stride or storage offset of an input that its layout class leaves open
};

// Where a symbol's value is read when the program runs. Printed as `arg0.size[1]`, `arg2`, `%4.size[0]`, `item(%4)`.
struct Source {
  enum class Kind : uint8_t { none, input_size, input_stride, input_offset, input_value, value_size, value_stride, item };
  Kind kind = Kind::none;
  uint32_t input = 0;  // position among the program's inputs
  ValueId value;       // for value_size, value_stride, item
  uint32_t dim = 0;
  friend bool operator==(const Source&, const Source&) = default;
};
std::string to_string(const Source&);

struct Range {
  static constexpr int64_t kMin = INT64_MIN, kMax = INT64_MAX;  // also "no bound"
  int64_t low = kMin, high = kMax;
  friend bool operator==(const Range&, const Range&) = default;
};

enum class Truth : uint8_t { no, yes, unknown };

// A fact that the table was told, as it was told. Ranges of lone symbols are in SymbolInfo instead.
struct DimFact {
  enum class Kind : uint8_t { equal, range } kind = Kind::equal;
  Dim left, right;  // range: left only
  Range range;
};

class Tokenizer;

struct SymbolInfo {
  SymbolKind kind = SymbolKind::size;
  uint32_t number = 0;           // prints as s0, u1, ...
  Range range;                   // sizes start at [0, kMax]
  std::optional<int64_t> hint;   // value seen when recording; used by heuristics and the recorder only, never by codegen
  Source source;
};

class DimTable {
 public:
  static constexpr size_t kMaxTerms = 64;   // terms in a sum
  static constexpr size_t kMaxDegree = 16;  // factors in a product

  DimTable();
  ~DimTable();
  DimTable(const DimTable&);
  DimTable& operator=(const DimTable&);
  DimTable(DimTable&&) noexcept;
  DimTable& operator=(DimTable&&) noexcept;

  // --- making
  Dim constant(int64_t value);
  Dim new_symbol(SymbolKind kind, Source source, std::optional<int64_t> hint = {});  // sizes: range [0, max]
  Dim of(Symbol symbol);
  Dim add(Dim a, Dim b);
  Dim sub(Dim a, Dim b);
  Dim mul(Dim a, Dim b);
  Dim neg(Dim a);
  Dim floordiv(Dim a, Dim b);  // exact division of a product simplifies: (s0*12)//12 == s0
  Dim mod(Dim a, Dim b);
  Dim min(Dim a, Dim b);
  Dim max(Dim a, Dim b);
  Dim product(std::span<const Dim> dims);  // 1 for none
  // Floats (real.h), which only these operators take: the value of `real` and of arithmetic on floats is the bits of a double.
  Dim real(double value);                  // finite

  // --- asking
  Dim canonical(Dim a) const;      // the same value, with all facts applied: the id to use as a key
  std::optional<int64_t> as_constant(Dim a) const;
  std::optional<Symbol> as_symbol(Dim a) const;
  bool same(Dim a, Dim b) const;         // equal canonical ids, or equal by a fact about products
  Truth equal(Dim a, Dim b) const;
  Truth less(Dim a, Dim b) const;        // a < b
  Truth less_equal(Dim a, Dim b) const;  // a <= b
  Truth divisible(Dim a, Dim b) const;   // a is a multiple of b
  Range range(Dim a) const;
  std::vector<Symbol> symbols(Dim a) const;  // ascending, without repetition
  // Those that no expression asked with the same `seen` had, in any order: for those who want the symbols of many expressions. Sums
  // share their parts, and what was walked once is not walked again.
  std::vector<Symbol> new_symbols(Dim a, std::vector<bool>& seen) const;

  // --- facts (each is someone's guard: the table does not remember who asked)
  void assume_equal(Dim a, Dim b);
  void assume_range(Dim a, Range range);  // intersected with what is known; an empty range is a UserError
  // Many at once: each is asked against what was known before all of them, so that they cost what their terms cost.
  void assume_ranges(std::span<const Dim> dims, Range range);
  // What follows, since this was asked last, from facts of born symbols for expressions without any: the table does not take it for known
  // before somebody's guard tests it at entry.
  std::vector<DimFact> take_older();
  std::span<const DimFact> facts() const;
  void restore(const DimFact& fact);      // assumes it and lists it even if it is implied: for readers of text

  // --- values
  size_t symbol_count() const;
  const SymbolInfo& info(Symbol symbol) const;
  void set_source(Symbol symbol, Source source);
  int64_t evaluate(Dim a, std::span<const int64_t> symbol_values) const;  // indexed by Symbol; checked
  std::optional<int64_t> hint(Dim a) const;  // evaluate on hints; empty if one is missing

  // --- text: "s0", "12*s0*s1 + 4", "floordiv(s0, 2)", "max(s0, s1)"
  std::string to_string(Dim a) const;
  std::string to_string(Symbol s) const;
  Dim parse(std::string_view text);  // throws UserError; symbols must exist
  Dim parse(Tokenizer& tokens);      // reads as far as an expression goes

  // --- structure, for those who compile expressions (postfix program: push constant/symbol, then operators)
  struct Step {
    SizeOp op;
    int64_t constant = 0;
    Symbol symbol;
    Dim dim;
  };
  std::vector<Step> steps(Dim a) const;   // an operator with one operand has a zero as the second
  std::vector<Step> outer_steps(Dim a) const;  // the operands of atoms as `dim`: for those who compile each expression once

  Dim apply(SizeOp op, Dim a, Dim b = {});   // the operator of a step

  size_t size() const;     // expressions made so far: ids are below it
  uint64_t work() const;   // terms visited since the start: what the tests of the cost bound count

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace escapement
