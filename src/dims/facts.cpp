// The fact layer of DimTable: what is assumed, and the canonical form under it. Ranges are in range.cpp.
//
// A fact `a == b` is solved for one variable if that is possible without search (coefficient 1 and no other occurrence); else
// the primitive form of a - b joins the forms known to be zero, and `same` looks multiples of it up. Solved variables never
// occur in the right sides made later, so rewriting terminates.
//
// A fact is somebody's guard, and one of a born symbol is tested when the program has begun. Nothing may follow from it for sizes of the inputs
// alone: kernels that run in front of that test would rely on it. So such an equality is solved for what is born, and what was known of that
// is no fact of an expression of inputs that takes its place, but waits to be made a guard of it (take_older).
#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "dims/impl.h"

namespace escapement {

// --- canonical form

DimTable::Impl::Cached& DimTable::Impl::cached(Dim a) {
  if (cache.size() < polys.size()) cache.resize(polys.size());
  return cache[a.index];
}

Dim DimTable::Impl::canonical(Dim a) {
  const Cached known = cached(a);
  if (known.canonical_epoch == epoch) return known.canonical;
  Dim result = a;
  cached(a).canonical = a;  // what a cycle through contradictory facts gets, instead of an endless recursion
  cached(a).canonical_epoch = epoch;
  try {
    result = rewrite(a);
    // Rewriting an atom may bring in variables that are solved themselves; a few rounds settle that.
    for (int round = 0; round < 4; ++round) {
      const Dim again = rewrite(result);
      if (again == result) break;
      result = again;
    }
  } catch (const UserError&) {
    result = a;  // overflow or a zero divisor under these facts: the expression stays as written
  }
  cached(result).canonical = result;
  cached(result).canonical_epoch = epoch;
  cached(a).canonical = result;
  cached(a).canonical_epoch = epoch;
  return result;
}

Dim DimTable::Impl::rewrite(Dim a) {
  work += poly(a).size();
  // Unchanged wide sums must not be rebuilt in another shape.
  if (std::ranges::none_of(poly(a), [&](const Term& term) { return rewrites(term); })) return a;
  if (const auto sum = rewrite_terms(a)) return *sum;
  Dim result = constant(0);
  for (const Term& term : poly(a)) result = add(result, rewrite_term(term));
  return result;
}

// All terms at once, where the sum stays within the cap: adding them one by one would sort the sum again for each. Empty where not.
std::optional<Dim> DimTable::Impl::rewrite_terms(Dim a) {
  Poly kept, made;
  for (const Term& term : poly(a)) {
    if (!rewrites(term)) {
      kept.push_back(term);
      continue;
    }
    const Terms product = poly(rewrite_term(term));
    made.insert(made.end(), product.begin(), product.end());
    if (kept.size() + made.size() > 4 * kMaxTerms) return std::nullopt;
  }
  const Poly whole = sum(kept, normalise(std::move(made)), 1);
  if (whole.size() > kMaxTerms) return std::nullopt;
  return intern(whole);
}

Dim DimTable::Impl::rewrite_term(const Term& term) {
  Dim product = constant(term.coefficient);
  for (Var v : vars(term)) product = mul(product, rewrite_variable(v));
  return product;
}

DimTable::Impl::Cached& DimTable::Impl::cached_variable(Var v) {
  if (variable_cache.size() < variables.size()) variable_cache.resize(variables.size());
  return variable_cache[v];
}

bool DimTable::Impl::rewrites(const Term& term) {
  return std::ranges::any_of(vars(term), [&](Var v) { return rewrite_variable(v) != of(v); });
}

Dim DimTable::Impl::rewrite_variable(Var v) {
  if (const Cached& known = cached_variable(v); known.canonical_epoch == epoch) return known.canonical;
  const Dim result = rewrite_variable_now(v);
  Cached& known = cached_variable(v);
  known.canonical = result;
  known.canonical_epoch = epoch;
  return result;
}

Dim DimTable::Impl::rewrite_variable_now(Var v) {
  if (const auto found = solved.find(v); found != solved.end()) return canonical(found->second);
  const Variable variable = variables[v];
  if (!variable.is_atom) {
    const Range r = variable_range(v);
    return r.low == r.high ? constant(r.low) : of(v);
  }
  const Dim x = canonical(variable.a), y = canonical(variable.b);
  if (x == variable.a && y == variable.b) return decide_atom(of(v));
  const Dim rebuilt = build(variable.op, x, y);
  const auto lone = lone_variable(rebuilt);
  if (!lone || !variables[*lone].is_atom) return rebuilt;
  if (const auto found = solved.find(*lone); found != solved.end()) return canonical(found->second);
  return decide_atom(rebuilt);
}

// What the ranges of its operands say about an atom; the atom itself if nothing.
Dim DimTable::Impl::decide_atom(Dim a) {
  const Variable v = variables[*lone_variable(a)];
  if (is_wide(v.op)) return a;
  if (is_real_op(v.op)) {
    const Range result = makes_real(v.op) ? Range() : atom_range(v);
    return result.low == result.high ? constant(result.low) : a;
  }
  const Range x = range(v.a), y = range(v.b);
  if (v.op == SizeOp::min || v.op == SizeOp::max) {
    const auto apart = difference(v.b, v.a);
    if (!apart) return a;
    const Range r = range(*apart);
    if (r.low >= 0) return v.op == SizeOp::min ? v.a : v.b;
    if (r.high <= 0) return v.op == SizeOp::min ? v.b : v.a;
  }
  if (divides(v.op) && x.low >= 0 && y.low > 0) {
    const bool smaller = (x.high != Range::kMax && x.high < y.low) ||
                         [&] { const auto apart = difference(v.b, v.a); return apart && range(*apart).low > 0; }();
    if (smaller) return v.op == SizeOp::floordiv ? constant(0) : v.a;
  }
  if (v.op == SizeOp::mod && known_zero(a)) return constant(0);
  return a;
}

std::optional<Dim> DimTable::Impl::difference(Dim a, Dim b) {
  try {
    return canonical(sub(canonical(a), canonical(b)));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// --- forms known to be zero

namespace {

// Whether the first is negative and all can be turned over.
bool turns(Terms terms) {
  const auto is_least = [](const Term& term) { return term.coefficient == INT64_MIN; };
  return terms[0].coefficient < 0 && std::none_of(terms.begin(), terms.end(), is_least);
}

}  // namespace

DimTable::Impl::Primitive DimTable::Impl::primitive(Dim a) {
  const int64_t constant = constant_part(a);
  const Terms varying = poly(a).first(poly(a).size() - (constant != 0));
  int64_t content = 0;
  for (const Term& term : varying) content = common_factor(content, term.coefficient);
  const int64_t factor = content == 0 ? 1 : turns(poly(a)) ? -content : content;
  if (factor == 1) return {constant == 0 ? a : intern(varying), 1, constant};
  Poly terms(varying.begin(), varying.end());
  for (Term& term : terms) term.coefficient /= factor;
  return {intern(terms), factor, constant};
}

// Content 1 and leading coefficient positive, the constant included: an expression and its multiples by a number, up to sign.
Dim DimTable::Impl::without_content(Dim a) {
  Poly terms(poly(a).begin(), poly(a).end());
  if (terms.empty()) return a;
  int64_t content = 0;
  for (const Term& term : terms) content = common_factor(content, term.coefficient);
  if (turns(terms)) content = -content;
  for (Term& term : terms) term.coefficient /= content;
  return intern(terms);
}

// Without the variables that every term has. If the result is zero then so is `a`; the other way round is not true.
Dim DimTable::Impl::without_common_variables(Dim a) {
  Poly terms(poly(a).begin(), poly(a).end());
  if (terms.empty()) return a;
  Term shared{terms[0].monomial, 1};
  for (const Term& term : terms) {
    Factors both;
    std::ranges::set_intersection(vars(shared), vars(term), std::back_inserter(both),
                                  [&](Var x, Var y) { return compare_vars(x, y) < 0; });
    shared.monomial = monomial(both);
  }
  for (Term& term : terms) term = *term_quotient(term, shared);
  return intern(terms);
}

bool DimTable::Impl::known_zero(Dim a) {
  if (literal(a)) return *literal(a) == 0;
  if (zeros.empty()) return false;
  const Dim form = without_content(a);
  const auto listed = [&](Dim dim) { return std::find(zeros.begin(), zeros.end(), dim) != zeros.end(); };
  return listed(form) || listed(without_common_variables(form));
}

bool DimTable::Impl::same(Dim a, Dim b) {
  if (canonical(a) == canonical(b)) return true;
  if (zeros.empty()) return false;
  const auto apart = difference(a, b);
  return apart && known_zero(*apart);
}

// --- learning

// Which variable to express by the others: what is born last first, so that inputs' symbols stay.
int DimTable::Impl::elimination_rank(Var v) const {
  const Variable& variable = variables[v];
  if (variable.is_atom) return 1;
  return symbols[variable.symbol.index].kind == SymbolKind::born ? 3 : 2;
}

std::optional<Var> DimTable::Impl::solvable(Dim whole, Dim a, Dim b) {
  using Key = std::tuple<bool, bool, int, Var>;
  std::optional<Key> best;
  for (const Term& term : poly(whole)) {
    if (vars(term).size() != 1 || (term.coefficient != 1 && term.coefficient != -1)) continue;
    const Var v = vars(term)[0];
    if (variables[v].is_born != is_born(whole)) continue;
    const Dim rest = sub(whole, intern(term));
    if (occurs(v, rest)) continue;
    // `n == expression` is read as the definition of n rather than of something in the expression; but where the expression is too
    // wide, n is the short name of the two: every question about n would touch all terms of the other.
    const bool wide = variables[v].is_atom && variables[v].op == SizeOp::add;
    const bool side = lone_variable(a) == v || lone_variable(b) == v;
    best = std::max(best, std::optional(Key(wide, side, elimination_rank(v), v)));
  }
  return best ? std::optional(std::get<Var>(*best)) : std::nullopt;
}

bool DimTable::Impl::occurs(Var v, Dim a) const {
  for (const Term& term : poly(a)) {
    for (Var x : vars(term)) {
      if (x == v) return true;
      const Variable& variable = variables[x];
      if (variable.is_atom && (occurs(v, variable.a) || occurs(v, variable.b))) return true;
    }
  }
  return false;
}

void DimTable::Impl::learn_zero(Dim whole, Dim a, Dim b) {
  const auto v = solvable(whole, a, b);
  if (!v) {
    zeros.push_back(without_content(whole));
    changed();
    return;
  }
  int64_t coefficient = 0;
  for (const Term& term : poly(whole))
    if (vars(term).size() == 1 && vars(term)[0] == *v) coefficient = term.coefficient;
  const Dim rest = sub(whole, scale(of(*v), coefficient));
  if (variables[*v].is_born && !literal(rest) && born_zeros.size() < kBornZeros) born_zeros.push_back(whole);
  solve_for(*v, scale(rest, -coefficient));
}

void DimTable::Impl::solve_for(Var v, Dim value) {
  const Range known = variable_range(v);
  solved.emplace(v, value);
  changed();
  move_bound(canonical(value), known, variables[v].is_born);
  rekey(v);
}

void DimTable::Impl::move_bound(Dim to, Range known, bool was_born) {
  if (literal(to) || is_born(to) == was_born) return add_bound(to, known);
  if (intersect(range(to), known) != range(to)) older.push_back(DimFact{DimFact::Kind::range, to, {}, known});
}

// Facts are keyed by canonical forms: those that held `v` have new keys now.
void DimTable::Impl::rekey(Var v) {
  std::vector<std::pair<Dim, Range>> moved;
  for (const auto& [key, range] : bounds)
    if (occurs(v, key)) moved.emplace_back(key, range);
  std::sort(moved.begin(), moved.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  for (const auto& [key, range] : moved) bounds.erase(key);
  for (const auto& [key, range] : moved) move_bound(canonical(key), range, is_born(key));
  std::erase_if(zeros, [&](Dim& zero) {
    if (!occurs(v, zero)) return false;
    const bool was_born = is_born(zero);
    zero = without_content(canonical(zero));
    if (is_born(zero) == was_born) return false;
    if (literal(zero) != 0) older.push_back(DimFact{DimFact::Kind::equal, zero, constant(0), {}});
    return true;
  });
  std::vector<std::pair<Var, Dim>> stale;  // solved atoms over v: their rebuilt form has the same value
  for (const auto& [atom, value] : solved)
    if (variables[atom].is_atom && atom != v && (occurs(v, variables[atom].a) || occurs(v, variables[atom].b)))
      stale.emplace_back(atom, value);
  std::sort(stale.begin(), stale.end());
  for (const auto& [atom, value] : stale) {
    const Variable variable = variables[atom];
    const Dim rebuilt = build(variable.op, canonical(variable.a), canonical(variable.b));
    const auto lone = lone_variable(rebuilt);
    if (!lone || !variables[*lone].is_atom || solved.contains(*lone)) continue;
    if (variables[*lone].is_born == variable.is_born) solved.emplace(*lone, value), changed();
    else older.push_back(DimFact{DimFact::Kind::equal, rebuilt, value, {}});
  }
}

void DimTable::assume_equal(Dim a, Dim b) {
  Impl& t = *impl_;
  const auto apart = t.difference(a, b);
  if (!apart) return;   // beyond 64 bits: it holds, and nothing follows from it here
  if (t.known_zero(*apart)) return;
  if (equal(a, b) == Truth::no)
    throw UserError("the assumption " + to_string(a) + " == " + to_string(b) + " contradicts what is known");
  const Impl::Primitive p = t.primitive(*apart);
  const Dim whole = t.add(p.dim, t.constant(p.constant / p.factor));
  t.learn_zero(whole, t.canonical(a), t.canonical(b));
  const auto lone = t.lone_variable(p.dim);
  if (lone && p.constant == 0 && t.variables[*lone].is_atom && t.variables[*lone].op == SizeOp::mod) {
    const Variable v = t.variables[*lone];  // divisible: the quotient times the divisor is the whole
    t.zeros.push_back(t.without_content(t.canonical(t.sub(t.mul(t.floordiv(v.a, v.b), v.b), v.a))));
    t.changed();
  }
  t.facts.push_back(DimFact{DimFact::Kind::equal, a, b, {}});
}

std::vector<DimFact> DimTable::take_older() { return std::exchange(impl_->older, {}); }

std::span<const DimFact> DimTable::facts() const { return impl_->facts; }

void DimTable::restore(const DimFact& fact) {
  const size_t before = impl_->facts.size();
  if (fact.kind == DimFact::Kind::equal) assume_equal(fact.left, fact.right);
  else assume_range(fact.left, fact.range);
  if (impl_->facts.size() == before) impl_->facts.push_back(fact);
}

// --- questions

Dim DimTable::canonical(Dim a) const { return impl_->canonical(a); }
bool DimTable::same(Dim a, Dim b) const { return a == b || impl_->same(a, b); }

std::optional<int64_t> DimTable::as_constant(Dim a) const { return impl_->literal(impl_->canonical(a)); }

std::optional<Symbol> DimTable::as_symbol(Dim a) const {
  const auto lone = impl_->lone_variable(impl_->canonical(a));
  if (!lone || impl_->variables[*lone].is_atom) return std::nullopt;
  return impl_->variables[*lone].symbol;
}

Truth DimTable::equal(Dim a, Dim b) const {
  if (same(a, b)) return Truth::yes;
  const auto apart = impl_->difference(a, b);
  if (!apart) return Truth::unknown;
  const Range r = impl_->range(*apart);
  if (r.low > 0 || r.high < 0) return Truth::no;
  const Impl::Primitive p = impl_->primitive(*apart);
  return p.constant % p.factor != 0 ? Truth::no : Truth::unknown;  // 2*s0 + 1 is never 0
}

namespace {

Truth positive(Range r) { return r.low > 0 ? Truth::yes : r.high <= 0 ? Truth::no : Truth::unknown; }

}  // namespace

Truth DimTable::less(Dim a, Dim b) const {
  const auto apart = impl_->difference(b, a);
  if (!apart) return Truth::unknown;
  if (impl_->known_zero(*apart)) return Truth::no;
  Truth known = positive(impl_->range(*apart));
  if (known == Truth::unknown) known = impl_->less_as_written(a, b);
  return known != Truth::unknown ? known : impl_->positive_by_born_zeros(*apart);
}

// What is left of a size behind some lengths that make it up is the sum of the other lengths, which says more than what the last of them was
// solved for.
Truth DimTable::Impl::positive_by_born_zeros(Dim a) {
  if (!is_born(a)) return Truth::unknown;
  for (const Dim zero : born_zeros) {
    for (const int64_t sign : {1, -1}) {
      try {
        const Truth known = positive(range(add(a, scale(zero, sign))));
        if (known != Truth::unknown) return known;
      } catch (const UserError&) {  // beyond 64 bits
      }
    }
  }
  return Truth::unknown;
}

// The value is the same, but the bounds may say more: a sum of lengths is never negative, whatever short name stands for it now.
Truth DimTable::Impl::less_as_written(Dim a, Dim b) {
  try {
    return positive(range(sub(b, a)));
  } catch (const UserError&) {
    return Truth::unknown;
  }
}

Truth DimTable::less_equal(Dim a, Dim b) const {
  const Truth opposite = less(b, a);
  return opposite == Truth::yes ? Truth::no : opposite == Truth::no ? Truth::yes : Truth::unknown;
}

Truth DimTable::divisible(Dim a, Dim b) const {
  try {
    const Dim divisor = impl_->canonical(b);
    if (impl_->literal(divisor) == 0) return Truth::unknown;
    const Dim rest = impl_->canonical(impl_->mod(impl_->canonical(a), divisor));
    if (impl_->known_zero(rest)) return Truth::yes;
    const Range r = impl_->range(rest);
    return r.low > 0 || r.high < 0 ? Truth::no : Truth::unknown;
  } catch (const DimOverflow&) {
    return Truth::unknown;
  }
}

}  // namespace escapement
