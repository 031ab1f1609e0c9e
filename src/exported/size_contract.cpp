// See size_contract.h.
#include "exported/size_contract.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "support/error.h"
#include "support/size_arithmetic.h"
#include "support/text.h"

namespace escapement {

int64_t SizeSymbols::number(const std::string& name) {
  const auto [at, fresh] = numbers_.try_emplace(name, static_cast<int64_t>(names_.size()));
  if (fresh) names_.push_back(name);
  return at->second;
}

// --- the text

namespace {

constexpr int kMaxSizeDepth = 32;

class SizeParser {
 public:
  SizeParser(std::string_view text, SizeSymbols& symbols) : all_(text), rest_(text), symbols_(symbols) {}

  SizeSpec whole() {
    SizeSpec size = expression(0);
    if (!rest_.empty()) fail();
    return size;
  }

 private:
  [[noreturn]] void fail() const {
    throw UserError("the size " + quote(all_.substr(0, 200)) +
        " is not understood: sizes of inputs are sums, products, quotients, "
                    "remainders, minima and maxima of symbols and integers");
  }

  bool accept(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) fail();
  }

  SizeSpec expression(int depth) {
    if (depth > kMaxSizeDepth) fail();
    if (accept("Symbol('")) return symbol();
    if (accept("Integer(")) return integer();
    static constexpr std::pair<std::string_view, SizeOp> kFunctions[] = {
        {"Add(", SizeOp::add}, {"Mul(", SizeOp::mul}, {"FloorDiv(", SizeOp::floordiv}, {"Mod(", SizeOp::mod},
        {"PythonMod(", SizeOp::mod}, {"Max(", SizeOp::max}, {"Min(", SizeOp::min}};
    for (const auto& [name, op] : kFunctions) {
      if (accept(name)) return function(op, depth);
    }
    fail();
  }

  // Symbol('s0', positive=True, integer=True): the assumptions are of no use to us.
  SizeSpec symbol() {
    const size_t end = rest_.find('\'');
    const size_t close = end == std::string_view::npos ? end : rest_.find_first_of("()", end);
    if (close == std::string_view::npos || rest_[close] != ')' || end == 0) fail();
    SizeSpec size;
    size.op = SizeOp::symbol;
    size.number = symbols_.number(std::string(rest_.substr(0, end)));
    rest_.remove_prefix(close + 1);
    return size;
  }

  SizeSpec integer() {
    SizeSpec size;
    size.op = SizeOp::constant;
    const auto read = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size.number);
    if (read.ec != std::errc()) fail();
    rest_.remove_prefix(static_cast<size_t>(read.ptr - rest_.data()));
    expect(")");
    return size;
  }

  // Sums and products of many become pairs, from the left.
  SizeSpec function(SizeOp op, int depth) {
    SizeSpec left = expression(depth + 1);
    const bool binary = divides(op);
    int operands = 1;
    while (accept(", ")) {
      if (++operands > (binary ? 2 : kMaxSizeDepth)) fail();
      SizeSpec pair;
      pair.op = op;
      pair.operands = {std::move(left), expression(depth + 1)};
      left = std::move(pair);
    }
    if (binary && operands != 2) fail();
    expect(")");
    return left;
  }

  std::string_view all_, rest_;
  SizeSymbols& symbols_;
};

}  // namespace

SizeSpec parse_size(std::string_view text, SizeSymbols& symbols) { return SizeParser(text, symbols).whole(); }

std::string size_to_text(const SizeSpec& size, const SizeSymbols& symbols) {
  const auto operand = [&](size_t i) { return size_to_text(size.operands[i], symbols); };
  const auto infix = [&](const char* sign) { return "(" + operand(0) + sign + operand(1) + ")"; };
  if (!size.op) return "any";
  switch (*size.op) {
    case SizeOp::constant: return std::to_string(size.number);
    case SizeOp::symbol: return symbols.names()[static_cast<size_t>(size.number)];
    case SizeOp::add: return infix(" + ");
    case SizeOp::mul: return infix("*");
    case SizeOp::floordiv: return infix("//");
    case SizeOp::mod: return infix(" % ");
    case SizeOp::min: return "min(" + operand(0) + ", " + operand(1) + ")";
    case SizeOp::max: return "max(" + operand(0) + ", " + operand(1) + ")";
    default: return "any";
  }
}

