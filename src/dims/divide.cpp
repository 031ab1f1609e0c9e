// floordiv and mod of the structural layer. Every rule holds for all values of the symbols, except that a divisor is taken to
// be non-zero (dims.h says who owes that guard).
#include <numeric>

#include "dims/impl.h"

namespace escapement {

// a == quotient * divisor + rest, where no term of rest is a multiple of the divisor.
std::pair<Dim, Dim> DimTable::Impl::split_by_monomial(Dim a, const Term& divisor) {
  Poly quotient, rest;
  for (const Term& term : poly(a)) {
    if (auto q = term_quotient(term, divisor)) quotient.push_back(*q);
    else rest.push_back(term);
  }
  work += poly(a).size();
  const Dim whole = intern(normalise(std::move(quotient)));
  return {whole, intern(rest)};
}

// Long division by leading terms; graded order makes the leading term of a product the product of the leading terms.
std::optional<Dim> DimTable::Impl::exact_quotient(Dim a, Dim b) {
  Poly quotient;
  Dim rest = a;
  for (size_t step = 0; !poly(rest).empty(); ++step) {
    if (step == kMaxTerms || vars(poly(rest)[0]).size() < vars(poly(b)[0]).size()) return std::nullopt;
    std::optional<Term> q = term_quotient(poly(rest)[0], poly(b)[0]);
    if (!q) return std::nullopt;
    const Dim product = mul(intern(*q), b);
    const Dim next = sub(rest, product);
    if (!poly(next).empty() && compare_monomials(poly(next)[0].monomial, poly(rest)[0].monomial) <= 0) return std::nullopt;  // went wide
    rest = next;
    quotient.push_back(*q);
  }
  return intern(normalise(std::move(quotient)));
}

Dim DimTable::Impl::floordiv(Dim a, Dim b) {
  if (const auto c = literal(b)) {
    if (*c == 0) throw UserError("a size expression divides by zero");
    return *c > 0 ? floordiv_constant(a, *c) : floordiv_constant(scale(a, -1), checked_mul(*c, -1));
  }
  if (poly(b)[0].coefficient < 0) return floordiv(scale(a, -1), scale(b, -1));
  if (const auto q = exact_quotient(a, b)) return *q;
  if (poly(b).size() != 1) return atom(SizeOp::floordiv, a, b);
  const auto [quotient, rest] = split_by_monomial(a, poly(b)[0]);
  return add(quotient, atom(SizeOp::floordiv, rest, b));
}

Dim DimTable::Impl::mod(Dim a, Dim b) {
  if (const auto c = literal(b)) {
    if (*c == 0) throw UserError("a size expression divides by zero");
    return *c > 0 ? mod_constant(a, *c) : scale(mod_constant(scale(a, -1), checked_mul(*c, -1)), -1);
  }
  if (poly(b)[0].coefficient < 0) return scale(mod(scale(a, -1), scale(b, -1)), -1);
  if (exact_quotient(a, b)) return constant(0);
  if (poly(b).size() != 1) return atom(SizeOp::mod, a, b);
  return atom(SizeOp::mod, split_by_monomial(a, poly(b)[0]).second, b);
}

int64_t common_factor(int64_t a, int64_t b) {
  const auto magnitude = [](int64_t n) { return n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n); };
  const uint64_t found = std::gcd(magnitude(a), magnitude(b));
  return static_cast<int64_t>(found > INT64_MAX ? found / 2 : found);
}

namespace {

// The greatest common divisor of c and all coefficients except the constant's.
int64_t common_divisor(Terms p, int64_t c) {
  for (const Term& term : p)
    if (term.monomial != 0) c = common_factor(c, term.coefficient);
  return c;
}

// (g*x + k) -> x + floor(k/g)
Poly divided(Terms p, int64_t g) {
  Poly result(p.begin(), p.end());
  for (Term& term : result) term.coefficient = floor_divide(term.coefficient, g);
  std::erase_if(result, [](const Term& term) { return term.coefficient == 0; });
  return result;
}

}  // namespace

// c > 0. Terms that c divides go to the quotient; of the rest the leading coefficient is made positive, the constant is
// reduced below c, common factors are cancelled, and a division of a division becomes one.
Dim DimTable::Impl::floordiv_constant(Dim a, int64_t c) {
  if (c == 1) return a;
  const auto [quotient, rest] = split_by_monomial(a, Term{0, c});
  if (const auto k = literal(rest)) return add(quotient, constant(floor_divide(*k, c)));
  if (poly(rest)[0].coefficient < 0) {  // floor(-x / c) == -floor((x + c - 1) / c)
    const Dim flipped = floordiv_constant(add(scale(rest, -1), constant(c - 1)), c);
    return sub(quotient, flipped);
  }
  const int64_t k = constant_part(rest), whole = floor_divide(k, c);
  if (whole != 0) {
    const Dim reduced = add(rest, constant(checked_mul(whole, -c)));
    return add(add(quotient, constant(whole)), floordiv_constant(reduced, c));
  }
  const int64_t g = common_divisor(poly(rest), c);
  if (g > 1) return add(quotient, floordiv_constant(intern(divided(poly(rest), g)), c / g));
  const Dim inner = sub(rest, constant(k));
  const auto lone = lone_variable(inner);
  if (lone && variables[*lone].is_atom && variables[*lone].op == SizeOp::floordiv) {
    const Variable v = variables[*lone];  // floor((floor(x / d) + k) / c) == floor((x + d*k) / (d*c))
    int64_t both;
    const auto d = literal(v.b);
    if (d && !__builtin_mul_overflow(*d, c, &both))
      return add(quotient, floordiv_constant(add(v.a, constant(checked_mul(*d, k))), both));
  }
  return add(quotient, atom(SizeOp::floordiv, rest, constant(c)));
}

// c > 0. Coefficients are reduced to [0, c), common factors pulled out, and an inner mod by a multiple of c dropped.
Dim DimTable::Impl::mod_constant(Dim a, int64_t c) {
  Poly rest;
  for (const Term& term : poly(a)) {
    const int64_t coefficient = floor_modulo(term.coefficient, c);
    if (coefficient != 0) rest.push_back(Term{term.monomial, coefficient});
  }
  work += poly(a).size();
  for (const Term& term : rest) {
    if (vars(term).size() != 1 || !variables[vars(term)[0]].is_atom) continue;
    const Variable v = variables[vars(term)[0]];
    const auto m = v.op == SizeOp::mod ? literal(v.b) : std::nullopt;
    if (!m || *m % c != 0) continue;
    const Dim unwrapped = scale(sub(v.a, of(vars(term)[0])), term.coefficient);
    return mod_constant(add(intern(rest), unwrapped), c);
  }
  const Dim reduced = intern(rest);
  if (const auto k = literal(reduced)) return constant(floor_modulo(*k, c));
  const int64_t g = common_divisor(rest, c);
  if (g == 1) return atom(SizeOp::mod, reduced, constant(c));
  // (g*x + k) mod (g*c') == g*((x + k div g) mod c') + k mod g
  const int64_t left_over = floor_modulo(constant_part(reduced), g);
  return add(scale(mod_constant(intern(divided(rest, g)), c / g), g), constant(left_over));
}

}  // namespace escapement
