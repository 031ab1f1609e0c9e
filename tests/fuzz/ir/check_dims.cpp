// The size algebra: see checks.h. What is asked of a table must hold for every assignment in which the facts hold; assignments are all
// of a small box, so that no lucky values hide a wrong answer.
#include <functional>

#include "fuzz/ir/checks.h"
#include "fuzz/ir/size_maker.h"
#include "support/error.h"

namespace escapement::fuzz {
namespace {

using Values = std::vector<int64_t>;

struct Wrong {
  std::string what;
};

class DimsCheck {
 public:
  DimsCheck(uint64_t seed, Counts& counts) : random_(seed), maker_(random_, false), table_(maker_.table), counts_(counts) {}

  void run() {
    const size_t symbols = 1 + random_.below(3);
    maker_.add_symbols(symbols);
    maker_.grow(symbols + 4 + random_.below(12));
    if (random_.one_in(60)) maker_.widen();
    list_assignments(symbols);
    assume();
    for (int i = 0; i < 12; ++i) ask(maker_.pick(), maker_.pick());
    for (size_t i = 0; i < maker_.count(); ++i) check_expression(i);
  }

  std::string facts() const {
    std::string text;
    for (uint32_t s = 0; s < table_.symbol_count(); ++s) {
      const Range r = table_.info(Symbol(s)).range;
      text += table_.to_string(Symbol(s)) + " in [" + std::to_string(r.low) + ", " + std::to_string(r.high) + "]\n";
    }
    for (const DimFact& fact : table_.facts()) {
      text += table_.to_string(fact.left);
      text += fact.kind == DimFact::Kind::equal ? " == " + table_.to_string(fact.right)
                                                : " in [" + std::to_string(fact.range.low) + ", " + std::to_string(fact.range.high) + "]";
      text += "\n";
    }
    return text;
  }

 private:
  void list_assignments(size_t symbols) {
    Values values(symbols);
    const std::function<void(size_t)> fill = [&](size_t s) {
      if (s == symbols) return assignments_.push_back(values);
      const bool size = table_.info(Symbol(static_cast<uint32_t>(s))).kind == SymbolKind::size;
      for (int64_t v = size ? 0 : -3; v <= 6; ++v) values[s] = v, fill(s + 1);
    };
    fill(0);
    for (uint32_t s = 0; s < symbols; ++s) {  // born symbols and integers have no bounds of their own
      const Range r = table_.info(Symbol(s)).range;
      std::erase_if(assignments_, [&](const Values& v) { return v[s] < r.low || v[s] > r.high; });
    }
  }

  // Only assignments in which every divisor of what is asked about is not zero.
  void keep(const std::function<bool(const Values&)>& holds) { std::erase_if(assignments_, [&](const Values& v) { return !holds(v); }); }

  // Facts that hold for at least one assignment.
  void assume() {
    const size_t count = random_.below(4);
    for (size_t i = 0; i < count && !assignments_.empty(); ++i) {
      const size_t a = maker_.pick(), b = maker_.pick();
      const Values chosen = random_.pick(assignments_);
      const auto x = maker_.exact(a, chosen), y = maker_.exact(b, chosen);
      if (!x || !y) continue;
      try {
        if (*x == *y && !random_.one_in(3)) assume_equal(a, b);
        else assume_range(a, static_cast<int64_t>(*x));
      } catch (const UserError& error) {
        throw Wrong{std::string("a fact that holds is refused: ") + error.what()};
      }
    }
  }

  void assume_equal(size_t a, size_t b) {
    table_.assume_equal(maker_.dim(a), maker_.dim(b));
    keep([&](const Values& v) {
      const auto x = maker_.exact(a, v), y = maker_.exact(b, v);
      return x && y && *x == *y;
    });
  }

  void assume_range(size_t a, int64_t value) {
    Range range{random_.one_in(3) ? Range::kMin : value - random_.between(0, 2), random_.one_in(3) ? Range::kMax : value + random_.between(0, 2)};
    table_.assume_range(maker_.dim(a), range);
    keep([&](const Values& v) {
      const auto x = maker_.exact(a, v);
      return x && *x >= range.low && *x <= range.high;
    });
  }

  void expect(Truth answer, const std::string& question, const std::function<std::optional<bool>(const Values&)>& truth) {
    ++counts_.cases;
    if (answer == Truth::unknown) return;
    for (const Values& v : assignments_) {
      const auto known = truth(v);
      if (known && *known != (answer == Truth::yes)) throw Wrong{question + " is answered " + (answer == Truth::yes ? "yes" : "no") + " for " + show(v)};
    }
  }

