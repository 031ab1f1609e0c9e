// The rules of dim_rules.def, asked of the table itself at many constants: what stands there as a rule is one the table applies. That
// the rules are true is proven by z3 (tests/python/sizes/test_dim_rules.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <regex>
#include <sstream>

#include "dims/dims.h"
#include "support/error.h"

namespace escapement {
namespace {

const char* const kRules =
#include "dim_rules.def"
    ;

struct Relation {
  std::string left, kind, right;
};
struct Rule {
  std::string text;
  Relation claim;
  std::vector<Relation> conditions;
};

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

Relation relation_of(const std::string& text) {
  std::smatch parts;
  static const std::regex pattern(R"((.*?)(<=|!=|=|<|>)(.*))");
  if (!std::regex_match(text, parts, pattern)) throw UserError("no relation: " + text);
  return {trimmed(parts[1]), parts[2], trimmed(parts[3])};
}

// Commas within parentheses belong to functions.
std::vector<std::string> split_conditions(const std::string& text) {
  std::vector<std::string> found(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) found.emplace_back();
    else found.back() += c;
  }
  return found;
}

std::vector<Rule> rules() {
  std::vector<Rule> found;
  std::istringstream file(kRules);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t where = line.find(" where ");
    Rule rule{line, relation_of(line.substr(0, where)), {}};
    if (where != std::string::npos) {
      for (const std::string& condition : split_conditions(line.substr(where + 7))) rule.conditions.push_back(relation_of(condition));
    }
    found.push_back(std::move(rule));
  }
  return found;
}

struct Constants {
  int64_t c, d, g;
};

std::string with(std::string text, const Constants& values) {
  for (const auto& [name, value] : {std::pair{"c", values.c}, {"d", values.d}, {"g", values.g}})
    text = std::regex_replace(text, std::regex("\\b" + std::string(name) + "\\b"), "(" + std::to_string(value) + ")");
  return text;
}

// A rule about particular constants, with its own table.
class Question {
 public:
  Question(const Rule& rule, const Constants& values) : rule_(rule), values_(values) {
    for (int i = 0; i < 3; ++i) table_.new_symbol(SymbolKind::integer, {});
  }

  // False: a condition on the constants does not hold.
  bool assume() {
    for (const Relation& condition : rule_.conditions) {
      if (!assume(condition)) return false;
    }
    return true;
  }

  bool holds() {
    const Dim left = parse(rule_.claim.left), right = parse(rule_.claim.right);
    if (rule_.claim.kind == "=") return table_.same(left, right);
    return (rule_.claim.kind == "<" ? table_.less(left, right) : table_.less_equal(left, right)) == Truth::yes;
  }

 private:
  Dim parse(const std::string& text) { return table_.parse(with(text, values_)); }

  bool assume(const Relation& r) {
    const Dim left = parse(r.left), right = parse(r.right), apart = table_.sub(right, left);
    if (table_.symbols(apart).empty()) return constant_holds(r.kind, *table_.as_constant(left), *table_.as_constant(right));
    if (r.kind == "=") table_.assume_equal(left, right);
    if (r.kind == "<=") table_.assume_range(apart, {0, Range::kMax});
    if (r.kind == "<") table_.assume_range(apart, {1, Range::kMax});
    if (r.kind == ">") table_.assume_range(apart, {Range::kMin, -1});
    return true;  // !=: a divisor, which is taken to be so
  }

  static bool constant_holds(const std::string& kind, int64_t a, int64_t b) {
    return kind == "=" ? a == b : kind == "!=" ? a != b : kind == "<" ? a < b : kind == "<=" ? a <= b : a > b;
  }

  const Rule& rule_;
  const Constants values_;
  DimTable table_;
};

TEST(DimRules, TheTableAppliesEachRule) {
  const std::vector<Rule> all = rules();
  ASSERT_GE(all.size(), 50u);
  for (const Rule& rule : all) {
    size_t asked = 0;
    for (const int64_t c : {-3, 1, 2, 5}) {
      for (const int64_t d : {-7, 0, 1, 4, 9}) {
        for (const int64_t g : {-1, 1, 2, 6}) {
          Question question(rule, {c, d, g});
          if (!question.assume()) continue;
          ++asked;
          EXPECT_TRUE(question.holds()) << rule.text << " at c = " << c << ", d = " << d << ", g = " << g;
        }
      }
    }
    EXPECT_GT(asked, 0u) << rule.text;
  }
}