// --- arithmetic without overflow

namespace {

using Number = ExactSize;

Number value_of(const SizeSpec& size, std::span<const int64_t> values) {
  if (size.op == SizeOp::constant) return size.number;
  if (size.op == SizeOp::symbol) return values[static_cast<size_t>(size.number)];
  if (size.operands.size() != 2) return {};
  const Number a = value_of(size.operands[0], values), b = value_of(size.operands[1], values);
  return a && b ? exact_whole(*size.op, *a, *b) : Number();
}

void collect_symbols(const SizeSpec& size, std::vector<int64_t>& found) {
  if (size.op == SizeOp::symbol) found.push_back(size.number);
  for (const SizeSpec& operand : size.operands) collect_symbols(operand, found);
}

// size = factor * s + term for its only symbol s.
struct Affine {
  int64_t factor, term;
};

std::optional<Affine> affine(const SizeSpec& size) {
  if (size.op == SizeOp::constant) return Affine{0, size.number};
  if (size.op == SizeOp::symbol) return Affine{1, 0};
  if (size.op != SizeOp::add && size.op != SizeOp::mul) return {};
  const auto a = affine(size.operands[0]), b = affine(size.operands[1]);
  if (!a || !b) return {};
  if (size.op == SizeOp::add) {
    const Number factor = exact_sum(a->factor, b->factor), term = exact_sum(a->term, b->term);
    return factor && term ? std::optional(Affine{*factor, *term}) : std::nullopt;
  }
  if (a->factor != 0 && b->factor != 0) return {};
  const Affine &moving = a->factor != 0 ? *a : *b, &fixed = a->factor != 0 ? *b : *a;
  const Number factor = exact_product(moving.factor, fixed.term), term = exact_product(moving.term, fixed.term);
  return factor && term ? std::optional(Affine{*factor, *term}) : std::nullopt;
}

// 0 and 1 are admitted where torch.export only said "not 0 or 1".
SizeRange admitted(SizeRange range) {
  if (range.least > 0 && range.least <= 2) range.least = 0;
  return range;
}

}  // namespace

// --- the contract

SizeContract::SizeContract(std::vector<DeclaredInput> inputs, SizeSymbols symbols, const std::map<std::string,
    SizeRange>& ranges)
    : inputs_(std::move(inputs)), symbols_(std::move(symbols)) {
  for (const std::string& name : symbols_.names()) {
    const auto declared = ranges.find(name);
    ranges_.push_back(declared == ranges.end() ? SizeRange() : admitted(declared->second));
  }
  add_rows();
}

void SizeContract::add_rows() {
  std::vector<Row> constants, binds, others, solves, compares;
  std::vector<bool> bound(symbols_.names().size());
  for (uint32_t input = 0; input < inputs_.size(); ++input) {
    for (uint32_t axis = 0; axis < inputs_[input].sizes.size(); ++axis) {
      const Row row = first_row(input, axis, bound);
      (row.kind == Row::Kind::constant ? constants : row.kind == Row::Kind::bind ? binds : others).push_back(row);
    }
  }
  for (Row row : others) (solve(row, bound) ? solves : compares).push_back(row);
  for (const Row& row : compares) require_bound(row, bound);
  for (const auto* rows : {&constants, &binds, &solves, &compares}) rows_.insert(rows_.end(), rows->begin(), rows->end());
}

SizeContract::Row SizeContract::first_row(uint32_t input, uint32_t axis, std::vector<bool>& bound) const {
  Row row{Row::Kind::compare, input, axis};
  const SizeSpec& size = spec(row);
  if (size.op == SizeOp::constant) {
    row.kind = Row::Kind::constant;
    row.number = size.number;
  } else if (size.op == SizeOp::symbol && !bound[static_cast<size_t>(size.number)]) {
    row.kind = Row::Kind::bind;
    row.symbol = static_cast<uint32_t>(size.number);
    bound[row.symbol] = true;
  }
  return row;
}

