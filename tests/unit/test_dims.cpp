// The algebra of sizes against a brute-force evaluator on random values, its facts, its cost bound and its overflow errors.
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "dims/dims.h"
#include "support/error.h"

namespace escapement {
namespace {

// An expression tree that is evaluated by the definition of each operation and by nothing else.
struct Tree {
  enum class Kind { constant, symbol, add, sub, mul, floordiv, mod, min, max } kind = Kind::constant;
  int64_t constant = 0;
  size_t symbol = 0;
  std::vector<Tree> children;
};

int64_t python_floordiv(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// Empty: a division by zero.
std::optional<int64_t> brute_force(const Tree& tree, std::span<const int64_t> values) {
  if (tree.kind == Tree::Kind::constant) return tree.constant;
  if (tree.kind == Tree::Kind::symbol) return values[tree.symbol];
  const auto a = brute_force(tree.children[0], values), b = brute_force(tree.children[1], values);
  if (!a || !b) return std::nullopt;
  switch (tree.kind) {
    case Tree::Kind::add: return *a + *b;
    case Tree::Kind::sub: return *a - *b;
    case Tree::Kind::mul: return *a * *b;
    case Tree::Kind::min: return std::min(*a, *b);
    case Tree::Kind::max: return std::max(*a, *b);
    case Tree::Kind::floordiv: return *b == 0 ? std::nullopt : std::optional(python_floordiv(*a, *b));
    default: return *b == 0 ? std::nullopt : std::optional(*a - *b * python_floordiv(*a, *b));
  }
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }

  Tree tree(int depth, size_t symbols) {
    Tree result;
    if (depth == 0 || between(0, 5) == 0) {
      const bool constant = between(0, 2) == 0;
      result.kind = constant ? Tree::Kind::constant : Tree::Kind::symbol;
      result.constant = between(-6, 12);
      result.symbol = static_cast<size_t>(between(0, static_cast<int64_t>(symbols) - 1));
      return result;
    }
    result.kind = static_cast<Tree::Kind>(between(2, 8));
    result.children = {tree(depth - 1, symbols), tree(depth - 1, symbols)};
    return result;
  }

 private:
  std::mt19937_64 engine_;
};

// Empty: the table saw a division by the constant zero.
std::optional<Dim> build(DimTable& dims, const Tree& tree, std::span<const Dim> symbols) {
  if (tree.kind == Tree::Kind::constant) return dims.constant(tree.constant);
  if (tree.kind == Tree::Kind::symbol) return symbols[tree.symbol];
  const auto a = build(dims, tree.children[0], symbols), b = build(dims, tree.children[1], symbols);
  if (!a || !b) return std::nullopt;
  try {
    switch (tree.kind) {
      case Tree::Kind::add: return dims.add(*a, *b);
      case Tree::Kind::sub: return dims.sub(*a, *b);
      case Tree::Kind::mul: return dims.mul(*a, *b);
      case Tree::Kind::min: return dims.min(*a, *b);
      case Tree::Kind::max: return dims.max(*a, *b);
      case Tree::Kind::floordiv: return dims.floordiv(*a, *b);
      default: return dims.mod(*a, *b);
    }
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::vector<Dim> make_symbols(DimTable& dims, size_t count, SymbolKind kind = SymbolKind::size) {
  std::vector<Dim> result;
  for (size_t i = 0; i < count; ++i)
    result.push_back(dims.new_symbol(kind, {Source::Kind::input_size, static_cast<uint32_t>(i), {}, 0}));
  return result;
}

int64_t run_steps(const DimTable& dims, Dim dim, std::span<const int64_t> values) {
  std::vector<int64_t> stack;
  for (const DimTable::Step& step : dims.steps(dim)) {
    if (step.op == SizeOp::constant || step.op == SizeOp::symbol) {
      stack.push_back(step.op == SizeOp::constant ? step.constant : values[step.symbol.index]);
      continue;
    }
    const int64_t b = stack.back();
    stack.pop_back();
    int64_t& a = stack.back();
    switch (step.op) {
      case SizeOp::add: a += b; break;
      case SizeOp::mul: a *= b; break;
      case SizeOp::floordiv: a = python_floordiv(a, b); break;
      case SizeOp::mod: a -= b * python_floordiv(a, b); break;
      case SizeOp::min: a = std::min(a, b); break;
      default: a = std::max(a, b); break;
    }
  }
  return stack.at(0);
}

// What the table says about values must hold for the values themselves.
void expect_sound(const DimTable& dims, Dim a, Dim b, int64_t x, int64_t y) {
  const Range range = dims.range(a);
  EXPECT_LE(range.low, x) << dims.to_string(a);
  EXPECT_GE(range.high, x) << dims.to_string(a);
  const std::string asked = dims.to_string(a) + " ? " + dims.to_string(b);
  const auto expect_answer = [&](Truth answer, bool truth, const char* question) {
    EXPECT_TRUE(answer == Truth::unknown || (answer == Truth::yes) == truth) << question << ": " << asked;
  };
  expect_answer(dims.equal(a, b), x == y, "equal");
  expect_answer(dims.less(a, b), x < y, "less");
  expect_answer(dims.less_equal(a, b), x <= y, "less_equal");
  if (y != 0) expect_answer(dims.divisible(a, b), x % y == 0, "divisible");
}

TEST(Dims, AgreesWithBruteForceOnRandomExpressions) {
  Random random(1);
  int compared = 0;
  for (int round = 0; round < 3000; ++round) {
    DimTable dims;
    const auto symbols = make_symbols(dims, 3);
    const Tree first = random.tree(4, 3), second = random.tree(3, 3);
    const auto a = build(dims, first, symbols), b = build(dims, second, symbols);
    if (!a || !b) continue;
    EXPECT_EQ(dims.parse(dims.to_string(*a)), *a) << dims.to_string(*a);
    for (int sample = 0; sample < 8; ++sample) {
      const int64_t values[] = {random.between(0, 9), random.between(0, 9), random.between(0, 9)};
      const auto x = brute_force(first, values), y = brute_force(second, values);
      if (!x || !y) continue;
      ++compared;
      EXPECT_EQ(dims.evaluate(*a, values), *x) << dims.to_string(*a);
      EXPECT_EQ(dims.evaluate(dims.canonical(*a), values), *x) << dims.to_string(*a) << " -> " << dims.to_string(dims.canonical(*a));
      EXPECT_EQ(run_steps(dims, *a, values), *x) << dims.to_string(*a);
      expect_sound(dims, *a, *b, *x, *y);
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(compared, 5000);
}

// Facts are made true for one assignment; everything concluded from them must hold for it.
TEST(Dims, ConclusionsFromRandomFactsHold) {
  Random random(2);
  int facts = 0;
  for (int round = 0; round < 1500; ++round) {
    DimTable dims;
    const auto symbols = make_symbols(dims, 4);
    const int64_t values[] = {random.between(0, 6), random.between(0, 6), random.between(0, 6), random.between(0, 6)};
    for (int fact = 0; fact < 4; ++fact) {
      const Tree left = random.tree(2, 4), right = random.tree(2, 4);
      const auto a = build(dims, left, symbols), b = build(dims, right, symbols);
      const auto x = brute_force(left, values), y = brute_force(right, values);
      if (!a || !b || !x || !y) continue;
      ++facts;
      if (*x == *y) dims.assume_equal(*a, *b);
      else if (*x < *y) dims.assume_range(dims.sub(*b, *a), {1, Range::kMax});
      else dims.assume_range(*a, {*x - 1, *x + 2});
    }
    for (int question = 0; question < 10; ++question) {
      const Tree left = random.tree(3, 4), right = random.tree(2, 4);
      const auto a = build(dims, left, symbols), b = build(dims, right, symbols);
      const auto x = brute_force(left, values), y = brute_force(right, values);
      if (!a || !b || !x || !y) continue;
      EXPECT_EQ(dims.evaluate(dims.canonical(*a), values), *x) << dims.to_string(*a) << " -> " << dims.to_string(dims.canonical(*a));
      EXPECT_EQ(dims.evaluate(*a, values), *x);
      expect_sound(dims, *a, *b, *x, *y);
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(facts, 1500);
}

TEST(Dims, EqualExpressionsHaveEqualIds) {
  DimTable dims;
  make_symbols(dims, 3);
  const std::pair<const char*, const char*> pairs[] = {
      {"(s0 + s1)*(s0 - s1)", "s0*s0 - s1*s1"},
      {"floordiv(12*s0, 12)", "s0"},
      {"floordiv(s0*s1*6, 2*s1)", "3*s0"},
      {"mod(s0*12 + 5, 4)", "1"},
      {"floordiv(floordiv(s0, 2), 3)", "floordiv(s0, 6)"},
      {"-floordiv(-s0, 2)", "floordiv(s0 + 1, 2)"},
      {"floordiv(s0 + 7, 2)", "floordiv(s0 + 1, 2) + 3"},
      {"floordiv(4*s0 + 2, 8)", "floordiv(2*s0 + 1, 4)"},
      {"floordiv(4*s0 + 2, 4)", "s0"},
      {"mod(mod(s0, 12), 4)", "mod(s0, 4)"},
      {"floordiv((s0 + 1)*(s1 + 2), s0 + 1)", "s1 + 2"},
      {"max(s0 + 1, s0)", "s0 + 1"},
      {"min(s1, s0)", "min(s0, s1)"},
      {"floordiv(s0, -2)", "-floordiv(s0 + 1, 2)"},
  };
  for (const auto& [left, right] : pairs) EXPECT_EQ(dims.parse(left), dims.parse(right)) << left << " and " << right << ": " << dims.to_string(dims.parse(left));
}

TEST(Dims, EqualitiesReachExpressionsMadeBefore) {
  DimTable dims;
  const auto s = make_symbols(dims, 5);
  const Dim two = dims.constant(2), before = dims.mul(two, s[0]), other = dims.mul(two, s[1]);
  EXPECT_FALSE(dims.same(before, other));
  dims.assume_equal(s[0], s[1]);
  EXPECT_TRUE(dims.same(before, other));
  EXPECT_EQ(dims.to_string(other), "2*s1") << "an expression stays as written";
  EXPECT_EQ(dims.canonical(other), dims.canonical(before));
  dims.assume_equal(s[1], dims.constant(7));
  EXPECT_EQ(dims.as_constant(before), 14);
  dims.assume_equal(dims.mul(s[2], s[3]), s[4]);
  EXPECT_TRUE(dims.same(dims.mul(s[4], s[0]), dims.parse("7*s2*s3")));
}

TEST(Dims, ProductsWithoutASolvableSymbolAreKnownEqual) {
  DimTable dims;
  make_symbols(dims, 5);
  dims.assume_equal(dims.parse("s0*s1"), dims.parse("64*s2*s3"));
  EXPECT_TRUE(dims.same(dims.parse("3*s0*s1*s4"), dims.parse("192*s2*s3*s4")));
  EXPECT_FALSE(dims.same(dims.parse("s0*s1"), dims.parse("s2*s3")));
}

TEST(Dims, AZeroProductSaysNothingAboutItsFactors) {
  DimTable dims;
  make_symbols(dims, 4);
  dims.assume_equal(dims.parse("s0*s1"), dims.parse("s0*s2"));
  EXPECT_TRUE(dims.same(dims.parse("2*s0*s1"), dims.parse("2*s0*s2")));
  EXPECT_FALSE(dims.same(dims.parse("s1"), dims.parse("s2")));
}

TEST(Dims, DivisibilityMakesTheQuotientExact) {
  DimTable dims;
  make_symbols(dims, 3);
  EXPECT_EQ(dims.divisible(dims.parse("s0*s1"), dims.constant(64)), Truth::unknown);
  dims.assume_equal(dims.parse("mod(s0*s1, 64)"), dims.constant(0));
  EXPECT_EQ(dims.divisible(dims.parse("s0*s1"), dims.constant(64)), Truth::yes);
  EXPECT_TRUE(dims.same(dims.parse("floordiv(s0*s1, 64)*64*s2"), dims.parse("s0*s1*s2")));
}

TEST(Dims, RangesDecideMinAndMaxAndComparisons) {
  DimTable dims;
  const auto s = make_symbols(dims, 2);
  EXPECT_EQ(dims.canonical(dims.max(s[0], dims.constant(0))), s[0]);
  const Dim clamped = dims.min(s[0], dims.constant(64));
  EXPECT_EQ(dims.less_equal(clamped, s[0]), Truth::yes);
  EXPECT_EQ(dims.less_equal(clamped, dims.constant(64)), Truth::yes);
  EXPECT_EQ(dims.less_equal(s[0], dims.constant(64)), Truth::unknown);
  EXPECT_EQ(dims.less_equal(dims.parse("2*floordiv(s0, 2)"), s[0]), Truth::yes);
  EXPECT_EQ(dims.equal(s[0], dims.constant(1)), Truth::unknown) << "no symbol is assumed different from 1";
  EXPECT_EQ(dims.equal(dims.parse("2*s0 + 1"), dims.parse("2*s1")), Truth::no);
  dims.assume_range(s[0], {0, 64});
  EXPECT_TRUE(dims.same(clamped, s[0]));
  dims.assume_range(dims.sub(s[1], s[0]), {1, Range::kMax});
  EXPECT_EQ(dims.less(s[0], dims.parse("s1 + 3")), Truth::yes);
  EXPECT_EQ(dims.equal(s[0], s[1]), Truth::no);
}

TEST(Dims, ContradictionsAreUserErrors) {
  DimTable dims;
  const auto s = make_symbols(dims, 2);
  EXPECT_THROW(dims.assume_equal(dims.constant(2), dims.constant(3)), UserError);
  EXPECT_THROW(dims.assume_equal(dims.parse("2*s0"), dims.parse("2*s1 + 1")), UserError);
  EXPECT_THROW(dims.assume_equal(s[0], dims.constant(-1)), UserError);
  EXPECT_THROW(dims.assume_range(s[0], {5, 4}), UserError);
}

TEST(Dims, SourcesOfEarlierSymbolsSurviveEqualities) {
  DimTable dims;
  const Dim s0 = make_symbols(dims, 1)[0];
  const Dim u0 = dims.new_symbol(SymbolKind::born, {Source::Kind::value_size, 0, ValueId(3), 0});
  dims.assume_equal(s0, u0);
  EXPECT_EQ(dims.canonical(u0), s0) << "an input's symbol represents a born one, not the other way round";
}

// What is told of a born symbol is tested when the program has begun: nothing may follow from it for kernels that ran before.
TEST(Dims, NothingFollowsFromBornSymbolsForInputs) {
  const auto with_facts = [](auto assume) {
    DimTable dims;
    make_symbols(dims, 3);
    make_symbols(dims, 2, SymbolKind::born);
    assume(dims);
    return dims;
  };
  const auto equal = [](DimTable& dims, const char* a, const char* b) { dims.assume_equal(dims.parse(a), dims.parse(b)); };
  const DimTable moved = with_facts([&](DimTable& dims) {
    dims.assume_range(dims.parse("u0"), {5, 9});
    dims.assume_range(dims.parse("u0 - s1"), {0, Range::kMax});
    equal(dims, "floordiv(u0, 2)", "s2");
    equal(dims, "u0*u0", "s1*s2");
    equal(dims, "u0", "s0");
  });
  DimTable asked = moved;
  EXPECT_EQ(asked.canonical(asked.parse("u0")), asked.parse("s0"));
  EXPECT_EQ(asked.range(asked.parse("s0")), (Range{0, Range::kMax})) << "what is known of u0 is no fact of s0";
  EXPECT_EQ(asked.less_equal(asked.parse("s1"), asked.parse("s0")), Truth::unknown);
  EXPECT_FALSE(asked.same(asked.parse("floordiv(s0, 2)"), asked.parse("s2")));
  EXPECT_FALSE(asked.same(asked.parse("s0*s0"), asked.parse("s1*s2")));
  for (const DimFact& fact : asked.take_older()) asked.restore(fact);
  EXPECT_EQ(asked.range(asked.parse("s0")), (Range{5, 9}));
  EXPECT_EQ(asked.less_equal(asked.parse("s1"), asked.parse("s0")), Truth::yes);
  EXPECT_TRUE(asked.same(asked.parse("floordiv(s0, 2)"), asked.parse("s2")));
  EXPECT_TRUE(asked.same(asked.parse("s0*s0"), asked.parse("s1*s2")));

  asked = with_facts([&](DimTable& dims) {
    equal(dims, "2*u0", "s0");
    equal(dims, "s1", "2*u0");
    equal(dims, "s2", "u0 + 1");
  });
  EXPECT_EQ(asked.canonical(asked.parse("u0")), asked.parse("s2 - 1")) << "solved for what is born";
  EXPECT_FALSE(asked.same(asked.parse("s0"), asked.parse("s1")));
  EXPECT_EQ(asked.divisible(asked.parse("s0"), asked.constant(2)), Truth::unknown);

  for (const DimFact& fact : asked.take_older()) asked.restore(fact);   // as who makes guards of it
  EXPECT_TRUE(asked.same(asked.parse("2*u0"), asked.parse("s0")));
  EXPECT_TRUE(asked.same(asked.parse("s0"), asked.parse("s1")));

  asked = with_facts([&](DimTable& dims) {
    for (const char* length : {"u0", "u1"}) dims.assume_range(dims.parse(length), {0, Range::kMax});
    equal(dims, "u0 + u1 + s1", "s0");
  });
  EXPECT_EQ(asked.less_equal(asked.parse("u0"), asked.parse("s0")), Truth::yes) << "one of the lengths that make up a size";
  EXPECT_EQ(asked.less_equal(asked.parse("s1"), asked.parse("s0")), Truth::unknown);
}

// --- overflow

TEST(Dims, OverflowIsAnErrorAndNeverAWrongNumber) {
  DimTable dims;
  const auto s = make_symbols(dims, 2);
  const Dim huge = dims.constant(INT64_MAX);
  EXPECT_THROW(dims.add(huge, dims.constant(1)), UserError);
  EXPECT_THROW(dims.mul(huge, dims.constant(2)), UserError);
  EXPECT_THROW(dims.mul(dims.mul(s[0], huge), dims.constant(3)), UserError);
  EXPECT_THROW(dims.neg(dims.constant(INT64_MIN)), UserError);
  EXPECT_THROW(dims.floordiv(dims.constant(INT64_MIN), dims.constant(-1)), UserError);
  EXPECT_THROW(dims.floordiv(dims.add(s[0], dims.constant(INT64_MIN + 1)), dims.constant(2)), UserError);
  const int64_t values[] = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_THROW(dims.evaluate(dims.mul(s[0], s[1]), values), UserError);
  EXPECT_THROW(dims.floordiv(s[0], dims.constant(0)), UserError);
  const int64_t zero[] = {5, 0};
  EXPECT_THROW(dims.evaluate(dims.mod(s[0], s[1]), zero), UserError);
}

TEST(Dims, QuestionsWhoseArithmeticOverflowsAreUnknown) {
  DimTable dims;
  const auto s = make_symbols(dims, 1);
  const Dim a = dims.add(s[0], dims.constant(INT64_MAX)), b = dims.add(s[0], dims.constant(INT64_MIN));
  EXPECT_EQ(dims.equal(a, b), Truth::unknown);
  EXPECT_EQ(dims.less(b, a), Truth::unknown);
  EXPECT_EQ(dims.parse(dims.to_string(b)), b);
}

// --- cost, counted in terms visited

uint64_t work_with_symbols(size_t count) {
  DimTable dims;
  const auto s = make_symbols(dims, count);
  Dim sum = dims.constant(0);
  for (size_t i = 0; i < count; ++i) {
    sum = dims.add(sum, s[i]);
    if (i > 0 && i % 2 == 1) dims.assume_equal(s[i], s[i - 1]);
    if (i > 1) dims.assume_range(dims.sub(s[i], dims.mul(s[i - 2], s[0])), {0, 1000});
  }
  for (size_t i = 1; i < count; ++i) {
    dims.less(s[i], s[i - 1]);
    dims.same(dims.mul(s[i], s[0]), dims.mul(s[i - 1], s[0]));
    dims.divisible(dims.mul(s[i], dims.constant(12)), dims.constant(4));
  }
  dims.range(sum);
  return dims.work();
}

TEST(Dims, FiveHundredSymbolsCostInProportion) {
  const uint64_t few = work_with_symbols(50), many = work_with_symbols(500);
  EXPECT_LT(many, few * 10 * 4) << few << " terms for 50 symbols, " << many << " for 500";
}

// What a split by lengths tells: no piece leaves the axis.
uint64_t work_with_pieces(size_t count) {
  DimTable dims;
  const Dim total = make_symbols(dims, 1)[0];
  const auto lengths = make_symbols(dims, count, SymbolKind::born);
  Dim sum = dims.constant(0);
  for (const Dim length : lengths) {
    dims.assume_range(length, {0, Range::kMax});
    sum = dims.add(sum, length);
  }
  dims.assume_equal(sum, total);
  std::vector<Dim> overhangs;
  Dim start = dims.constant(0);
  for (const Dim length : lengths) {
    overhangs.push_back(dims.sub(length, dims.canonical(dims.sub(total, start))));
    start = dims.add(start, length);
  }
  dims.assume_ranges(overhangs, {Range::kMin, 0});
  start = dims.constant(0);
  for (const Dim length : lengths) {
    EXPECT_EQ(dims.less_equal(length, dims.sub(total, start)), Truth::yes);
    start = dims.add(start, length);
  }
  EXPECT_TRUE(dims.same(start, total));
  return dims.work();
}

TEST(Dims, PiecesOfAnAxisCostInProportion) {
  const uint64_t some = work_with_pieces(125), many = work_with_pieces(500);
  EXPECT_LT(many, some * 4 * 2) << some << " terms for 125 pieces, " << many << " for 500";
  EXPECT_LT(many, 500u * 64 * 60) << "terms for 500 pieces";
}

TEST(Dims, AWideSumIsSolvedForItsShortName) {
  DimTable dims;
  const Dim total = make_symbols(dims, 1)[0];
  Dim sum = dims.constant(0);
  Dim before_last = sum;
  for (const Dim length : make_symbols(dims, 200, SymbolKind::born)) {
    dims.assume_range(length, {0, Range::kMax});
    before_last = std::exchange(sum, dims.add(sum, length));
  }
  dims.assume_equal(sum, total);
  EXPECT_EQ(dims.less_equal(dims.constant(0), before_last), Truth::yes) << "as written: a sum of lengths";
  EXPECT_EQ(dims.canonical(sum), total);
  EXPECT_EQ(dims.canonical(total), total);
  EXPECT_EQ(dims.as_symbol(sum), dims.as_symbol(total));
}

TEST(Dims, RangesAtOnceAreTheRangesOneByOne) {
  DimTable one, all;
  std::vector<Dim> told;
  for (DimTable* dims : {&one, &all}) {
    const auto s = make_symbols(*dims, 3);
    told = {s[0], dims->sub(s[0], s[1]), dims->sub(dims->mul(s[1], s[2]), dims->constant(4)), dims->add(s[0], s[2])};
  }
  for (const Dim dim : told) one.assume_range(dim, {0, 7});
  all.assume_ranges(told, {0, 7});
  for (const Dim dim : told) EXPECT_EQ(one.range(dim), all.range(dim)) << one.to_string(dim);
  EXPECT_EQ(one.facts().size(), all.facts().size());
  EXPECT_THROW(all.assume_ranges(told, {8, 9}), UserError);
}

TEST(Dims, CopiesGoOnApart) {
  DimTable first;
  const auto s = make_symbols(first, 4);
  Dim shared = first.constant(0);
  for (const Dim dim : s) shared = first.add(shared, first.mul(dim, dim));
  DimTable second = first;
  const Dim in_first = first.add(shared, s[0]), in_second = second.mul(shared, s[0]);
  EXPECT_EQ(in_first, in_second) << "each goes on from the same number";
  EXPECT_EQ(first.to_string(in_first), "s0*s0 + s1*s1 + s2*s2 + s3*s3 + s0");
  EXPECT_EQ(second.to_string(in_second), "s0*s0*s0 + s0*s1*s1 + s0*s2*s2 + s0*s3*s3");
  first = second;
  EXPECT_EQ(first.to_string(in_first), second.to_string(in_second));
  EXPECT_EQ(first.add(shared, s[1]), second.add(shared, s[1]));
  const DimTable moved = std::move(second);
  EXPECT_EQ(moved.to_string(shared), "s0*s0 + s1*s1 + s2*s2 + s3*s3");
}

TEST(Dims, SymbolsAreWalkedOnce) {
  DimTable dims;
  const auto s = make_symbols(dims, 300);
  std::vector<bool> seen;
  Dim sum = dims.constant(0);
  for (const Dim symbol : s) {
    sum = dims.add(sum, symbol);
    const std::vector<Symbol> fresh = dims.new_symbols(sum, seen);
    ASSERT_EQ(fresh.size(), 1u);
    EXPECT_EQ(dims.of(fresh[0]), symbol);
  }
  EXPECT_EQ(dims.symbols(sum).size(), 300u);
  EXPECT_TRUE(dims.new_symbols(dims.floordiv(s[1], s[0]), seen).empty());
}

TEST(Dims, OuterStepsNameTheOperandsOfAtoms) {
  DimTable dims;
  const auto s = make_symbols(dims, 2);
  const Dim inner = dims.add(s[0], s[1]), quotient = dims.floordiv(inner, dims.constant(5));
  const auto steps = dims.outer_steps(quotient);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].op, SizeOp::dim);
  EXPECT_EQ(steps[0].dim, inner);
  EXPECT_EQ(steps[2].op, SizeOp::floordiv);
}

TEST(Dims, WidthIsBounded) {
  DimTable dims;
  const auto s = make_symbols(dims, 500);
  Dim sum = dims.constant(0), product = dims.constant(1), power = dims.add(s[0], s[1]);
  for (Dim symbol : s) {
    sum = dims.add(sum, symbol);
    product = dims.mul(product, dims.add(symbol, dims.constant(1)));
  }
  for (int i = 0; i < 20; ++i) power = dims.mul(power, power);
  EXPECT_LT(dims.work(), 200'000u);
  std::vector<int64_t> values(500);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i < 20 ? 1 : 0;
  EXPECT_EQ(dims.evaluate(sum, values), 20);
  EXPECT_EQ(dims.evaluate(product, values), 1 << 20);
  EXPECT_EQ(dims.parse(dims.to_string(sum)), sum);
}

TEST(Dims, CopiesAreIndependent) {
  DimTable dims;
  const auto s = make_symbols(dims, 2);
  DimTable copy = dims;
  copy.assume_equal(s[0], s[1]);
  EXPECT_TRUE(copy.same(s[0], s[1]));
  EXPECT_FALSE(dims.same(s[0], s[1]));
  EXPECT_EQ(copy.to_string(copy.mul(s[0], s[1])), "s0*s1");
}

TEST(Dims, ParseErrorsNameThePlace) {
  DimTable dims;
  make_symbols(dims, 1);
  const auto message = [&](const char* text) -> std::string {
    try {
      dims.parse(text);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("s0 + s7"), "1:6: unknown symbol 's7'");
  EXPECT_EQ(message("floordiv(s0)"), "1:12: expected ',', found ')'");
  EXPECT_EQ(message("s0 s0"), "1:4: unexpected 's0' after a size");
  EXPECT_EQ(message("99999999999999999999"), "1:1: the number 99999999999999999999 does not fit in 64 bits");
}

// The facts leave a divisor nothing but 0: there is no value to ask about, and a question has an answer all the same.
TEST(Dims, QuestionsAboutADivisionByZero) {
  DimTable dims;
  const auto s = make_symbols(dims, 2);
  const Dim quotient = dims.floordiv(s[0], s[1]), rest = dims.mod(s[0], s[1]);
  dims.assume_range(s[1], {0, 0});
  for (const Dim d : {quotient, rest}) {
    EXPECT_EQ(dims.less(d, dims.constant(5)), Truth::unknown);
    EXPECT_EQ(dims.equal(d, dims.constant(5)), Truth::unknown);
    EXPECT_EQ(dims.range(d), Range());
  }
}

// -2**63 has no absolute value and no negative: an answer or an error, never the end of the process.
TEST(Dims, CoefficientsAtTheEndsOfTheirRange) {
  for (const int64_t c : {INT64_MIN, INT64_MIN + 1, INT64_MAX})
    for (const int64_t other : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{3}, INT64_MAX}) {
      DimTable dims;
      const auto symbols = make_symbols(dims, 2);
      const auto attempt = [&](auto question) {
        try {
          question();
        } catch (const UserError&) {
        }
      };
      const Dim a = dims.mul(symbols[0], dims.constant(c)), b = dims.mul(symbols[1], dims.constant(other));
      const Dim sums[] = {a, b, dims.add(a, b), dims.add(a, dims.constant(other))};
      for (const Dim sum : sums) {
        for (const int64_t by : {int64_t{6}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
          attempt([&] { dims.floordiv(sum, dims.constant(by)); });
          attempt([&] { dims.mod(sum, dims.constant(by)); });
        }
        for (const Dim second : sums) attempt([&] { dims.equal(sum, second), dims.less(sum, second), dims.divisible(sum, second); });
        attempt([&] { dims.range(sum); });
      }
      for (const Dim sum : sums) attempt([&] { dims.assume_equal(sum, dims.constant(0)); });
      attempt([&] { dims.canonical(a), dims.canonical(b); });
    }
}

}  // namespace
}  // namespace escapement