// --- random expressions with large numbers: the exact value, or a clear error, and never another number

__extension__ using Wide = __int128;
constexpr Wide kFar = Wide{1} << 100;  // what leaves this is not followed further

struct Expression {
  Dim dim;                    // none: making it was refused, as an overflow
  std::optional<Wide> value;  // none: undefined (a zero divisor) or far outside
};

std::optional<Wide> exact(SizeOp op, Wide a, Wide b) {
  const bool divides = op == SizeOp::floordiv || op == SizeOp::mod;
  if (divides && b == 0) return {};
  const auto floor = [&] { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); };
  switch (op) {
    case SizeOp::add: return a + b;
    case SizeOp::mul: {
      Wide product;
      if (__builtin_mul_overflow(a, b, &product)) return {};
      return product;
    }
    case SizeOp::floordiv: return floor();
    case SizeOp::mod: return a - floor() * b;
    case SizeOp::min: return std::min(a, b);
    default: return std::max(a, b);
  }
}

class RandomExpressions {
 public:
  explicit RandomExpressions(uint64_t seed) : random_(seed) {
    for (int64_t& value : values_) {
      value = number();
      symbols_.push_back(table_.new_symbol(SymbolKind::integer, {}));
    }
  }

  Expression make(int depth) {
    if (depth == 0 || pick(5) == 0) return leaf();
    constexpr SizeOp kOps[] = {SizeOp::add, SizeOp::add, SizeOp::mul, SizeOp::floordiv, SizeOp::mod, SizeOp::min, SizeOp::max};
    const SizeOp op = kOps[pick(std::size(kOps))];
    const Expression a = make(depth - 1), b = make(depth - 1);
    Expression result;
    if (a.value && b.value) result.value = exact(op, *a.value, *b.value);
    if (result.value && (*result.value > kFar || *result.value < -kFar)) result.value.reset();
    if (a.dim && b.dim) result.dim = applied(op, a.dim, b.dim);
    return result;
  }

  void check(const Expression& e) {
    if (!e.dim) return;
    EXPECT_EQ(table_.parse(table_.to_string(e.dim)), e.dim) << table_.to_string(e.dim);
    try {
      const int64_t seen = table_.evaluate(e.dim, values_);
      // A zero divisor may be simplified away: 0 // x is 0 for every x that may divide.
      if (e.value) {
        EXPECT_TRUE(*e.value == seen) << table_.to_string(e.dim);
        ++exact_;
      }
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()), "");
      ++refused_;
    }
  }
  size_t exact_ = 0, refused_ = 0;

 private:
  size_t pick(size_t below) { return random_() % below; }
  int64_t number() {
    const int shift = static_cast<int>(pick(62));
    const auto magnitude = static_cast<int64_t>(random_() & ((uint64_t{1} << shift) | ((uint64_t{1} << shift) - 1)));
    return pick(2) != 0 ? magnitude : -magnitude;
  }
  Expression leaf() {
    const size_t symbol = pick(2 * symbols_.size());
    if (symbol < symbols_.size()) return {symbols_[symbol], values_[symbol]};
    const int64_t value = number();
    return {table_.constant(value), value};
  }
  Dim applied(SizeOp op, Dim a, Dim b) {
    try {
      switch (op) {
        case SizeOp::add: return table_.add(a, b);
        case SizeOp::mul: return table_.mul(a, b);
        case SizeOp::floordiv: return table_.floordiv(a, b);
        case SizeOp::mod: return table_.mod(a, b);
        case SizeOp::min: return table_.min(a, b);
        default: return table_.max(a, b);
      }
    } catch (const UserError&) {
      return {};
    }
  }

  std::mt19937_64 random_;
  DimTable table_;
  std::vector<Dim> symbols_;
  std::array<int64_t, 4> values_{};
};

TEST(DimRules, LargeNumbersAreExactOrRefused) {
  size_t exact = 0, refused = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    RandomExpressions random(seed);
    random.check(random.make(4));
    exact += random.exact_;
    refused += random.refused_;
  }
  EXPECT_GT(exact, 500u);
  EXPECT_GT(refused, 50u);
}

}  // namespace
}  // namespace escapement
