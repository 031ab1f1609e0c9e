// Ranges: interval arithmetic over the canonical form, sharpened by the bounds that were assumed for whole expressions and by
// choosing a side of min, max and floordiv where that can only weaken the bound. Depth and width of that choice are fixed.
#include <algorithm>

#include "dims/impl.h"

namespace escapement {
namespace {

constexpr int kSplitDepth = 2;
constexpr size_t kSplitTerms = 6;  // wider sums are not split

bool infinite(int64_t bound) { return bound == Range::kMin || bound == Range::kMax; }

// Saturating: a bound that leaves 64 bits is no bound.
int64_t bound_add(int64_t a, int64_t b, int64_t none) {
  int64_t result;
  if (infinite(a) || infinite(b) || __builtin_add_overflow(a, b, &result)) return none;
  return result;
}

int64_t bound_mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t result;
  const bool negative = (a < 0) != (b < 0);
  if (infinite(a) || infinite(b) || __builtin_mul_overflow(a, b, &result)) return negative ? Range::kMin : Range::kMax;
  return result;
}

int64_t bound_divide(int64_t a, int64_t b) {  // b > 0
  if (infinite(a)) return a;
  return infinite(b) ? (a < 0 ? -1 : 0) : floor_divide(a, b);
}

}  // namespace

Range interval_add(Range a, Range b) {
  return {bound_add(a.low, b.low, Range::kMin), bound_add(a.high, b.high, Range::kMax)};
}

Range interval_mul(Range a, Range b) {
  const auto [low, high] = std::minmax({bound_mul(a.low, b.low), bound_mul(a.low, b.high), bound_mul(a.high, b.low),
                                        bound_mul(a.high, b.high)});
  return {low, high};
}

Range interval_scale(Range a, int64_t by) { return interval_mul(a, {by, by}); }
Range intersect(Range a, Range b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }

Range DimTable::Impl::variable_range(Var v) {
  if (const Cached& known = cached_variable(v); known.range_epoch == range_epoch) return known.range;
  const Range result = variable_range_now(v);
  Cached& known = cached_variable(v);
  known.range = result;
  known.range_epoch = range_epoch;
  return result;
}

Range DimTable::Impl::variable_range_now(Var v) {
  const Variable& variable = variables[v];
  Range result;
  if (!variable.is_atom) result = symbols[variable.symbol.index].range;
  if (const auto found = bounds.find(of(v)); found != bounds.end()) result = intersect(result, found->second);
  return variable.is_atom ? intersect(result, atom_range(variable)) : result;
}

Range DimTable::Impl::operand_range(SizeOp op, Dim a) {
  const auto bits = takes_real(op) ? literal(a) : std::nullopt;
  return bits ? Range{real_rank(real_of(*bits)), real_rank(real_of(*bits))} : range(a);
}

Range DimTable::Impl::atom_range(const Variable& v) {
  if (is_real_op(v.op)) return real_range(v.op, operand_range(v.op, v.a), is_unary(v.op) ? Range() : operand_range(v.op, v.b));
  const Range a = range(v.a);
  Range b = range(v.b);
  if (divides(v.op) && b.low == 0) b.low = 1;  // a divisor is not zero: dims.h
  if (divides(v.op) && b.low > b.high) return {};  // the facts say that it is: there is no value
  switch (v.op) {
    case SizeOp::min: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case SizeOp::max: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case SizeOp::add: return interval_add(a, b);
    case SizeOp::mul: return interval_mul(a, b);
    case SizeOp::mod:
      if (b.low > 0) return {0, std::min(bound_add(b.high, -1, Range::kMax), a.low >= 0 ? a.high : Range::kMax)};
      if (b.high < 0) return {bound_add(b.low, 1, Range::kMin), 0};
      return {};
    case SizeOp::floordiv:
      if (b.low <= 0) return {};
      return {std::min(bound_divide(a.low, b.low), bound_divide(a.low, b.high)),
              std::max(bound_divide(a.high, b.low), bound_divide(a.high, b.high))};
    default: break;
  }
  return {};
}

Range DimTable::Impl::term_range(const Term& term) {
  Range result{term.coefficient, term.coefficient};
  for (Var v : vars(term)) result = interval_mul(result, variable_range(v));
  if (bounds.empty() || vars(term).size() < 2) return result;
  const auto found = bounds.find(intern(Term{term.monomial, 1}));  // a bound on the product as a whole
  return found == bounds.end() ? result : intersect(result, interval_scale(found->second, term.coefficient));
}

// Intervals of the terms, and the bound assumed for the expression as a whole.
Range DimTable::Impl::simple_range(Dim a) {
  Range result{0, 0};
  for (const Term& term : poly(a)) result = interval_add(result, term_range(term));
  work += poly(a).size();
  if (bounds.empty() || literal(a)) return result;
  const Primitive p = primitive(a);
  if (const auto found = bounds.find(p.dim); found != bounds.end())
    result = intersect(result, interval_add(interval_scale(found->second, p.factor), {p.constant, p.constant}));
  return result;
}