// Binds the one symbol of the row's expression, if that is not bound yet and the expression can be turned round.
bool SizeContract::solve(Row& row, std::vector<bool>& bound) const {
  std::vector<int64_t> symbols;
  collect_symbols(spec(row), symbols);
  if (symbols.empty() || std::any_of(symbols.begin(), symbols.end(), [&](int64_t s) { return s != symbols[0]; }))
    return false;
  const auto form = affine(spec(row));
  if (bound[static_cast<size_t>(symbols[0])] || !form || form->factor == 0) return false;
  row.kind = Row::Kind::solve;
  row.symbol = static_cast<uint32_t>(symbols[0]);
  row.factor = form->factor;
  row.term = form->term;
  bound[row.symbol] = true;
  return true;
}

void SizeContract::require_bound(const Row& row, const std::vector<bool>& bound) const {
  std::vector<int64_t> symbols;
  collect_symbols(spec(row), symbols);
  for (const int64_t s : symbols) {
    if (!bound[static_cast<size_t>(s)])
      throw UserError("no input has " + symbols_.names()[static_cast<size_t>(s)] + " as its size, which " +
          size_to_text(spec(row), symbols_) +
                      " of the input '" + inputs_[row.input].name + "' needs");
  }
}

bool SizeContract::hold(const Row& row, int64_t size, std::span<int64_t> values) const {
  switch (row.kind) {
    case Row::Kind::constant: return size == row.number;
    case Row::Kind::bind: return values[row.symbol] = size, in_range(row.symbol, size);
    case Row::Kind::solve: {
      const Number rest = exact_difference(size, row.term);
      const Number value = rest ? exact_quotient(*rest, row.factor) : Number();
      if (!value || exact_product(*value, row.factor) != rest) return false;
      return values[row.symbol] = *value, in_range(row.symbol, *value);
    }
    case Row::Kind::compare: return value_of(spec(row), values) == Number(size);
  }
  return false;
}

void SizeContract::check(std::span<const std::span<const int64_t>> seen) const {
  ESCAPEMENT_CHECK(seen.size() == inputs_.size(), "one list of sizes per input");
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i].size() != inputs_[i].sizes.size()) fail_rank(i, seen[i].size());
  }
  std::array<int64_t, 32> few{};
  std::vector<int64_t> many;
  if (ranges_.size() > few.size()) many.resize(ranges_.size());
  const std::span<int64_t> values = many.empty() ? std::span<int64_t>(few) : std::span<int64_t>(many);
  for (const Row& row : rows_) {
    const int64_t size = seen[row.input][row.axis];
    if (!hold(row, size, values)) fail(row, size, values);
  }
}

// --- errors

void SizeContract::fail_rank(size_t input, size_t seen) const {
  const DeclaredInput& declared = inputs_[input];
  throw UserError("escapement: the input '" + declared.name + "' has " + std::to_string(seen) +
      " dims; the exported program takes " +
                  std::to_string(declared.sizes.size()) + " (" +
                  join(declared.sizes, ", ", [&](const SizeSpec& size) { return size_to_text(size, symbols_); }) + ")");
}

void SizeContract::fail(const Row& row, int64_t seen, std::span<const int64_t> values) const {
  const DeclaredInput& input = inputs_[row.input];
  const SizeSpec& size = spec(row);
  std::string expected = row.kind == Row::Kind::constant ? std::to_string(row.number) : size_to_text(size, symbols_);
  if (row.kind == Row::Kind::compare) {
    const Number value = value_of(size, values);
    if (size.op != SizeOp::constant) expected += value ? " = " + std::to_string(*value) : " (which overflows)";
  }
  if (row.kind == Row::Kind::bind || row.kind == Row::Kind::solve) {
    const SizeRange& range = ranges_[row.symbol];
    const std::string& name = symbols_.names()[row.symbol];
    const bool open = range.most == std::numeric_limits<int64_t>::max();
    expected += " with " + name + (open ? " at least " + std::to_string(range.least)
                                        : " in " + std::to_string(range.least) + ".." + std::to_string(range.most));
  }
  const std::string what = input.integer ? "the integer input '" + input.name + "'"
                                         : "dim " + std::to_string(row.axis) + " of the input '" + input.name + "'";
  throw UserError("escapement: " + what + " is " + std::to_string(seen) + ", expected " + expected +
                  "; export the program again with other dynamic_shapes if such a call is meant");
}

}  // namespace escapement