  void ask(size_t a, size_t b) {
    const Dim x = maker_.dim(a), y = maker_.dim(b);
    const std::string left = table_.to_string(x), right = table_.to_string(y);
    const auto by = [&](auto relation) {
      return [this, a, b, relation](const Values& v) -> std::optional<bool> {
        const auto p = maker_.exact(a, v), q = maker_.exact(b, v);
        if (!p || !q) return {};
        return relation(*p, *q);
      };
    };
    expect(table_.equal(x, y), left + " == " + right, by([](auto p, auto q) { return p == q; }));
    expect(table_.less(x, y), left + " < " + right, by([](auto p, auto q) { return p < q; }));
    expect(table_.less_equal(x, y), left + " <= " + right, by([](auto p, auto q) { return p <= q; }));
    expect(table_.same(x, y) ? Truth::yes : Truth::unknown, left + " same " + right, by([](auto p, auto q) { return p == q; }));
    expect(table_.divisible(x, y), left + " divisible by " + right, [&](const Values& v) -> std::optional<bool> {
      const auto p = maker_.exact(a, v), q = maker_.exact(b, v);
      if (!p || !q || *q == 0) return {};
      return *p % *q == 0;
    });
  }

  // Its value, its canonical form's, its range, its text.
  void check_expression(size_t i) {
    const Dim d = maker_.dim(i), canonical = table_.canonical(d);
    const std::string text = table_.to_string(d);
    const Range range = table_.range(d);
    counts_.cases += 3;
    if (table_.parse(text) != d) throw Wrong{text + " reads back as " + table_.to_string(table_.parse(text))};
    for (const Values& v : assignments_) {
      const auto exact = maker_.exact(i, v);
      if (!exact) continue;
      const auto value = [&](Dim of) -> std::optional<int64_t> {
        try {
          return table_.evaluate(of, v);
        } catch (const UserError&) {
          return {};
        }
      };
      if (value(d) && *value(d) != *exact) throw Wrong{text + " is " + std::to_string(*value(d)) + " for " + show(v)};
      if (const auto same = value(canonical); same && *same != *exact)
        throw Wrong{text + " has the canonical form " + table_.to_string(canonical) + ", which differs for " + show(v)};
      if (*exact < range.low || *exact > range.high)
        throw Wrong{text + " is said to be in [" + std::to_string(range.low) + ", " + std::to_string(range.high) + "] and is not for " + show(v)};
    }
  }

  static std::string show(const Values& values) {
    std::string text = "(";
    for (const int64_t v : values) text += std::to_string(v) + " ";
    return text + ")";
  }

  Random random_;
  SizeMaker maker_;
  DimTable& table_;
  Counts& counts_;
  std::vector<Values> assignments_;
};

// Constants and values at the ends of 64 bits: a value is the exact one, or an error; a range holds it.
std::string difference_at_the_ends(uint64_t seed, Counts& counts) {
  Random random(seed);
  SizeMaker maker(random, true);
  DimTable& table = maker.table;
  maker.add_symbols(2);
  maker.grow(14);
  for (int round = 0; round < 20; ++round) {
    Values values(2);
    for (size_t s = 0; s < 2; ++s) {
      const bool size = table.info(Symbol(static_cast<uint32_t>(s))).kind == SymbolKind::size;
      values[s] = random.one_in(2) ? random.between(0, 5) : random.pick<int64_t>({INT64_MAX, INT64_MAX - 1, int64_t{1} << 62, (int64_t{1} << 31) - 1, int64_t{1} << 32});
      if (!size && random.one_in(2)) values[s] = random.pick<int64_t>({-1, -2, INT64_MIN, INT64_MIN + 1, -(int64_t{1} << 62)});
    }
    for (size_t i = 0; i < maker.count(); ++i) {
      ++counts.cases;
      const auto exact = maker.exact(i, values);
      if (!exact) continue;
      const std::string text = table.to_string(maker.dim(i)) + " for " + std::to_string(values[0]) + ", " + std::to_string(values[1]);
      const Range range = table.range(maker.dim(i));
      if (*exact >= INT64_MIN && *exact <= INT64_MAX && (*exact < range.low || *exact > range.high)) return "not in its range: " + text;
      try {
        if (const int64_t value = table.evaluate(maker.dim(i), values); value != *exact) return "is " + std::to_string(value) + ": " + text;
      } catch (const UserError&) {
        ++counts.refused;
      }
    }
  }
  return "";
}

}  // namespace

std::optional<Finding> check_dims(uint64_t seed, Counts& counts) {
  ++counts.made;
  if (seed % 5 == 0) {
    const std::string wrong = difference_at_the_ends(seed, counts);
    return wrong.empty() ? std::nullopt : std::optional(Finding{wrong, ""});
  }
  DimsCheck check(seed, counts);
  try {
    check.run();
  } catch (const Wrong& wrong) {
    return Finding{wrong.what, check.facts()};
  } catch (const std::exception& error) {
    return Finding{std::string("exception: ") + error.what(), check.facts()};
  }
  return {};
}

}  // namespace escapement::fuzz