// A lower bound from replacing the atom of one term: max(x, y) >= x, -min(x, y) >= -x, and c * floordiv(x, c) is between
// x - c + 1 and x. Where the atom may be either operand, the smaller bound counts.
std::optional<int64_t> DimTable::Impl::split_lower_bound(Dim a, size_t index, int depth) {
  const Term term = poly(a)[index];
  if (vars(term).size() != 1 || !variables[vars(term)[0]].is_atom) return std::nullopt;
  const Variable v = variables[vars(term)[0]];
  const Dim others = sub(a, intern(term));
  auto with = [&](Dim replacement, int64_t by) { return lower_bound(canonical(add(others, scale(replacement, by))), depth - 1); };
  const bool positive = term.coefficient > 0;
  if (v.op == SizeOp::min || v.op == SizeOp::max) {
    const int64_t x = with(v.a, term.coefficient), y = with(v.b, term.coefficient);
    return positive == (v.op == SizeOp::max) ? std::max(x, y) : std::min(x, y);
  }
  const auto c = v.op == SizeOp::floordiv ? literal(v.b) : std::nullopt;
  if (!c || *c <= 0 || term.coefficient % *c != 0) return std::nullopt;
  return with(positive ? add(v.a, constant(1 - *c)) : v.a, term.coefficient / *c);
}

int64_t DimTable::Impl::lower_bound(Dim a, int depth) {
  int64_t best = simple_range(a).low;
  if (depth == 0 || poly(a).size() > kSplitTerms) return best;
  for (size_t i = 0; i < poly(a).size(); ++i) {
    try {
      if (const auto bound = split_lower_bound(a, i, depth)) best = std::max(best, *bound);
    } catch (const UserError&) {  // an overflow on the way proves nothing
    }
  }
  return best;
}

Range DimTable::Impl::range(Dim a) {
  if (const auto c = literal(a)) return {*c, *c};
  if (const Cached& known = cached(a); known.range_epoch == range_epoch) return known.range;
  const Range result = poly(a).size() > kSplitTerms ? simple_range(a) : split_range(a);
  cached(a).range = result;
  cached(a).range_epoch = range_epoch;
  return result;
}

Range DimTable::Impl::split_range(Dim a) {
  Range result = simple_range(a);
  result.low = std::max(result.low, lower_bound(a, kSplitDepth));
  try {
    const int64_t negated = lower_bound(scale(a, -1), kSplitDepth);
    if (!infinite(negated)) result.high = std::min(result.high, -negated);
  } catch (const DimOverflow&) {
  }
  return result;
}

void DimTable::Impl::add_bound(Dim a, Range r) {
  if (r == Range{}) return;
  const Primitive p = primitive(a);
  if (const auto c = literal(a)) {
    if (*c < r.low || *c > r.high) throw UserError("contradictory assumptions about " + text(a));
    return;
  }
  if (p.constant == INT64_MIN) return;  // has no negative
  // factor * x + constant in [low, high], solved for x, rounding inwards.
  Range shifted = interval_add(r, {-p.constant, -p.constant});
  if (p.factor < 0) shifted = interval_scale(shifted, -1);
  const int64_t by = p.factor < 0 ? -p.factor : p.factor;
  const Range scaled{infinite(shifted.low) ? shifted.low : -floor_divide(-shifted.low, by),
                     infinite(shifted.high) ? shifted.high : floor_divide(shifted.high, by)};
  const auto found = bounds.emplace(p.dim, Range{}).first;
  const Range narrowed = intersect(found->second, scaled);
  if (narrowed == found->second) return;
  found->second = narrowed;
  bound_changed(narrowed.low == narrowed.high);
  if (narrowed.low > narrowed.high) throw UserError("contradictory assumptions about " + text(p.dim));
}

void DimTable::assume_range(Dim a, Range r) {
  Impl& t = *impl_;
  const auto lone = t.lone_variable(a);
  const bool symbol = lone && !t.variables[*lone].is_atom;
  if (symbol) {
    Range& known = t.symbols[t.variables[*lone].symbol.index].range;
    const Range narrowed = intersect(known, r);
    if (narrowed == known) return;
    if (narrowed.low > narrowed.high) throw UserError("contradictory assumptions about " + to_string(a));
    known = narrowed;
    t.bound_changed(narrowed.low == narrowed.high);
    t.add_bound(t.canonical(a), r);
    return;
  }
  if (intersect(range(a), r) == range(a)) return;
  t.add_bound(t.canonical(a), r);
  t.facts.push_back(DimFact{DimFact::Kind::range, a, {}, r});
}

void DimTable::assume_ranges(std::span<const Dim> dims, Range r) {
  Impl& t = *impl_;
  const auto is_lone = [&](Dim a) { return t.lone_variable(a).has_value(); };
  for (const Dim a : dims)
    if (is_lone(a)) assume_range(a, r);  // may change canonical forms, so these come first
  std::vector<std::pair<Dim, Dim>> news;  // as told, canonical
  for (const Dim a : dims)
    if (!is_lone(a) && intersect(range(a), r) != range(a)) news.emplace_back(a, t.canonical(a));
  for (const auto& [told, canonical] : news) {
    t.add_bound(canonical, r);
    t.facts.push_back(DimFact{DimFact::Kind::range, told, {}, r});
  }
}

Range DimTable::range(Dim a) const { return impl_->range(impl_->canonical(a)); }

}  // namespace escapement
