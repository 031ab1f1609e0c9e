// See size_guards.h.
#include "exported/size_guards.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "exported/input_paths.h"
#include "support/error.h"
#include "support/size_arithmetic.h"
#include "support/text.h"

namespace escapement {

using Op = SizeGuards::Op;
using Step = SizeGuards::Step;

namespace {

constexpr int kMaxDepth = 64;

struct Sign {
  std::string_view text;
  Op op;
};

// Python's binary operators, the loosest first; `not` stands between `and` and the comparisons, unary minus after the last, and ** after
// that. Of two signs that begin alike the longer comes first.
constexpr Sign kEither[] = {{"or ", Op::either}}, kBoth[] = {{"and ", Op::both}}, kBitOr[] = {{"|", Op::bit_or}},
    kBitXor[] = {{"^", Op::bit_xor}}, kBitAnd[] = {{"&", Op::bit_and}}, kSums[] = {{"+", Op::add}, {"-", Op::sub}},
    kComparisons[] = {{"==", Op::eq}, {"!=", Op::ne}, {"<=", Op::le}, {">=", Op::ge}, {"<", Op::lt}, {">", Op::gt}},
    kProducts[] = {{"//", Op::floordiv}, {"/", Op::truediv}, {"*", Op::mul}, {"%", Op::mod}};
constexpr std::span<const Sign> kLevels[] = {kEither, kBoth, kComparisons, kBitOr, kBitXor, kBitAnd, kSums, kProducts};
constexpr size_t kComparisonLevel = 2;

constexpr Sign kFunctions[] = {{"max(", Op::max}, {"min(", Op::min}, {"abs(", Op::abs}, {"math.floor(", Op::floor},
    {"math.ceil(", Op::ceil}, {"math.trunc(", Op::trunc}, {"torch.sym_float(", Op::to_float}, {"torch._sym_sqrt(", Op::sqrt}};

bool is_binary(Op op) { return (op >= Op::either && op <= Op::truediv && op != Op::negation) || (op >= Op::pow && op <= Op::max); }

size_t deepest(std::span<const Step> steps) {
  size_t depth = 0, most = 0;
  for (const Step& step : steps) {
    depth = step.op <= Op::real ? depth + 1 : is_binary(step.op) ? depth - 1 : depth;
    most = std::max(most, depth);
  }
  return most;
}

}  // namespace

// --- the text

class GuardParser {
 public:
  GuardParser(std::string_view text, const InputPaths& paths, SizeGuards& guards)
      : all_(text), rest_(text), paths_(paths), guards_(guards) {}

  SizeGuards::Condition whole() {
    made_.text = all_;
    skip_spaces();
    level(0, 0);
    if (!rest_.empty()) fail();
    made_.deepest = deepest(made_.steps);
    return std::move(made_);
  }

 private:
  [[noreturn]] void fail() const {
    throw UserError("the condition " + quote(all_.substr(0, 400)) + " is not understood: conditions are arithmetic on sizes, strides and "
                    "integers of the inputs");
  }

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }

