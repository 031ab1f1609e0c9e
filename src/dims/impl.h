// What lies behind DimTable. Private to this folder: dims.cpp (normal form and constructors), divide.cpp (floordiv, mod),
// facts.cpp (canonical form and questions), range.cpp, text.cpp (text, values, steps).
//
// Two layers. The *structural* layer makes expressions and knows no facts, so equal text gives equal ids whatever was assumed
// before; print and parse rely on it. The *fact* layer rewrites an expression to its canonical form: solved variables are
// replaced, atoms rebuilt and decided by ranges. Results are cached until the next fact.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <unordered_map>

#include "dims/dims.h"
#include "dims/step_arithmetic.h"
#include "dims/store.h"
#include "support/error.h"

namespace escapement {

using Var = uint32_t;  // index into Impl::variables

// An atom's operator. Sums and products are atoms only where they are wide: over the caps, and kept unexpanded.
constexpr bool is_wide(SizeOp op) { return op == SizeOp::add || op == SizeOp::mul; }

struct Variable {
  bool is_atom = false;
  Symbol symbol;
  SizeOp op = SizeOp::floordiv;
  Dim a, b;
  Dim self;  // the variable as an expression
  bool is_born = false;  // a born symbol, or holds one: known only while the program runs
};

// The variables of a product while it is made: ascending in variable order, with repetition.
class Factors {
 public:
  using value_type = Var;
  static constexpr size_t kMax = DimTable::kMaxDegree;

