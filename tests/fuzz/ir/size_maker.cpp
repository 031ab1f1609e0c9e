// See size_maker.h.
#include "fuzz/ir/size_maker.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"

namespace escapement::fuzz {
namespace {

__int128 floor_quotient(__int128 a, __int128 b) {
  const __int128 q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

bool too_large(__int128 value) {
  constexpr __int128 kLimit = static_cast<__int128>(1) << 100;
  return value > kLimit || value < -kLimit;
}

}  // namespace

void SizeMaker::add_symbols(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const SymbolKind kind = random_.pick({SymbolKind::size, SymbolKind::size, SymbolKind::integer, SymbolKind::born});
    Node node{SizeOp::symbol, static_cast<int64_t>(table.symbol_count()), 0, 0, {}};
    node.dim = table.new_symbol(kind, {});
    nodes_.push_back(node);
  }
}

int64_t SizeMaker::constant() {
  if (big_ && random_.one_in(3)) return random_.pick<int64_t>({INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1, int64_t{1} << 62, -(int64_t{1} << 62), 1 << 30, int64_t{1} << 32});
  return random_.between(-4, 8);
}

size_t SizeMaker::operand() {
  if (!random_.one_in(3)) return pick();
  Node node{SizeOp::constant, constant(), 0, 0, {}};
  node.dim = table.constant(node.constant);
  nodes_.push_back(node);
  return nodes_.size() - 1;
}

size_t SizeMaker::add_node(SizeOp op, size_t x, size_t y) {
  Node node{op, 0, x, y, {}};
  const Dim a = nodes_[x].dim, b = nodes_[y].dim;
  switch (op) {
    case SizeOp::add: node.dim = table.add(a, b); break;
    case SizeOp::mul: node.dim = table.mul(a, b); break;
    case SizeOp::floordiv: node.dim = table.floordiv(a, b); break;
    case SizeOp::mod: node.dim = table.mod(a, b); break;
    case SizeOp::min: node.dim = table.min(a, b); break;
    default: node.dim = table.max(a, b); break;
  }
  nodes_.push_back(node);
  return nodes_.size() - 1;
}

void SizeMaker::combine() {
  const SizeOp op = random_.pick({SizeOp::add, SizeOp::add, SizeOp::mul, SizeOp::mul, SizeOp::floordiv, SizeOp::mod, SizeOp::min, SizeOp::max});
  const size_t a = operand();
  add_node(op, a, operand());
}

void SizeMaker::widen() {  // the symbols are the first nodes
  const size_t symbols = table.symbol_count(), terms = DimTable::kMaxTerms + random_.below(40);
  size_t sum = random_.below(symbols);
  for (size_t i = 0; i < terms; ++i) {
    size_t product = random_.below(symbols);
    for (size_t factors = random_.below(6); factors > 0; --factors) product = add_node(SizeOp::mul, product, random_.below(symbols));
    sum = add_node(SizeOp::add, sum, product);
  }
  try {
    add_node(random_.pick({SizeOp::floordiv, SizeOp::mod, SizeOp::min, SizeOp::mul}), sum, operand());
  } catch (const UserError&) {  // a division by the constant zero
  }
}

void SizeMaker::grow(size_t size) {
  for (size_t attempt = 0; nodes_.size() < size && attempt < 4 * size; ++attempt) {
    try {
      combine();
    } catch (const UserError&) {  // constants that overflow, a division by the constant zero: no expression
    } catch (const InternalError&) {  // a product of too many factors: the caller's to keep small
    }
  }
}

std::optional<__int128> SizeMaker::exact(size_t i, std::span<const int64_t> symbols) const {
  const Node& node = nodes_[i];
  if (node.op == SizeOp::constant) return node.constant;
  if (node.op == SizeOp::symbol) return symbols[static_cast<size_t>(node.constant)];
  const auto a = exact(node.a, symbols), b = exact(node.b, symbols);
  if (!a || !b) return {};
  __int128 result = 0;
  switch (node.op) {
    case SizeOp::add: result = *a + *b; break;
    case SizeOp::mul:
      if (*a != 0 && (too_large(*b) || (*a > 0 ? *a : -*a) > ((static_cast<__int128>(1) << 100) / ((*b > 0 ? *b : -*b) + 1)))) return {};
      result = *a * *b;
      break;
    case SizeOp::floordiv:
    case SizeOp::mod:
      if (*b == 0) return {};
      result = node.op == SizeOp::mod ? *a - floor_quotient(*a, *b) * *b : floor_quotient(*a, *b);
      break;
    case SizeOp::min: result = std::min(*a, *b); break;
    default: result = std::max(*a, *b); break;
  }
  if (too_large(result)) return {};
  return result;
}

double SizeMaker::reach(size_t i, std::span<const int64_t> symbols) const {
  const Node& node = nodes_[i];
  const auto of_leaf = [](int64_t value) { return std::max(1.0, std::abs(static_cast<double>(value))); };
  if (node.op == SizeOp::constant) return of_leaf(node.constant);
  if (node.op == SizeOp::symbol) return of_leaf(symbols[static_cast<size_t>(node.constant)]);
  const double a = reach(node.a, symbols), b = reach(node.b, symbols);
  if (node.op == SizeOp::mul) return a * b;
  return node.op == SizeOp::add ? a + b : std::max(a, b);
}

}  // namespace escapement::fuzz
