// See symbolic.h.
#include "torch/exported/symbolic.h"

#include <algorithm>
#include <cmath>

#include "support/size_arithmetic.h"
#include "torch/record/symnode.h"

namespace escapement {

namespace {

using Kind = SymbolicOp::Kind;

constexpr SymbolicOp kOps[] = {
    {"_operator.eq", Kind::eq, 2},           {"_operator.ne", Kind::ne, 2},         {"_operator.lt", Kind::lt, 2},
    {"_operator.le", Kind::le, 2},           {"_operator.gt", Kind::gt, 2},         {"_operator.ge", Kind::ge, 2},
    {"_operator.add", Kind::add, 2},         {"_operator.sub", Kind::sub, 2},       {"_operator.mul", Kind::mul, 2},
    {"_operator.floordiv", Kind::floordiv, 2}, {"_operator.mod", Kind::mod, 2},     {"_operator.truediv", Kind::truediv, 2},
    {"_operator.pow", Kind::pow, 2},         {"torch.sym_min", Kind::min, 2},       {"torch.sym_max", Kind::max, 2},
    {"_operator.and_", Kind::both, 2},       {"_operator.or_", Kind::either, 2},    {"_operator.neg", Kind::neg, 1},
    {"_operator.pos", Kind::pos, 1},         {"torch.sym_not", Kind::negation, 1},  {"math.trunc", Kind::to_int, 1},
    {"torch.sym_int", Kind::to_int, 1},      {"torch.sym_float", Kind::to_float, 1}, {"torch.sym_sqrt", Kind::sqrt, 1},
    {"torch.sym_ite", Kind::choose, 3},
};

bool is_symbolic(const c10::IValue& v) { return v.isSymInt() || v.isSymFloat() || v.isSymBool(); }

// --- symbols

// The recorder's node itself, without the shell in which Python is given it.
c10::SymNode bare(c10::SymNode node) {
  Node* const ours = Node::of(node.get());
  return ours ? c10::SymNode::reclaim_copy(ours) : node;
}

c10::SymNode node_of(const c10::IValue& v) {
  if (v.isSymInt()) return bare(v.toSymInt().toSymNode());
  if (v.isSymFloat()) return bare(v.toSymFloat().toSymNodeImpl());
  return bare(v.toSymBool().toSymNodeImpl());
}

c10::SymNode node_like(const c10::SymNode& base, const c10::IValue& v) {
  if (is_symbolic(v)) return node_of(v);
  if (v.isBool() && base->is_bool()) return base->wrap_bool(v.toBool());
  if (v.isBool()) return base->wrap_int(v.toBool());
  return v.isInt() ? base->wrap_int(v.toInt()) : base->wrap_float(v.toDouble());
}

bool takes_truth(Kind kind) { return kind == Kind::both || kind == Kind::either || kind == Kind::negation; }

// Truth values and numbers do not mix: only plain ones count as 0 and 1.
c10::SymNode checked_node(Kind kind, c10::SymNode node) {
  TORCH_CHECK(node->is_bool() == takes_truth(kind), "an operator of the exported program mixes truth values and numbers");
  return node;
}

c10::IValue value_of(c10::SymNode node) {
  TORCH_CHECK(node, "a symbol of the exported program belongs to another recorder");
  if (node->is_bool()) return c10::SymBool(std::move(node));
  if (node->is_float()) return c10::SymFloat(std::move(node));
  return c10::SymInt(std::move(node));
}

c10::SymNode binary_node(Kind kind, const c10::SymNode& a, const c10::SymNode& b) {
  switch (kind) {
    case Kind::eq: return a->eq(b);
    case Kind::ne: return a->ne(b);
    case Kind::lt: return a->lt(b);
    case Kind::le: return a->le(b);
    case Kind::gt: return a->gt(b);
    case Kind::ge: return a->ge(b);
    case Kind::add: return a->add(b);
    case Kind::sub: return a->sub(b);
    case Kind::mul: return a->mul(b);
    case Kind::floordiv: return a->floordiv(b);
    case Kind::mod: return a->mod(b);
    case Kind::truediv: return a->truediv(b);
    case Kind::pow: return a->pow(b);
    case Kind::min: return a->sym_min(b);
    case Kind::max: return a->sym_max(b);
    case Kind::both: return a->sym_and(b);
    default: return a->sym_or(b);
  }
}

c10::IValue unary_symbol(Kind kind, const c10::IValue& v) {
  const c10::SymNode node = checked_node(kind, node_of(v));
  switch (kind) {
    case Kind::neg: return value_of(node->neg());
    case Kind::negation: return value_of(node->sym_not());
    case Kind::to_float: return node->is_float() ? v : value_of(node->sym_float());
    case Kind::to_int: return node->is_int() ? v : value_of(symbolic_trunc(node.get()));
    case Kind::sqrt: return value_of(symbolic_sqrt(node.get()));
    default: return v;
  }
}

// --- plain numbers

constexpr const char* kOverflow = "an integer of the exported program overflows";

int64_t fitting(ExactSize result) {
  TORCH_CHECK(result.has_value(), kOverflow);
  return *result;
}

int64_t divided(ExactSize result, int64_t divisor) {
  TORCH_CHECK(divisor != 0, "integer division or modulo by zero");
  return fitting(result);
}

template <class T>
std::optional<c10::IValue> compared(Kind kind, T a, T b) {
  switch (kind) {
    case Kind::eq: return a == b;
    case Kind::ne: return a != b;
    case Kind::lt: return a < b;
    case Kind::le: return a <= b;
    case Kind::gt: return a > b;
    case Kind::ge: return a >= b;
    case Kind::min: return b < a ? b : a;
    case Kind::max: return b > a ? b : a;
    default: return {};
  }
}

c10::IValue real_result(Kind kind, double a, double b) {
  if (const auto result = compared(kind, a, b)) return *result;
  switch (kind) {
    case Kind::add: return a + b;
    case Kind::sub: return a - b;
    case Kind::mul: return a * b;
    case Kind::pow: return std::pow(a, b);
    case Kind::floordiv: TORCH_CHECK(b != 0, "float floor division by zero"); return std::floor(a / b);
    case Kind::truediv: TORCH_CHECK(b != 0, "float division by zero"); return a / b;
    default: TORCH_CHECK(false, "an operator of the exported program is not defined for real numbers");
  }
}

c10::IValue integer_result(Kind kind, int64_t a, int64_t b) {
  if (const auto result = compared(kind, a, b)) return *result;
  switch (kind) {
    case Kind::add: return fitting(exact_sum(a, b));
    case Kind::sub: return fitting(exact_difference(a, b));
    case Kind::mul: return fitting(exact_product(a, b));
    case Kind::floordiv: return divided(exact_quotient(a, b), b);
    case Kind::mod: return divided(exact_remainder(a, b), b);
    case Kind::both: return a & b;
    case Kind::either: return a | b;
    case Kind::pow: if (b >= 0) return fitting(exact_power(a, b)); [[fallthrough]];
    default: return real_result(kind, static_cast<double>(a), static_cast<double>(b));
  }
}

int64_t as_integer(const c10::IValue& v) { return v.isBool() ? static_cast<int64_t>(v.toBool()) : v.toInt(); }
double as_real(const c10::IValue& v) { return v.isDouble() ? v.toDouble() : static_cast<double>(as_integer(v)); }

c10::IValue binary_number(Kind kind, const c10::IValue& a, const c10::IValue& b) {
  if (a.isBool() && b.isBool() && kind == Kind::both) return a.toBool() && b.toBool();
  if (a.isBool() && b.isBool() && kind == Kind::either) return a.toBool() || b.toBool();
  if (a.isDouble() || b.isDouble()) return real_result(kind, as_real(a), as_real(b));
  return integer_result(kind, as_integer(a), as_integer(b));
}

int64_t truncated(double value) {
  TORCH_CHECK(std::abs(value) < 0x1p63, "a real number of the exported program does not fit an integer");
  return static_cast<int64_t>(value);
}

c10::IValue unary_number(Kind kind, const c10::IValue& v) {
  switch (kind) {
    case Kind::neg: return v.isDouble() ? c10::IValue(-v.toDouble()) : integer_result(Kind::sub, 0, as_integer(v));
    case Kind::negation: return !v.toBool();
    case Kind::to_float: return as_real(v);
    case Kind::to_int: return v.isDouble() ? truncated(v.toDouble()) : as_integer(v);
    case Kind::sqrt: return std::sqrt(as_real(v));
    default: return v;
  }
}

bool is_number(const c10::IValue& v) { return is_symbolic(v) || v.isInt() || v.isDouble() || v.isBool(); }

}  // namespace

const SymbolicOp* find_symbolic_op(std::string_view target) {
  const auto found = std::find_if(std::begin(kOps), std::end(kOps),
      [&](const SymbolicOp& op) { return op.target == target; });
  return found == std::end(kOps) ? nullptr : found;
}

c10::IValue run_symbolic_op(const SymbolicOp& op, std::span<const c10::IValue> arguments) {
  for (const c10::IValue& v : arguments)
    TORCH_CHECK(is_number(v), op.target, " of the exported program is given something that is no number");
  if (op.kind == Kind::choose) return holds(arguments[0]) ? arguments[1] : arguments[2];
  const c10::IValue& a = arguments[0];
  if (op.arity == 1) return is_symbolic(a) ? unary_symbol(op.kind, a) : unary_number(op.kind, a);
  const c10::IValue& b = arguments[1];
  if (!is_symbolic(a) && !is_symbolic(b)) return binary_number(op.kind, a, b);
  const c10::SymNode base = node_of(is_symbolic(a) ? a : b);
  return value_of(binary_node(op.kind, checked_node(op.kind, node_like(base, a)),
      checked_node(op.kind, node_like(base, b))));
}

bool holds(const c10::IValue& truth) {
  if (truth.isSymBool()) return truth.toSymBool().guard_bool(__FILE__, __LINE__);
  if (truth.isSymInt()) return truth.toSymInt().guard_int(__FILE__, __LINE__) != 0;
  return truth.isBool() ? truth.toBool() : as_real(truth) != 0;
}

c10::IValue at_least(const c10::IValue& value, int64_t bound) {
  const c10::IValue both[] = {value, bound};
  return run_symbolic_op(*find_symbolic_op("_operator.ge"), both);
}

c10::IValue at_most(const c10::IValue& value, int64_t bound) {
  const c10::IValue both[] = {value, bound};
  return run_symbolic_op(*find_symbolic_op("_operator.le"), both);
}

}  // namespace escapement
