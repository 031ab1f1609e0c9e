// Expressions behind symbolic floats and booleans: what is known of them, how they become values and guards. See symnode.h.
#include "torch/record/symnode.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "dims/real.h"
#include "support/error.h"
#include "torch/record/libm.h"
#include "torch/record/unharmed.h"
#include "trace/guard_relation.h"

namespace escapement {

namespace {

using FKind = FloatExpr::Kind;
using BKind = BoolExpr::Kind;

double apply(FKind kind, double a, double b) {
  switch (kind) {
    case FKind::add: return a + b;
    case FKind::sub: return a - b;
    case FKind::mul: return a * b;
    case FKind::div: return a / b;
    case FKind::pow: return std::pow(a, b);
    case FKind::sqrt: return std::sqrt(a);
    case FKind::log2: return std::log2(a);
    case FKind::neg: return -a;
    case FKind::min: return b < a ? b : a;
    case FKind::max: return b > a ? b : a;
    default: return a;
  }
}

Truth negated(Truth t) { return t == Truth::unknown ? t : t == Truth::yes ? Truth::no : Truth::yes; }

Truth truth_of(const DimTable& dims, const BoolExpr& e) {
  switch (e.relation) {
    case Guard::Kind::equal: return dims.equal(e.left, e.right);
    case Guard::Kind::not_equal: return negated(dims.equal(e.left, e.right));
    case Guard::Kind::less: return dims.less(e.left, e.right);
    case Guard::Kind::less_equal:
      // No size is larger; this is how "to the end" is written in a slice.
      if (dims.as_constant(e.right) == std::optional<int64_t>(INT64_MAX)) return Truth::yes;
      return dims.less_equal(e.left, e.right);
  }
  return Truth::unknown;
}

// What an operation is among kernels and among sizes. Powers and logarithms are no kernels: libm.h.
struct Operation {
  FKind kind;
  Op of_values;
  SizeOp of_sizes;
};
constexpr Operation kOperations[] = {
    {FKind::add, Op::add, SizeOp::real_add},     {FKind::sub, Op::sub, SizeOp::real_add},      {FKind::mul, Op::mul, SizeOp::real_mul},
    {FKind::div, Op::div, SizeOp::real_div},     {FKind::sqrt, Op::sqrt, SizeOp::real_sqrt},   {FKind::neg, Op::neg, SizeOp::real_mul},
    {FKind::min, Op::minimum, SizeOp::real_min}, {FKind::max, Op::maximum, SizeOp::real_max},  {FKind::pow, Op::copy, SizeOp::real_pow},
    {FKind::log2, Op::copy, SizeOp::real_log2},
};

const Operation& operation(FKind kind) {
  const auto* const found = std::find_if(std::begin(kOperations), std::end(kOperations), [&](const Operation& o) { return o.kind == kind; });
  ESCAPEMENT_CHECK(found != std::end(kOperations), "a symbolic float is made by no operation");
  return *found;
}

}  // namespace

namespace {

bool never_negative(const DimTable& dims, const FloatExpr& e, int& steps) {
  if (--steps < 0) return false;
  switch (e.kind) {
    case FKind::constant: return e.hint >= 0;
    case FKind::dim: return dims.range(e.dim).low >= 0;
    case FKind::sqrt: return true;
    case FKind::add: case FKind::mul: case FKind::div: case FKind::max: case FKind::min:
      return never_negative(dims, *e.a, steps) && never_negative(dims, *e.b, steps);
    case FKind::pow: return never_negative(dims, *e.a, steps);
    default: return false;
  }
}

// What occurs twice in an expression is walked once: a chain in which each step uses the last one twice has a power of two of paths.
using Seen = std::unordered_set<const FloatExpr*>;
using Made = std::unordered_map<const FloatExpr*, ValueId>;

void pin_float(Tape& tape, const FloatExpr& e, const std::string& because, Seen& seen) {
  if (!seen.insert(&e).second) return;
  switch (e.kind) {
    case FKind::constant: return;
    case FKind::dim: tape.pin(e.dim, static_cast<int64_t>(e.hint), because); return;
    case FKind::value: tape.guard_float_value(e.value, e.hint); return;
    default:
      pin_float(tape, *e.a, because, seen);
      if (e.b) pin_float(tape, *e.b, because, seen);
  }
}

}  // namespace

bool never_negative(const DimTable& dims, const FloatExpr& e) {
  int steps = 64;
  return never_negative(dims, e, steps);
}

namespace {

// What occurs twice counts twice: whoever writes the expression down writes it twice.
std::optional<Dim> real_dim(Tape& tape, const FloatExpr& e, int& steps) {
  if (e.reads || e.kind == FKind::value || --steps < 0) return {};
  DimTable& dims = tape.dims();
  if (e.kind == FKind::constant) return std::isfinite(e.hint) ? std::optional(dims.real(e.hint)) : std::nullopt;
  if (e.kind == FKind::dim) return dims.apply(SizeOp::real, tape.settled(e.dim));
  const SizeOp op = operation(e.kind).of_sizes;
  const auto a = real_dim(tape, *e.a, steps);
  if (!a) return {};
  if (e.kind == FKind::neg) return dims.apply(op, *a, dims.real(-1));
  if (!e.b) return dims.apply(op, *a);
  const auto b = real_dim(tape, *e.b, steps);
  if (!b) return {};
  return dims.apply(op, *a, e.kind == FKind::sub ? dims.apply(SizeOp::real_mul, *b, dims.real(-1)) : *b);   // the same bits
}

}  // namespace

std::optional<Dim> real_dim(Tape& tape, const FloatExpr& e) {
  int steps = 48;
  return real_dim(tape, e, steps);
}

void pin_float(Tape& tape, const FloatExpr& e, const std::string& because) {
  Seen seen;
  pin_float(tape, e, because, seen);
}

Truth known(Tape& tape, const BoolExpr& e) {
  switch (e.kind) {
    case BKind::constant: return e.hint ? Truth::yes : Truth::no;
    case BKind::relation: return truth_of(tape.dims(), e);
    case BKind::negation: return negated(known(tape, *e.a));
    case BKind::both:
    case BKind::either: {
      const Truth absorbing = e.kind == BKind::either ? Truth::yes : Truth::no;
      const Truth a = known(tape, *e.a), b = known(tape, *e.b);
      if (a == absorbing || b == absorbing) return absorbing;
      return a == Truth::unknown || b == Truth::unknown ? Truth::unknown : a;
    }
    case BKind::layout: return e.b && known(tape, *e.b) != Truth::yes ? Truth::unknown : known(tape, *e.a);
    case BKind::floats: return Truth::unknown;
  }
  return Truth::unknown;
}

bool outcome(Tape& tape, const BoolExpr& e, std::span<const int64_t> symbols) {
  const auto at = [&](Dim dim) { return tape.dims().evaluate(dim, symbols); };
  switch (e.kind) {
    case BKind::relation: return holds(e.relation, at(e.left), at(e.right));
    case BKind::negation: return !outcome(tape, *e.a, symbols);
    case BKind::both: return outcome(tape, *e.a, symbols) && outcome(tape, *e.b, symbols);
    case BKind::either: return outcome(tape, *e.a, symbols) || outcome(tape, *e.b, symbols);
    case BKind::constant: case BKind::floats: case BKind::layout: break;
  }
  return e.hint;
}

FloatExprPtr float_constant(double value) {
  FloatExpr e;
  e.hint = value;
  return std::make_shared<const FloatExpr>(std::move(e));
}

FloatExprPtr float_binary(FKind kind, FloatExprPtr a, FloatExprPtr b) {
  FloatExpr e;
  e.kind = kind;
  e.hint = apply(kind, a->hint, b ? b->hint : 0);
  const bool constant = a->kind == FKind::constant && (!b || b->kind == FKind::constant);
  if (constant) return float_constant(e.hint);
  e.reads = a->reads || (b && b->reads);
  e.depth = 1 + std::max(a->depth, b ? b->depth : 0);
  e.a = std::move(a);
  e.b = std::move(b);
  return std::make_shared<const FloatExpr>(std::move(e));
}

FloatExprPtr float_value(ValueId value, double hint) {
  FloatExpr e;
  e.kind = FKind::value;
  e.reads = true;
  e.hint = hint;
  e.value = value;
  return std::make_shared<const FloatExpr>(std::move(e));
}

namespace {

ValueId materialise(Tape& tape, const FloatExpr& e, Made& made);

ValueId made_of(Tape& tape, const FloatExpr& e, Made& made) {
  Number number;
  switch (e.kind) {
    case FKind::constant:
      number.kind = Number::Kind::real;
      number.real = e.hint;
      return tape.scalar(number, DType::f64);
    case FKind::dim:
      number.kind = Number::Kind::dim;
      number.dim = tape.settled(e.dim);
      return tape.scalar(number, DType::f64);
    case FKind::value: return tape.builder.cast(e.value, DType::f64);
    default: break;
  }
  std::vector<ValueId> operands{materialise(tape, *e.a, made)};
  if (e.b) operands.push_back(materialise(tape, *e.b, made));
  if (e.kind == FKind::pow) return record_power(tape, operands[0], e.a->hint, operands[1], e.b->hint);
  if (e.kind == FKind::log2) return record_log2(tape, operands[0], e.a->hint);
  return tape.builder.pointwise(operation(e.kind).of_values, operands);
}

ValueId materialise(Tape& tape, const FloatExpr& e, Made& made) {
  if (const auto known = made.find(&e); known != made.end()) return known->second;
  return made[&e] = made_of(tape, e, made);
}

}  // namespace

ValueId materialise(Tape& tape, const FloatExpr& e) {
  Made made;
  return materialise(tape, e, made);
}

BoolExprPtr bool_relation(Guard::Kind relation, Dim left, Dim right, bool hint) {
  BoolExpr e;
  e.kind = BKind::relation;
  e.relation = relation;
  e.left = left;
  e.right = right;
  e.hint = hint;
  return std::make_shared<const BoolExpr>(std::move(e));
}

BoolExprPtr bool_constant(bool value) {
  BoolExpr e;
  e.hint = value;
  return std::make_shared<const BoolExpr>(std::move(e));
}

BoolExprPtr bool_node(BKind kind, BoolExprPtr a, BoolExprPtr b, bool hint) {
  BoolExpr e;
  e.kind = kind;
  e.hint = hint;
  e.a = std::move(a);
  e.b = std::move(b);
  return std::make_shared<const BoolExpr>(std::move(e));
}

BoolExprPtr bool_both(BoolExprPtr a, BoolExprPtr b) {
  const bool hint = a->hint && b->hint;
  return bool_node(BKind::both, std::move(a), std::move(b), hint);
}

BoolExprPtr bool_either(BoolExprPtr a, BoolExprPtr b) {
  const bool hint = a->hint || b->hint;
  return bool_node(BKind::either, std::move(a), std::move(b), hint);
}

namespace {

Op op_of(Guard::Kind relation) {
  switch (relation) {
    case Guard::Kind::equal: return Op::eq;
    case Guard::Kind::not_equal: return Op::ne;
    case Guard::Kind::less: return Op::lt;
    default: return Op::le;
  }
}

// A comparison of values that were read is computed where they are; of sizes alone, the sizes are pinned.
void decide_floats(Tape& tape, const BoolExpr& e, const std::string& because) {
  if (!e.x->reads && !e.y->reads) {
    pin_float(tape, *e.x, because);
    pin_float(tape, *e.y, because);
    return;
  }
  const ValueId answer = tape.builder.pointwise(op_of(e.relation), std::vector<ValueId>{materialise(tape, *e.x), materialise(tape, *e.y)});
  tape.guard_relation(Guard::Kind::equal, tape.item(answer, e.hint), tape.dims().constant(e.hint), true, because);
}

void guard_outcome(Tape& tape, const BoolExpr& e, const std::string& because) {
  switch (e.kind) {
    case BKind::constant: break;
    case BKind::relation: tape.guard_relation(e.relation, e.left, e.right, e.hint, because); break;
    case BKind::negation: decide(tape, *e.a, because); break;
    case BKind::both:
    case BKind::either: {
      // One side alone explains the outcome if it is the absorbing one (false of `and`, true of `or`): prefer a provable one.
      const bool absorbing = e.kind == BKind::either;
      const BoolExpr* alone = nullptr;
      for (const BoolExpr* side : {e.b.get(), e.a.get()})
        if (side->hint == absorbing && (!alone || known(tape, *side) != Truth::unknown)) alone = side;
      if (alone) {
        decide(tape, *alone, because);
      } else {
        decide(tape, *e.a, because);
        decide(tape, *e.b, because);
      }
      break;
    }
    case BKind::floats:
      decide_floats(tape, e, because);
      break;
    case BKind::layout:
      if (e.b && !e.b->hint) {
        tape.pin_everything(because);
      } else {
        if (e.b) decide(tape, *e.b, because);
        decide(tape, *e.a, because);
      }
      break;
  }
}

}  // namespace

// The host goes on with the outcome, whether it can be written down or not.
bool decide(Tape& tape, const BoolExpr& e, const std::string& because) {
  if (tape.live()) unharmed(tape, [&] { guard_outcome(tape, e, because); });
  return e.hint;
}

namespace {

// left < right, of integers: 1 or 0.
Dim less_number(DimTable& dims, Dim left, Dim right) {
  return dims.min(dims.constant(1), dims.max(dims.constant(0), dims.sub(right, left)));
}

Dim relation_number(DimTable& dims, const BoolExpr& e) {
  const auto negated = [&](Dim truth) { return dims.sub(dims.constant(1), truth); };
  const auto differ = [&] { return dims.max(less_number(dims, e.left, e.right), less_number(dims, e.right, e.left)); };
  switch (e.relation) {
    case Guard::Kind::equal: return negated(differ());
    case Guard::Kind::not_equal: return differ();
    case Guard::Kind::less: return less_number(dims, e.left, e.right);
    case Guard::Kind::less_equal: return negated(less_number(dims, e.right, e.left));
  }
  return {};
}

}  // namespace

Dim truth_dim(DimTable& dims, const BoolExpr& e) {
  if (e.kind == BKind::constant) return dims.constant(e.hint);
  if (e.kind == BKind::relation) return relation_number(dims, e);
  if (e.kind == BKind::floats) return {};
  if (e.kind == BKind::layout) return e.b ? Dim() : truth_dim(dims, *e.a);
  const Dim a = truth_dim(dims, *e.a), b = e.b ? truth_dim(dims, *e.b) : a;
  if (!a || !b) return {};
  if (e.kind == BKind::negation) return dims.sub(dims.constant(1), a);
  return e.kind == BKind::both ? dims.min(a, b) : dims.max(a, b);
}

c10::SymInt truth_number(const c10::SymBool& value) {
  if (!value.is_heap_allocated()) return static_cast<int64_t>(value.as_bool_unchecked());
  Node* node = Node::of(value.toSymNodeImplUnowned());
  const Dim truth = node && node->tape().live() ? truth_dim(node->tape().dims(), *node->bool_expr()) : Dim();
  if (!truth) return static_cast<int64_t>(value.guard_bool(__FILE__, __LINE__));
  return node->tape().symint(truth, node->bool_expr()->hint);
}

c10::SymBool symbool(Tape& tape, BoolExprPtr expr) {
  if (!tape.live() || expr->kind == BKind::constant) return c10::SymBool(expr->hint);
  c10::SymNode node = Node::boolean(tape.shared_from_this(), std::move(expr));
  if (auto* shell = python_hooks().to_python) node = shell(std::move(node));
  return c10::SymBool(std::move(node));
}

}  // namespace escapement