  bool accept(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    skip_spaces();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) fail();
  }

  const Sign* accept_one(std::span<const Sign> signs) {
    const auto found = std::find_if(signs.begin(), signs.end(), [&](const Sign& sign) { return accept(sign.text); });
    return found == signs.end() ? nullptr : &*found;
  }

  void emit(Op op) { made_.steps.push_back({op}); }

  void level(size_t number, int depth) {
    if (depth > kMaxDepth) fail();
    if (number == std::size(kLevels)) return unary(depth);
    if (number == kComparisonLevel && accept("not ")) return level(number, depth + 1), emit(Op::negation);
    level(number + 1, depth);
    for (int operands = 1; const Sign* sign = operator_of(number); ++operands) {
      if (number == kComparisonLevel && operands > 1) fail();   // a < b < c, which torch does not print
      level(number + 1, depth);
      emit(sign->op);
    }
  }

  // A product sign is no beginning of a power.
  const Sign* operator_of(size_t number) { return rest_.starts_with("**") ? nullptr : accept_one(kLevels[number]); }

  // -a ** b is -(a ** b), a ** -b has its sign.
  void unary(int depth) {
    if (depth > kMaxDepth) fail();
    if (accept("-")) return unary(depth + 1), emit(Op::neg);
    atom(depth);
    if (accept("**")) unary(depth + 1), emit(Op::pow);
  }

  void atom(int depth) {
    if (accept("(")) return level(0, depth + 1), expect(")");
    if (accept("True")) return made_.steps.push_back({Op::integer, 1});
    if (accept("False")) return made_.steps.push_back({Op::integer, 0});
    if (accept("math.inf")) return made_.steps.push_back({Op::real, 0, std::numeric_limits<double>::infinity()});
    if (const Sign* function = accept_one(kFunctions)) return call(function->op, depth);
    if (rest_.starts_with("L[")) return fact();
    number();
  }

  // Of more than two operands the extreme is taken pair by pair.
  void call(Op op, int depth) {
    level(0, depth + 1);
    int operands = 1;
    for (; accept(","); ++operands) level(0, depth + 1), emit(op);
    if (is_binary(op) != (operands > 1)) fail();
    if (!is_binary(op)) emit(op);
    expect(")");
  }

  void number() {
    int64_t integer = 0;
    double real = 0;
    const char *begin = rest_.data(), *end = begin + rest_.size();
    if (begin == end || !std::isdigit(static_cast<unsigned char>(*begin))) fail();
    const auto whole = std::from_chars(begin, end, integer);
    const auto any = std::from_chars(begin, end, real);
    if (any.ec != std::errc()) fail();
    if (any.ptr == whole.ptr && whole.ec != std::errc()) fail();
    made_.steps.push_back(any.ptr == whole.ptr ? Step{Op::integer, integer} : Step{Op::real, 0, real});
    rest_.remove_prefix(static_cast<size_t>(any.ptr - begin));
    skip_spaces();
  }

  // L['pair'][1]._base.size()[0]
  void fact() {
    const std::string_view start = rest_;
    expect("L");
    InputFact fact;
    fact.input = input();
    fact.of_base = accept("._base");
    if (accept(".size()[")) {
      fact.kind = InputFact::Kind::size;
      fact.axis = axis();
    } else if (accept(".stride()[")) {
      fact.kind = InputFact::Kind::stride;
      fact.axis = axis();
    } else if (accept(".storage_offset()")) {
      fact.kind = InputFact::Kind::offset;
    } else if (fact.of_base) {
      fail();
    }
    const int64_t known = guards_.number_of(fact);
    const std::string_view name = start.substr(1, start.size() - rest_.size() - 1);
    made_.names.emplace(name.substr(0, name.find_last_not_of(" \n") + 1), known);
    made_.steps.push_back({Op::fact, known});
    skip_spaces();
  }

  uint32_t input() {
    const size_t end = brackets();
    const auto number = paths_.find(rest_.substr(0, end));
    if (!number) fail();
    rest_.remove_prefix(end);
    return *number;
  }

  size_t brackets() const {
    size_t at = 0;
    while (at < rest_.size() && rest_[at] == '[') {
      const size_t close = rest_.find(']', at);
      if (close == std::string_view::npos) fail();
      at = close + 1;
    }
    return at;
  }

  uint32_t axis() {
    uint32_t axis = 0;
    const auto read = std::from_chars(rest_.data(), rest_.data() + rest_.size(), axis);
    if (read.ec != std::errc()) fail();
    rest_.remove_prefix(static_cast<size_t>(read.ptr - rest_.data()));
    expect("]");
    return axis;
  }

  std::string_view all_, rest_;
  const InputPaths& paths_;
  SizeGuards& guards_;
  SizeGuards::Condition made_;
};

void SizeGuards::add(std::string_view text, const InputPaths& paths) { conditions_.push_back(GuardParser(text, paths, *this).whole()); }

int64_t SizeGuards::number_of(const InputFact& fact) {
  const auto found = std::find(facts_.begin(), facts_.end(), fact);
  if (found == facts_.end()) return facts_.push_back(fact), static_cast<int64_t>(facts_.size()) - 1;
  return found - facts_.begin();
}

// --- Python's arithmetic. No value: it raises, or the result is not to be had exactly.

