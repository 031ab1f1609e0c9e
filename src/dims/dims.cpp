// The structural layer of DimTable: interning, the normal form, and the constructors add, mul, min, max.
#include "dims/dims.h"

#include <algorithm>

#include "dims/impl.h"

namespace escapement {
namespace {

uint64_t mix(uint64_t seed, uint64_t value) { return (seed ^ value) * 0x9e3779b97f4a7c15u + (seed >> 31); }

uint64_t hash_of(Terms p) {
  uint64_t seed = p.size();
  for (const Term& term : p) seed = mix(mix(seed, static_cast<uint64_t>(term.coefficient)), term.monomial);
  return seed;
}

uint64_t hash_of(std::span<const Var> factors) {
  uint64_t seed = factors.size();
  for (const Var v : factors) seed = mix(seed, v);
  return seed;
}

}  // namespace

void no_such_size(SizeOp op, int64_t divisor) {
  if (divides(op) && divisor == 0) throw UserError("a size expression divides by zero");
  throw DimOverflow("a size expression leaves the range of 64-bit integers");
}

// --- order

int DimTable::Impl::compare_vars(Var a, Var b) const {
  if (a == b) return 0;
  const Variable &x = variables[a], &y = variables[b];
  if (x.is_atom != y.is_atom) return x.is_atom ? 1 : -1;
  if (!x.is_atom) return x.symbol < y.symbol ? -1 : 1;
  if (is_wide(x.op) != is_wide(y.op)) return is_wide(y.op) ? -1 : 1;
  if (x.op != y.op) return x.op < y.op ? -1 : 1;
  if (int order = compare(x.a, y.a)) return order;
  return compare(x.b, y.b);
}

int DimTable::Impl::compare_monomials(Monomial x, Monomial y) const {
  if (x == y) return 0;
  const std::span<const Var> a = monomials[x], b = monomials[y];
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    if (int order = compare_vars(a[i], b[i])) return order;
  return 0;
}

// Different ids have different structure, so the first difference decides and the recursion follows one path only.
int DimTable::Impl::compare(Dim a, Dim b) const {
  if (a == b) return 0;
  const Terms p = poly(a), q = poly(b);
  for (size_t i = 0; i < std::min(p.size(), q.size()); ++i) {
    if (int order = compare_monomials(p[i].monomial, q[i].monomial)) return order;
    if (p[i].coefficient != q[i].coefficient) return p[i].coefficient < q[i].coefficient ? -1 : 1;
  }
  return p.size() < q.size() ? -1 : 1;
}

// --- interning

Monomial DimTable::Impl::monomial(std::span<const Var> factors) {
  const uint64_t hash = hash_of(factors);
  const auto known = monomial_index.find(hash, [&](uint32_t i) { return std::ranges::equal(monomials[i], factors); });
  if (known) return *known;
  const Monomial made = monomials.push_back(factors);
  monomial_index.insert(hash, made);
  return made;
}

std::optional<Dim> DimTable::Impl::find(Terms p) const {
  const auto known = poly_index.find(hash_of(p), [&](uint32_t i) { return std::ranges::equal(polys[i], p); });
  return known ? std::optional(Dim(*known)) : std::nullopt;
}

Dim DimTable::Impl::intern(Terms p) {
  const uint64_t hash = hash_of(p);
  const auto known = poly_index.find(hash, [&](uint32_t i) { return std::ranges::equal(polys[i], p); });
  if (known) return Dim(*known);
  const uint32_t made = polys.push_back(p);
  poly_index.insert(hash, made);
  return Dim(made);
}

Dim DimTable::Impl::constant(int64_t value) { return value == 0 ? intern(Terms()) : intern(Term{0, value}); }

Var DimTable::Impl::new_variable(Variable variable) {
  const auto index = static_cast<Var>(variables.size());
  variable.is_born = variable.is_atom ? is_born(variable.a) || is_born(variable.b) : symbols[variable.symbol.index].kind == SymbolKind::born;
  variable.self = intern(Term{monomial(std::span(&index, 1)), 1});
  variables.push_back(variable);
  return index;
}

Dim DimTable::Impl::atom(SizeOp op, Dim a, Dim b) {
  const uint64_t hash = mix(mix(static_cast<uint64_t>(op), a.index), b.index);
  const auto known = atom_index.find(hash, [&](uint32_t i) {
    const Variable& v = variables[i];
    return v.op == op && v.a == a && v.b == b;
  });
  if (known) return of(*known);
  const Var index = new_variable(Variable{true, {}, op, a, b, {}});
  decidable_atoms += !is_wide(op);
  atom_index.insert(hash, index);
  return of(index);
}

// --- polynomials

Poly DimTable::Impl::normalise(Poly terms) const {
  const auto before = [&](const Term& a, const Term& b) { return compare_monomials(a.monomial, b.monomial) < 0; };
  if (!std::is_sorted(terms.begin(), terms.end(), before)) std::sort(terms.begin(), terms.end(), before);
  Poly result;
  result.reserve(terms.size());
  for (const Term& term : terms) {
    if (!result.empty() && result.back().monomial == term.monomial)
      result.back().coefficient = checked_add(result.back().coefficient, term.coefficient);
    else
      result.push_back(term);
  }
  std::erase_if(result, [](const Term& term) { return term.coefficient == 0; });
  return result;
}

Poly DimTable::Impl::sum(Terms a, Terms b, int64_t sign) const {
  Poly result;
  result.reserve(a.size() + b.size());
  auto x = a.begin(), y = b.begin();
  while (x != a.end() && y != b.end()) {
    const int order = compare_monomials(x->monomial, y->monomial);
    Term term = order <= 0 ? *x++ : Term{y->monomial, 0};
    if (order >= 0) term.coefficient = checked_add(term.coefficient, checked_mul(sign, y++->coefficient));
    if (term.coefficient != 0) result.push_back(term);
  }
  result.insert(result.end(), x, a.end());
  for (; y != b.end(); ++y) result.push_back({y->monomial, checked_mul(sign, y->coefficient)});
  return result;
}

Poly DimTable::Impl::scaled(Terms p, int64_t by) const {
  if (by == 0) return {};
  Poly result(p.begin(), p.end());
  for (Term& term : result) term.coefficient = checked_mul(term.coefficient, by);
  return result;
}

Term DimTable::Impl::term_product(const Term& a, const Term& b) {
  const std::span<const Var> x = vars(a), y = vars(b);
  Factors both;
  both.resize(x.size() + y.size());
  std::merge(x.begin(), x.end(), y.begin(), y.end(), both.begin(), [&](Var v, Var w) { return compare_vars(v, w) < 0; });
  return {monomial(both), checked_mul(a.coefficient, b.coefficient)};
}

std::optional<Term> DimTable::Impl::term_quotient(const Term& a, const Term& b) {
  if (a.coefficient % b.coefficient != 0 || (b.coefficient == -1 && a.coefficient == INT64_MIN)) return std::nullopt;
  const std::span<const Var> divisor = vars(b);
  Factors rest;
  size_t matched = 0;
  for (Var v : vars(a)) {
    if (matched < divisor.size() && divisor[matched] == v) ++matched;
    else rest.push_back(v);
  }
  if (matched != divisor.size()) return std::nullopt;
  return Term{monomial(rest), a.coefficient / b.coefficient};
}

Dim DimTable::Impl::add(Dim a, Dim b) {
  if (compare(b, a) < 0) std::swap(a, b);  // so that a wide sum does not depend on the order of its operands
  work += poly(a).size() + poly(b).size();
  const Poly both = sum(poly(a), poly(b), 1);
  return both.size() > kMaxTerms ? atom(SizeOp::add, a, b) : intern(both);
}

Dim DimTable::Impl::sub(Dim a, Dim b) {
  if (a == b) return constant(0);
  work += poly(a).size() + poly(b).size();
  const Poly apart = sum(poly(a), poly(b), -1);
  return apart.size() > kMaxTerms ? add(a, scale(b, -1)) : intern(apart);
}

Dim DimTable::Impl::scale(Dim a, int64_t by) {
  work += poly(a).size();
  return intern(scaled(poly(a), by));
}

Dim DimTable::Impl::mul(Dim a, Dim b) {
  if (const auto c = literal(a)) return scale(b, *c);
  if (const auto c = literal(b)) return scale(a, *c);
  if (compare(b, a) < 0) std::swap(a, b);
  const Terms p = poly(a), q = poly(b);
  const bool wide = p.size() * q.size() > 4 * kMaxTerms || vars(p[0]).size() + vars(q[0]).size() > kMaxDegree;
  if (wide) return atom(SizeOp::mul, a, b);
  Poly terms;
  for (const Term& x : p)
    for (const Term& y : q) terms.push_back(term_product(x, y));
  work += terms.size();
  Poly product = normalise(std::move(terms));
  return product.size() > kMaxTerms ? atom(SizeOp::mul, a, b) : intern(product);
}

Dim DimTable::Impl::min_or_max(SizeOp op, Dim a, Dim b) {
  if (a == b) return a;
  if (compare(b, a) < 0) std::swap(a, b);
  // Operands a constant apart need no facts. An overflowing difference only means that we do not see it.
  try {
    if (const auto apart = literal(sub(a, b))) return (*apart < 0) == (op == SizeOp::min) ? a : b;
  } catch (const DimOverflow&) {
  }
  return atom(op, a, b);
}

Dim DimTable::Impl::build(SizeOp op, Dim a, Dim b) {
  switch (op) {
    case SizeOp::floordiv: return floordiv(a, b);
    case SizeOp::mod: return mod(a, b);
    case SizeOp::min:
    case SizeOp::max: return min_or_max(op, a, b);
    case SizeOp::add: return add(a, b);
    case SizeOp::mul: return mul(a, b);
    case SizeOp::constant:
    case SizeOp::symbol:
    case SizeOp::dim: return a;
    default: return real_atom(op, a, b);
  }
}

// Of numbers the number; where it is none, an expression that has no value.
Dim DimTable::Impl::real_atom(SizeOp op, Dim a, Dim b) {
  if (is_unary(op)) b = constant(0);
  if (commutes(op) && compare(b, a) < 0) std::swap(a, b);
  const auto x = literal(a), y = literal(b);
  if (const ExactSize known = x && y ? exact(op, *x, *y) : ExactSize()) return constant(*known);
  return atom(op, a, b);
}

std::optional<int64_t> DimTable::Impl::literal(Dim a) const {
  const Terms p = poly(a);
  if (p.empty()) return 0;
  if (p.size() == 1 && p[0].monomial == 0) return p[0].coefficient;
  return std::nullopt;
}

std::optional<Var> DimTable::Impl::lone_variable(Dim a) const {
  const Terms p = poly(a);
  if (p.size() != 1 || p[0].coefficient != 1 || vars(p[0]).size() != 1) return std::nullopt;
  return vars(p[0])[0];
}

int64_t DimTable::Impl::constant_part(Dim a) const {
  const Terms p = poly(a);
  return !p.empty() && p.back().monomial == 0 ? p.back().coefficient : 0;
}

bool DimTable::Impl::is_born(Dim a) const {
  return std::ranges::any_of(poly(a), [&](const Term& term) {
    return std::ranges::any_of(vars(term), [&](Var v) { return variables[v].is_born; });
  });
}

// --- the public face of the structural layer

DimTable::DimTable() : impl_(std::make_unique<Impl>()) {}
DimTable::~DimTable() = default;
DimTable::DimTable(const DimTable& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
DimTable::DimTable(DimTable&& other) noexcept = default;
DimTable& DimTable::operator=(DimTable&& other) noexcept = default;
DimTable& DimTable::operator=(const DimTable& other) {
  if (this != &other) impl_ = std::make_unique<Impl>(*other.impl_);
  return *this;
}

Dim DimTable::constant(int64_t value) { return impl_->constant(value); }

Dim DimTable::new_symbol(SymbolKind kind, Source source, std::optional<int64_t> hint) {
  Impl& t = *impl_;
  SymbolInfo info{kind, t.next_number[static_cast<size_t>(kind)]++, {}, hint, source};
  if (kind == SymbolKind::size) info.range.low = 0;
  const Symbol symbol(static_cast<uint32_t>(t.symbols.size()));
  t.symbols.push_back(info);
  t.symbol_vars.push_back(t.new_variable(Variable{false, symbol, SizeOp::floordiv, {}, {}, {}}));
  return of(symbol);
}

Dim DimTable::of(Symbol symbol) { return impl_->of(impl_->symbol_vars[symbol.index]); }
Dim DimTable::add(Dim a, Dim b) { return impl_->add(a, b); }
Dim DimTable::sub(Dim a, Dim b) { return impl_->sub(a, b); }
Dim DimTable::mul(Dim a, Dim b) { return impl_->mul(a, b); }
Dim DimTable::neg(Dim a) { return impl_->scale(a, -1); }
Dim DimTable::floordiv(Dim a, Dim b) { return impl_->floordiv(a, b); }
Dim DimTable::mod(Dim a, Dim b) { return impl_->mod(a, b); }
Dim DimTable::min(Dim a, Dim b) { return impl_->min_or_max(SizeOp::min, a, b); }
Dim DimTable::max(Dim a, Dim b) { return impl_->min_or_max(SizeOp::max, a, b); }

Dim DimTable::real(double value) { return impl_->constant(real_bits(value)); }
Dim DimTable::apply(SizeOp op, Dim a, Dim b) { return impl_->build(op, a, b); }

Dim DimTable::product(std::span<const Dim> dims) {
  Dim result = constant(1);
  for (Dim dim : dims) result = mul(result, dim);
  return result;
}

size_t DimTable::size() const { return impl_->polys.size(); }
uint64_t DimTable::work() const { return impl_->work; }
size_t DimTable::symbol_count() const { return impl_->symbols.size(); }
const SymbolInfo& DimTable::info(Symbol symbol) const { return impl_->symbols[symbol.index]; }
void DimTable::set_source(Symbol symbol, Source source) { impl_->symbols[symbol.index].source = source; }

}  // namespace escapement