  Factors() = default;
  Factors(std::initializer_list<Var> vars) {
    for (const Var v : vars) push_back(v);
  }
  void push_back(Var v) {
    ESCAPEMENT_CHECK(size_ < kMax, "a product of sizes has too many factors");
    data_[size_++] = v;
  }
  void resize(size_t size) {
    ESCAPEMENT_CHECK(size <= kMax, "a product of sizes has too many factors");
    while (size_ < size) data_[size_++] = 0;
    size_ = static_cast<uint32_t>(size);
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Var operator[](size_t i) const { return data_[i]; }
  Var* begin() { return data_; }
  Var* end() { return data_ + size_; }
  const Var* begin() const { return data_; }
  const Var* end() const { return data_ + size_; }
  friend bool operator==(const Factors& a, const Factors& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

 private:
  uint32_t size_ = 0;
  Var data_[kMax];
};

// A product, interned: terms are copied and compared by the thousand, products are made seldom. 0: the empty one.
using Monomial = uint32_t;

struct Term {
  Monomial monomial = 0;  // 0: the constant
  int64_t coefficient = 0;
  friend bool operator==(const Term&, const Term&) = default;
};

using Poly = std::vector<Term>;  // descending degree, then by variables; no zero coefficients; empty: 0
using Terms = std::span<const Term>;

// Arithmetic left 64 bits. Caught where a question may answer "unknown"; otherwise the user sees it.
class DimOverflow : public UserError {
 public:
  using UserError::UserError;
};

[[noreturn]] void no_such_size(SizeOp op, int64_t divisor);  // UserError: a division by zero; DimOverflow
inline int64_t checked(SizeOp op, int64_t a, int64_t b) {
  const ExactSize result = exact(op, a, b);
  if (!result) no_such_size(op, b);
  return *result;
}
inline int64_t checked_add(int64_t a, int64_t b) { return checked(SizeOp::add, a, b); }
inline int64_t checked_mul(int64_t a, int64_t b) { return checked(SizeOp::mul, a, b); }
inline int64_t floor_divide(int64_t a, int64_t b) { return checked(SizeOp::floordiv, a, b); }
inline int64_t floor_modulo(int64_t a, int64_t b) { return checked(SizeOp::mod, a, b); }

// Ranges as intervals; kMin and kMax are infinite and stay so.
Range interval_add(Range a, Range b);
Range interval_mul(Range a, Range b);
Range interval_scale(Range a, int64_t by);
Range intersect(Range a, Range b);

// A divisor of both; the greatest, where that is a number: -2**63 has no absolute value.
int64_t common_factor(int64_t a, int64_t b);

struct DimTable::Impl {
  // --- structural layer
  CheckedVector<SymbolInfo> symbols;
  CheckedVector<Var> symbol_vars;
  std::array<uint32_t, 4> next_number{};
  std::deque<Variable> variables;  // a deque: references stay valid while expressions are made
  Sequences<Var> monomials;
  Sequences<Term> polys;           // by Dim
  HashIndex monomial_index, poly_index, atom_index;
  uint64_t work = 0;

  Impl() { monomial({}); }
  Terms poly(Dim a) const { return polys[a.index]; }
  std::span<const Var> vars(const Term& term) const { return monomials[term.monomial]; }
  Monomial monomial(std::span<const Var> factors);
  std::optional<Dim> find(Terms p) const;  // the expression, if it was made
  Dim intern(Terms p);
  Dim intern(const Term& term) { return intern(Terms(&term, 1)); }
  Dim constant(int64_t value);
  Dim of(Var v) const { return variables[v].self; }
  Var new_variable(Variable variable);
  Dim atom(SizeOp op, Dim a, Dim b);  // no simplification
  int compare_vars(Var a, Var b) const;
  int compare_monomials(Monomial a, Monomial b) const;
  int compare(Dim a, Dim b) const;    // a total order that depends on structure only

  Poly normalise(Poly terms) const;   // sorts and joins
  Poly sum(Terms a, Terms b, int64_t sign) const;  // a + sign * b
  Poly scaled(Terms p, int64_t by) const;
  Term term_product(const Term& a, const Term& b);
  std::optional<Term> term_quotient(const Term& a, const Term& b);
  Dim add(Dim a, Dim b);
  Dim sub(Dim a, Dim b);
  Dim mul(Dim a, Dim b);
  Dim scale(Dim a, int64_t by);
  Dim min_or_max(SizeOp op, Dim a, Dim b);
  Dim floordiv(Dim a, Dim b);
  Dim mod(Dim a, Dim b);
  Dim floordiv_constant(Dim a, int64_t c);
  Dim mod_constant(Dim a, int64_t c);
  std::optional<Dim> exact_quotient(Dim a, Dim b);
  std::pair<Dim, Dim> split_by_monomial(Dim a, const Term& divisor);  // (quotient, rest)
  Dim build(SizeOp op, Dim a, Dim b);  // the simplifying constructor of that op
  Dim real_atom(SizeOp op, Dim a, Dim b);

  std::optional<int64_t> literal(Dim a) const;    // a constant as written
  std::optional<Var> lone_variable(Dim a) const;  // exactly one variable, coefficient 1
  int64_t constant_part(Dim a) const;
  bool occurs(Var v, Dim a) const;                // anywhere, also inside atoms
  bool is_born(Dim a) const;                      // holds a born symbol

  // --- fact layer
  std::vector<DimFact> facts;
  std::vector<DimFact> older;                 // take_older
  std::vector<Dim> born_zeros;                // the first equalities that a born symbol was solved from, as forms that are zero
  static constexpr size_t kBornZeros = 16;
  std::unordered_map<Var, Dim> solved;        // variable -> what it equals; the right sides hold no solved variable when made
  std::vector<Dim> zeros;                     // primitive forms known to be zero that no variable could be solved from
  std::unordered_map<Dim, Range> bounds;      // primitive form without constant -> range
  // Caches of older epochs are stale. A bound changes canonical forms only where it leaves a variable one value or may decide an
  // atom; sums of hundreds of lengths have neither, and keep their forms while bounds for their pieces come in.
  uint64_t epoch = 1, range_epoch = 1;
  size_t decidable_atoms = 0;                 // floordiv, mod, min, max
  void changed() { ++epoch, ++range_epoch; }
  void bound_changed(bool pins) { ++range_epoch, epoch += pins || decidable_atoms != 0; }
  struct Cached {
    uint64_t canonical_epoch = 0, range_epoch = 0;
    Dim canonical;
    Range range;
  };
  std::vector<Cached> cache;  // by Dim
  std::vector<Cached> variable_cache;  // by Var: what it is rewritten to, and its range

  struct Primitive {
    Dim dim;               // no constant part, content 1, leading coefficient positive
    int64_t factor = 1;    // whole == factor * dim + constant
    int64_t constant = 0;
  };
  Primitive primitive(Dim a);
  Dim without_content(Dim a);
  Dim without_common_variables(Dim a);

  Cached& cached(Dim a);
  Dim canonical(Dim a);
  Dim rewrite(Dim a);
  std::optional<Dim> rewrite_terms(Dim a);
  Dim rewrite_term(const Term& term);
  Cached& cached_variable(Var v);
  bool rewrites(const Term& term);   // to something else
  Dim rewrite_variable(Var v);
  Dim rewrite_variable_now(Var v);
  Dim decide_atom(Dim a);
  Range range(Dim canonical_dim);
  Range term_range(const Term& term);
  Range variable_range(Var v);
  Range variable_range_now(Var v);
  Range atom_range(const Variable& v);
  Range operand_range(SizeOp op, Dim a);
  Range simple_range(Dim a);
  Range split_range(Dim a);
  int64_t lower_bound(Dim a, int depth);
  std::optional<int64_t> split_lower_bound(Dim a, size_t term, int depth);
  std::optional<Dim> difference(Dim a, Dim b);  // canonical a - b; empty on overflow
  Truth less_as_written(Dim a, Dim b);
  Truth positive_by_born_zeros(Dim canonical_dim);
  bool known_zero(Dim canonical_dim);
  bool same(Dim a, Dim b);
  void add_bound(Dim canonical_dim, Range range);
  void solve_for(Var v, Dim value);
  void move_bound(Dim to, Range known, bool was_born);
  void rekey(Var v);
  std::optional<Var> solvable(Dim primitive_dim, Dim a, Dim b);
  int elimination_rank(Var v) const;
  void learn_zero(Dim canonical_dim, Dim a, Dim b);

  // --- values
  struct Hint {
    bool known = false;              // looked up already; hints never change
    std::optional<int64_t> value;
  };
  std::vector<Hint> hints;           // by Dim
  std::optional<int64_t> hint(Dim a);
  std::optional<int64_t> hint_of(Var v);
  int64_t value(Dim a, std::span<const int64_t> symbol_values, std::unordered_map<Var, int64_t>& atoms) const;
  int64_t value_of(Var v, std::span<const int64_t> symbol_values, std::unordered_map<Var, int64_t>& atoms) const;
  std::string text(Dim a) const;
  std::string text(const Term& term) const;
  std::string text_of_variable(Var v) const;
  std::string text_of_operand(SizeOp op, Dim a) const;
  std::string text_of_symbol(Symbol s) const;
};

}  // namespace escapement