namespace {

struct Number {
  bool is_real = false;
  int64_t integer = 0;
  double real = 0;
};
using Value = std::optional<Number>;

Value whole(ExactSize integer) { return integer ? Value(Number{false, *integer, 0}) : Value(); }
Value real(double value) { return std::isnan(value) ? Value() : Number{true, 0, value}; }
bool truth(const Number& value) { return value.is_real ? value.real != 0 : value.integer != 0; }

std::optional<double> as_real(const Number& value) {
  constexpr int64_t kExact = int64_t{1} << 53;
  if (value.is_real) return value.real;
  if (value.integer > kExact || value.integer < -kExact) return {};
  return static_cast<double>(value.integer);
}

template <class T>
Value compared(Op op, T a, T b) {
  switch (op) {
    case Op::eq: return whole(a == b);
    case Op::ne: return whole(a != b);
    case Op::lt: return whole(a < b);
    case Op::le: return whole(a <= b);
    case Op::gt: return whole(a > b);
    default: return whole(a >= b);
  }
}

Value of_reals(Op op, double a, double b) {
  if (op >= Op::eq && op <= Op::ge) return compared(op, a, b);
  switch (op) {
    case Op::add: return real(a + b);
    case Op::sub: return real(a - b);
    case Op::mul: return real(a * b);
    case Op::truediv: return b == 0 ? Value() : real(a / b);
    case Op::pow: return a == 0 && b < 0 ? Value() : real(std::pow(a, b));
    case Op::min: return real(b < a ? b : a);
    case Op::max: return real(b > a ? b : a);
    default: return {};   // floor divisions and remainders of reals are not printed
  }
}

Value of_integers(Op op, int64_t a, int64_t b) {
  if (op >= Op::eq && op <= Op::ge) return compared(op, a, b);
  switch (op) {
    case Op::add: return whole(exact_sum(a, b));
    case Op::sub: return whole(exact_difference(a, b));
    case Op::mul: return whole(exact_product(a, b));
    case Op::floordiv: return whole(exact_quotient(a, b));
    case Op::mod: return whole(exact_remainder(a, b));
    case Op::bit_or: return whole(a | b);
    case Op::bit_xor: return whole(a ^ b);
    case Op::bit_and: return whole(a & b);
    case Op::min: return whole(std::min(a, b));
    case Op::max: return whole(std::max(a, b));
    default: return {};
  }
}

// `and` and `or` look at the right side only where the left does not decide.
Value connected(Op op, const Value& a, const Value& b) {
  if (!a) return {};
  return truth(*a) == (op == Op::either) ? a : b;
}

Value binary(Op op, const Value& a, const Value& b) {
  if (op == Op::either || op == Op::both) return connected(op, a, b);
  if (!a || !b) return {};
  const bool integers = !a->is_real && !b->is_real;
  if (integers && op == Op::pow && b->integer >= 0) return whole(exact_power(a->integer, b->integer));
  if (integers && op != Op::truediv && op != Op::pow) return of_integers(op, a->integer, b->integer);
  const auto left = as_real(*a), right = as_real(*b);
  return left && right ? of_reals(op, *left, *right) : Value();
}

Value rounded(Op op, const Number& a) {
  if (!a.is_real) return a;
  const double value = op == Op::floor ? std::floor(a.real) : op == Op::ceil ? std::ceil(a.real) : std::trunc(a.real);
  return std::abs(value) < 0x1p63 ? whole(static_cast<int64_t>(value)) : Value();
}

Value unary(Op op, const Value& a) {
  if (!a) return {};
  switch (op) {
    case Op::negation: return whole(truth(*a) ? 0 : 1);
    case Op::neg: return a->is_real ? real(-a->real) : of_integers(Op::sub, 0, a->integer);
    case Op::abs: return truth(*binary(Op::lt, a, whole(0))) ? unary(Op::neg, a) : a;
    case Op::to_float:
    case Op::sqrt: {
      const auto value = as_real(*a);
      return value ? real(op == Op::sqrt ? std::sqrt(*value) : *value) : Value();
    }
    default: return rounded(op, *a);
  }
}

// `stack` has room.
const Value& evaluated(std::span<const Step> steps, std::span<const int64_t> values, std::span<Value> stack) {
  size_t depth = 0;
  for (const Step& step : steps) {
    if (step.op <= Op::real) {
      stack[depth++] = step.op == Op::real ? real(step.real)
          : whole(step.op == Op::fact ? values[static_cast<size_t>(step.integer)] : step.integer);
    } else if (is_binary(step.op)) {
      --depth;
      stack[depth - 1] = binary(step.op, stack[depth - 1], stack[depth]);
    } else {
      stack[depth - 1] = unary(step.op, stack[depth - 1]);
    }
  }
  return stack[0];
}

}  // namespace

void SizeGuards::check(std::span<const int64_t> values) const {
  ESCAPEMENT_CHECK(values.size() == facts_.size(), "a value for each fact");
  std::array<Value, 16> few;
  std::vector<Value> many;
  for (const Condition& condition : conditions_) {
    if (condition.deepest > few.size()) many.resize(condition.deepest);
    const Value& value = evaluated(condition.steps, values, condition.deepest > few.size() ? std::span<Value>(many) : few);
    if (!value || !truth(*value)) fail(condition, values);
  }
}

void SizeGuards::fail(const Condition& condition, std::span<const int64_t> values) const {
  const auto named = [&](const auto& fact) { return "L" + fact.first + " is " + std::to_string(values[static_cast<size_t>(fact.second)]); };
  throw UserError("escapement: the program was exported for calls with " + condition.text + ", and " +
                  join(condition.names, ", ", named) + "; export the program again if such a call is meant");
}

}  // namespace escapement
