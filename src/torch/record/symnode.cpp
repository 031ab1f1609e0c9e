// See symnode.h. The expressions themselves are in symnode_expr.cpp.
#include "torch/record/symnode.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "dims/real.h"
#include "support/error.h"
#include "torch/record/forward.h"
#include "torch/record/unharmed.h"
#include "trace/guard_relation.h"

namespace escapement {

namespace {

using FKind = FloatExpr::Kind;
using BKind = BoolExpr::Kind;

constexpr uint32_t kDeepest = 1000;   // of float expressions, which are walked and let go of by recursion

FloatExprPtr float_of_dim(Dim dim, int64_t hint) {
  FloatExpr e;
  e.kind = FKind::dim;
  e.hint = static_cast<double>(hint);
  e.dim = dim;
  return std::make_shared<const FloatExpr>(std::move(e));
}

std::string place(const char* what, const char* file, int64_t line) {
  if (file == nullptr || *file == 0) return what;
  const std::string_view path = file;
  const size_t slash = path.rfind('/');
  const std::string name(path.substr(slash == path.npos ? 0 : slash + 1));
  return std::string(what) + (line > 0 ? " at " + name + ":" + std::to_string(line) : " of " + name);
}

}  // namespace

c10::SymNode Node::integer(TapePtr tape, Dim dim, int64_t hint) {
  auto node = c10::make_intrusive<Node>();
  node->kind_ = Kind::integer;
  node->tape_ = std::move(tape);
  node->dim_ = dim;
  node->int_hint_ = hint;
  return node;
}

c10::SymNode Node::boolean(TapePtr tape, BoolExprPtr expr) {
  auto node = c10::make_intrusive<Node>();
  node->kind_ = Kind::boolean;
  node->tape_ = std::move(tape);
  node->bool_expr_ = std::move(expr);
  return node;
}

c10::SymNode Node::real(TapePtr tape, FloatExprPtr expr) {
  auto node = c10::make_intrusive<Node>();
  node->kind_ = Kind::real;
  node->tape_ = std::move(tape);
  if (expr->depth > kDeepest) {
    if (node->tape_->live()) pin_float(*node->tape_, *expr, "a long chain of floating-point arithmetic");
    expr = float_constant(expr->hint);
  }
  node->float_ = std::move(expr);
  return node;
}

Node* Node::of(c10::SymNodeImpl* node) {
  if (node == nullptr) return nullptr;
  if (auto* own = dynamic_cast<Node*>(node)) return own;
  if (auto* unwrap = python_hooks().from_python) return dynamic_cast<Node*>(unwrap(node));
  return nullptr;
}

namespace {

const Node& any_peer(const c10::SymNode& other) {
  Node* node = Node::of(other.get());
  ESCAPEMENT_CHECK(node != nullptr, "a symbolic number of another tracer meets one of ours");
  return *node;
}

// An operand of arithmetic: a truth value is 1 or 0.
const Node& peer(const c10::SymNode& other) { return any_peer(other).number(); }

// Of another recording (another thread's, or one that is over) a number is a constant here: what it is worth there, which its own recording guards.
c10::SymNode constant_in(Node& here, Node& number) {
  if (number.is_float()) return here.wrap_float(number.guard_float("", 0));
  return number.is_bool() ? here.wrap_bool(number.guard_bool("", 0)) : here.wrap_int(number.guard_int("", 0));
}

struct Operands {
  c10::SymNode left, right;
};

// The operands as numbers of one recording, of one that still goes on if there is any; nothing: they are.
std::optional<Operands> in_one_tape(const c10::SymNode& left, const c10::SymNode& right) {
  const Node &a = any_peer(left), &b = any_peer(right);
  if (a.tape_ptr() == b.tape_ptr()) return {};
  auto &own = const_cast<Node&>(a), &other = const_cast<Node&>(b);
  if (own.tape().closed && !other.tape().closed) return Operands{constant_in(other, own), right};
  return Operands{left, constant_in(own, other)};
}

#define ESCAPEMENT_IN_ONE_TAPE(method) \
  if (const auto operands = in_one_tape(clone(), other)) return operands->left->method(operands->right)

// Who divides owes the guard. Python's error is raised by its own operator (arithmetic.py).
void need_divisor(Tape& tape, const Node& divisor) {
  TORCH_CHECK(divisor.int_hint() != 0, "ZeroDivisionError: integer division or modulo by zero");
  if (!tape.live()) return;
  unharmed(tape, [&] { tape.guard_relation(Guard::Kind::equal, divisor.dim(), tape.dims().constant(0), false, "a divisor that is not zero"); });
}

int64_t checked(const ExactSize& hint) {
  if (!hint) throw UserError("a symbolic size overflows 64 bits");
  return *hint;
}

}  // namespace

const Node& Node::number() const {
  if (kind_ != Kind::boolean) return *this;
  if (!number_) {
    const Dim truth = tape_->live() ? truth_dim(tape_->dims(), *bool_expr_) : Dim();
    const int64_t hint = truth || !tape_->live() ? bool_expr_->hint : decide(*tape_, *bool_expr_, "a truth value as a number");
    number_ = integer(tape_, truth || tape_->closed ? truth : tape_->dims().constant(hint), hint);
  }
  return static_cast<const Node&>(*number_);
}

FloatExprPtr Node::as_float() const {
  if (kind_ == Kind::boolean) return number().as_float();
  return kind_ == Kind::real ? float_ : float_of_dim(dim_, int_hint_);
}

// After the recording only the hints go on.
c10::SymNode Node::arithmetic(SizeOp op, const Node& o) const {
  const int64_t hint = checked(exact_whole(op, int_hint_, o.int_hint_));
  return integer(tape_, tape_->closed ? Dim() : tape_->dims().apply(op, dim_, o.dim_), hint);
}

c10::SymNode Node::add(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(add);
  const Node& o = peer(other);
  return either_is_real(o) ? real(tape_, float_binary(FKind::add, as_float(), o.as_float())) : arithmetic(SizeOp::add, o);
}

c10::SymNode Node::sub(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(sub);
  const Node& o = peer(other);
  if (either_is_real(o)) return real(tape_, float_binary(FKind::sub, as_float(), o.as_float()));
  const int64_t hint = checked(exact_difference(int_hint_, o.int_hint_));
  return integer(tape_, tape_->closed ? Dim() : tape_->dims().sub(dim_, o.dim_), hint);
}

c10::SymNode Node::mul(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(mul);
  const Node& o = peer(other);
  return either_is_real(o) ? real(tape_, float_binary(FKind::mul, as_float(), o.as_float())) : arithmetic(SizeOp::mul, o);
}

c10::SymNode Node::truediv(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(truediv);
  return real(tape_, float_binary(FKind::div, as_float(), peer(other).as_float()));
}

c10::SymNode Node::pow(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(pow);
  const Node& o = peer(other);
  if (either_is_real(o)) {
    const FloatExprPtr exponent = o.as_float();  // c10::SymFloat::sqrt asks so for a square root
    if (exponent->kind == FKind::constant && exponent->hint == 0.5) return sym_sqrt();
    return real(tape_, float_binary(FKind::pow, as_float(), exponent));
  }
  const int64_t exponent = const_cast<Node&>(o).guard_int("", 0);  // a symbolic exponent has no polynomial
  if (exponent < 0) return real(tape_, float_binary(FKind::pow, as_float(), float_constant(static_cast<double>(exponent))));
  c10::SymNode result = wrap_int(1);
  for (int64_t i = 0; i < exponent; ++i) result = mul(result);
  return result;
}

c10::SymNode Node::float_pow(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(float_pow);
  return real(tape_, float_binary(FKind::pow, as_float(), peer(other).as_float()));
}

c10::SymNode Node::floordiv(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(floordiv);
  const Node& o = peer(other);
  if (either_is_real(o))
    return real(tape_, float_constant(std::floor(guard_float("", 0) / const_cast<Node&>(o).guard_float("", 0))));
  need_divisor(*tape_, o);
  return arithmetic(SizeOp::floordiv, o);
}

c10::SymNode Node::mod(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(mod);
  const Node& o = peer(other);
  if (either_is_real(o)) {
    const double a = guard_float("", 0), b = const_cast<Node&>(o).guard_float("", 0);
    return real(tape_, float_constant(a - std::floor(a / b) * b));
  }
  need_divisor(*tape_, o);
  return arithmetic(SizeOp::mod, o);
}

c10::SymNode Node::sym_min(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(sym_min);
  const Node& o = peer(other);
  return either_is_real(o) ? real(tape_, float_binary(FKind::min, as_float(), o.as_float())) : arithmetic(SizeOp::min, o);
}

c10::SymNode Node::sym_max(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(sym_max);
  const Node& o = peer(other);
  return either_is_real(o) ? real(tape_, float_binary(FKind::max, as_float(), o.as_float())) : arithmetic(SizeOp::max, o);
}

c10::SymNode Node::neg() {
  if (kind_ == Kind::real) return real(tape_, float_binary(FKind::neg, float_, nullptr));
  const int64_t hint = checked(exact_difference(0, int_hint_));
  return integer(tape_, tape_->closed ? Dim() : tape_->dims().neg(dim_), hint);
}

namespace {

bool holds(Guard::Kind relation, double a, double b) {
  switch (relation) {
    case Guard::Kind::equal: return a == b;
    case Guard::Kind::not_equal: return a != b;
    case Guard::Kind::less: return a < b;
    default: return a <= b;
  }
}

// The float as an integer expression, if it is one: float(s), or a whole constant.
std::optional<Dim> integral(DimTable& dims, const FloatExpr& e) {
  if (e.kind == FKind::dim) return e.dim;
  if (e.kind == FKind::constant && std::abs(e.hint) < kWholeBelow && std::floor(e.hint) == e.hint)
    return dims.constant(static_cast<int64_t>(e.hint));
  return {};
}

// An integer and a number that is none: a fraction, or beyond all integers of 64 bits.
BoolExprPtr compare_fraction(DimTable& dims, Guard::Kind relation, Dim dim, double number, bool dim_is_left, bool hint) {
  const bool ordered = relation == Guard::Kind::less || relation == Guard::Kind::less_equal;
  if (!ordered || !(std::abs(number) < kWholeBelow)) return bool_constant(hint);
  const Dim below = dims.constant(static_cast<int64_t>(std::floor(number)));
  return dim_is_left ? bool_relation(Guard::Kind::less_equal, dim, below, hint) : bool_relation(Guard::Kind::less, below, dim, hint);
}

// Floats of sizes alone: numbers that are no longer finite at other sizes are no case of this comparison, and neither are infinite bounds.
BoolExprPtr compare_real_sizes(Tape& tape, Guard::Kind relation, const FloatExpr& a, const FloatExpr& b, bool hint) {
  const auto largest = [](const FloatExpr& e) {
    const bool infinite = e.kind == FKind::constant && std::isinf(e.hint);
    return infinite ? *float_constant(std::copysign(std::numeric_limits<double>::max(), e.hint)) : e;
  };
  const bool bounded = relation == Guard::Kind::less || !(std::isinf(a.hint) || std::isinf(b.hint));
  const auto x = bounded ? real_dim(tape, largest(a)) : std::nullopt, y = bounded ? real_dim(tape, largest(b)) : std::nullopt;
  if (!x || !y) return nullptr;
  DimTable& dims = tape.dims();
  const auto less = [&](Dim left, Dim right) { return dims.apply(SizeOp::real_less, left, right); };
  switch (relation) {
    case Guard::Kind::less: return bool_relation(Guard::Kind::equal, less(*x, *y), dims.constant(1), hint);
    case Guard::Kind::less_equal: return bool_relation(Guard::Kind::equal, less(*y, *x), dims.constant(0), hint);
    default: return bool_relation(relation, dims.add(less(*x, *y), less(*y, *x)), dims.constant(0), hint);
  }
}

BoolExprPtr compare_floats(Tape& tape, Guard::Kind relation, const FloatExprPtr& a, const FloatExprPtr& b) {
  const bool hint = holds(relation, a->hint, b->hint);
  if (!tape.live()) return bool_constant(hint);
  const auto left = integral(tape.dims(), *a), right = integral(tape.dims(), *b);
  if (left && right) return bool_relation(relation, *left, *right, hint);
  if (left && b->kind == FKind::constant) return compare_fraction(tape.dims(), relation, *left, b->hint, true, hint);
  if (right && a->kind == FKind::constant) return compare_fraction(tape.dims(), relation, *right, a->hint, false, hint);
  if (const auto sizes = compare_real_sizes(tape, relation, *a, *b, hint)) return sizes;
  const auto zero = [](const FloatExpr& e) { return e.kind == FKind::constant && e.hint == 0; };
  if (relation == Guard::Kind::less_equal && zero(*a) && never_negative(tape.dims(), *b)) return bool_constant(true);
  if (relation == Guard::Kind::less && zero(*b) && never_negative(tape.dims(), *a)) return bool_constant(false);
  BoolExpr e;
  e.kind = BKind::floats;
  e.relation = relation;
  e.hint = hint;
  e.x = a;
  e.y = b;
  return std::make_shared<const BoolExpr>(std::move(e));
}

}  // namespace

c10::SymNode Node::compare(Guard::Kind relation, const c10::SymNode& left, const c10::SymNode& right) {
  if (const auto operands = in_one_tape(left, right)) return Node::of(operands->left.get())->compare(relation, operands->left, operands->right);
  const Node &l = peer(left), &r = peer(right);
  if (l.kind_ == Kind::real || r.kind_ == Kind::real)
    return boolean(tape_, compare_floats(*tape_, relation, l.as_float(), r.as_float()));
  return boolean(tape_, bool_relation(relation, l.dim_, r.dim_, holds(relation, l.int_hint_, r.int_hint_)));
}

c10::SymNode Node::eq(const c10::SymNode& o) { return compare(Guard::Kind::equal, clone(), o); }
c10::SymNode Node::ne(const c10::SymNode& o) { return compare(Guard::Kind::not_equal, clone(), o); }
c10::SymNode Node::lt(const c10::SymNode& o) { return compare(Guard::Kind::less, clone(), o); }
c10::SymNode Node::le(const c10::SymNode& o) { return compare(Guard::Kind::less_equal, clone(), o); }
c10::SymNode Node::gt(const c10::SymNode& o) { return compare(Guard::Kind::less, o, clone()); }
c10::SymNode Node::ge(const c10::SymNode& o) { return compare(Guard::Kind::less_equal, o, clone()); }

namespace {

// Infinity, NaN and numbers beyond 64 bits are none of ours; in Python the caller then asks Python (arithmetic.py).
int64_t whole(double value) {
  TORCH_CHECK(std::abs(value) < kWholeBelow, "cannot convert ", value, " to an integer of 64 bits");
  return static_cast<int64_t>(value);
}

}  // namespace

// Of sizes an expression; a float that reads values is looked at.
c10::SymNode Node::rounded(SizeOp op, double hint) {
  const int64_t seen = whole(hint);
  const auto real = tape_->live() ? real_dim(*tape_, *float_) : std::nullopt;
  if (real) return integer(tape_, tape_->dims().apply(op, *real), seen);
  guard_float("", 0);
  return wrap_int(seen);
}

// floor(a / b) of integers is a floordiv.
c10::SymNode Node::floor() {
  if (kind_ != Kind::real) return clone();
  const FloatExpr& e = *float_;
  if (e.kind == FKind::dim) return integer(tape_, e.dim, static_cast<int64_t>(e.hint));
  if (e.kind == FKind::div && tape_->live()) {
    const auto a = integral(tape_->dims(), *e.a), b = integral(tape_->dims(), *e.b);
    if (a && b) return integer(tape_, tape_->dims().floordiv(*a, *b), static_cast<int64_t>(std::floor(e.hint)));
  }
  return rounded(SizeOp::real_floor, std::floor(e.hint));
}

c10::SymNode Node::ceil() {
  if (kind_ != Kind::real) return clone();
  const FloatExpr& e = *float_;
  if (e.kind == FKind::dim) return integer(tape_, e.dim, static_cast<int64_t>(e.hint));
  if (e.kind == FKind::div && tape_->live()) {
    DimTable& dims = tape_->dims();
    const auto a = integral(dims, *e.a), b = integral(dims, *e.b);
    if (a && b) return integer(tape_, dims.neg(dims.floordiv(dims.neg(*a), *b)), static_cast<int64_t>(std::ceil(e.hint)));
  }
  return neg()->floor()->neg();
}

c10::SymNode Node::trunc() {
  if (kind_ != Kind::real) return clone();
  if (tape_->live() && never_negative(tape_->dims(), *float_)) return floor();
  if (float_->reads || !tape_->live()) {
    guard_float("", 0);
    return wrap_int(whole(std::trunc(float_->hint)));
  }
  const c10::SymNode zero = wrap_int(0);   // the integer nearer to it
  return floor()->sym_max(zero)->add(ceil()->sym_min(zero));
}

c10::SymNode Node::round() {
  return kind_ != Kind::real ? clone() : rounded(SizeOp::real_round, std::nearbyint(float_->hint));
}

c10::SymNode Node::sym_sqrt() { return real(tape_, float_binary(FKind::sqrt, as_float(), nullptr)); }
c10::SymNode Node::sym_log2() { return real(tape_, float_binary(FKind::log2, as_float(), nullptr)); }
c10::SymNode Node::sym_float() { return real(tape_, as_float()); }
c10::SymNode Node::clone() { return c10::SymNode::reclaim_copy(this); }

c10::SymNode Node::sym_or(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(sym_or);
  return boolean(tape_, bool_either(bool_expr_, any_peer(other).bool_expr_));
}

c10::SymNode Node::sym_and(const c10::SymNode& other) {
  ESCAPEMENT_IN_ONE_TAPE(sym_and);
  return boolean(tape_, bool_both(bool_expr_, any_peer(other).bool_expr_));
}

#undef ESCAPEMENT_IN_ONE_TAPE

c10::SymNode Node::sym_not() { return boolean(tape_, bool_node(BKind::negation, bool_expr_, nullptr, !bool_expr_->hint)); }

c10::SymNode Node::wrap_int(int64_t num) {
  return integer(tape_, tape_->closed ? Dim() : tape_->dims().constant(num), num);
}
c10::SymNode Node::wrap_float(double num) { return real(tape_, float_constant(num)); }
c10::SymNode Node::wrap_bool(bool num) { return boolean(tape_, bool_constant(num)); }

std::optional<int64_t> Node::maybe_as_int() {
  if (kind_ != Kind::integer) return {};
  if (tape_->closed) return int_hint_;
  return tape_->dims().as_constant(dim_);
}

int64_t Node::guard_int(const char* file, int64_t line) {
  if (kind_ == Kind::boolean) return guard_bool(file, line);
  if (kind_ == Kind::real) return whole(std::trunc(guard_float(file, line)));
  if (tape_->live()) tape_->pin(dim_, int_hint_, place("exact value read", file, line));
  return int_hint_;
}

bool Node::guard_bool(const char* file, int64_t line) {
  if (kind_ != Kind::boolean) return guard_int(file, line) != 0;
  if (bool_expr_->kind == BKind::layout && !bool_expr_->hint && tape_->live()) {
    tape_->hold([tape = tape_.get(), expr = bool_expr_, why = place("branch", file, line)] { decide(*tape, *expr, why); });
    return false;
  }
  return decide(*tape_, *bool_expr_, place("branch", file, line));
}

// Callers have a path that is right whatever the answer: only what is provable counts, and nothing is guarded.
bool Node::statically_known_true(const char*, int64_t) {
  if (kind_ != Kind::boolean || !tape_->live()) return bool_expr_ && bool_expr_->hint;
  return known(*tape_, *bool_expr_) == Truth::yes;
}

// `otherwise` is right for all sizes; the special path is taken, under a guard, only if these sizes call for it.
bool Node::guard_or(bool otherwise, const char* file, int64_t line) {
  if (bool_expr_->kind == BKind::layout) return tape_->live() ? known(*tape_, *bool_expr_->a) == Truth::yes : bool_expr_->hint;
  if (bool_expr_->hint == otherwise || was_told(otherwise)) return otherwise;
  return guard_bool(file, line);
}

// A program that runs once more goes the way that it went.
bool Node::was_told(bool otherwise) const {
  const Forward* const forward = tape_->live() ? tape_->forward.get() : nullptr;
  if (!forward || !forward->active()) return false;
  bool told = false;
  unharmed(*tape_, [&] { told = outcome(*tape_, *bool_expr_, forward->hints(tape_->dims())) == otherwise; });
  return told;
}

double Node::guard_float(const char* file, int64_t line) {
  if (kind_ == Kind::integer) return static_cast<double>(guard_int(file, line));
  if (tape_->live()) pin_float(*tape_, *float_, place("exact value read", file, line));
  return float_->hint;
}

// What eager would print, of the number itself. It is in the text of errors, too, which a program may catch and read.
std::string Node::str() {
  std::ostringstream text;
  if (kind_ == Kind::boolean) text << guard_bool("", 0);
  else if (kind_ == Kind::real) text << guard_float("", 0);
  else text << guard_int("", 0);
  return text.str();
}

c10::SymNode symbolic_sqrt(c10::SymNodeImpl* node) {
  Node* own = Node::of(node);
  return own ? own->sym_sqrt() : c10::SymNode();
}

c10::SymNode symbolic_log2(c10::SymNodeImpl* node) {
  Node* own = Node::of(node);
  return own ? own->sym_log2() : c10::SymNode();
}

bool is_wide(c10::SymNodeImpl* node) {
  const Node* own = Node::of(node);
  if (own == nullptr || !node->is_int()) return false;
  const int64_t value = own->int_hint();
  return value != static_cast<int32_t>(value);
}

c10::SymNode symbolic_round(c10::SymNodeImpl* node) {
  Node* own = Node::of(node);
  return own ? own->round() : c10::SymNode();
}

c10::SymNode symbolic_trunc(c10::SymNodeImpl* node) {
  Node* own = Node::of(node);
  return own ? own->trunc() : c10::SymNode();
}

}  // namespace escapement
