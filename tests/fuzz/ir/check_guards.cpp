// Guard and shape programs: see checks.h.
#include <algorithm>
#include <array>

#include "fuzz/ir/checks.h"
#include "fuzz/ir/guard_maker.h"
#include "support/error.h"
#include "trace/guard_relation.h"

namespace escapement::fuzz {
namespace {

using Values = std::vector<int64_t>;

constexpr std::array<int64_t, 24> kEnds{0, 1, 2, 3, 4, 7, 8, 64, 1000, -1, -2, -7, 1 << 20, int64_t{1} << 31, int64_t{1} << 32, (int64_t{1} << 31) - 1,
                                        int64_t{1} << 62, INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1, 5, 6, -3};

bool fits(__int128 value) { return value >= INT64_MIN && value <= INT64_MAX; }

// Yes, no, or nothing if arithmetic leaves 64 bits, where the program may say no.
std::optional<bool> definition(const GuardMaker& maker, const Values& symbols) {
  bool small = true;
  for (size_t i = 0; i < maker.sizes.count(); ++i) {
    small = small && maker.sizes.exact(i, symbols) && maker.sizes.reach(i, symbols) < static_cast<double>(int64_t{1} << 40);
  }
  bool all = true;
  for (const size_t used : maker.used) {
    const auto value = maker.sizes.exact(used, symbols);
    if (!value || !fits(*value)) return {};
  }
  for (const GuardMaker::Relation& r : maker.relations)
    all = all && holds(r.kind, static_cast<int64_t>(*maker.sizes.exact(r.left, symbols)), static_cast<int64_t>(*maker.sizes.exact(r.right, symbols)));
  if (all && !small) return {};
  return all;
}

Values random_symbols(size_t count, Random& random, bool big) {
  Values values(count);
  for (int64_t& v : values) v = random.one_in(2) ? random.between(0, 6) : kEnds[random.below(big ? kEnds.size() : 12)];
  return values;
}

std::string show(const Values& values) {
  std::string text;
  for (const int64_t v : values) text += " " + std::to_string(v);
  return text;
}

// Level by level, as an executable does; every slot against its expression.
std::string shape_program_difference(GuardMaker& maker, Random& random, Counts& counts) {
  const DimTable& dims = maker.sizes.table;
  std::vector<uint32_t> levels(dims.symbol_count());
  for (uint32_t& level : levels) level = static_cast<uint32_t>(random.below(3));
  ShapeProgram shapes(dims, levels);
  std::vector<Slot> slots;
  for (size_t i = 0; i < maker.sizes.count(); ++i) slots.push_back(shapes.add(maker.sizes.dim(i)));
  shapes.finish();
  for (int round = 0; round < 10; ++round) {
    const Values symbols = random_symbols(dims.symbol_count(), random, false);
    std::vector<int64_t> table(shapes.table_size(), -77);
    shapes.initialise(table);
    try {
      for (uint32_t level = 0; level < 3; ++level) {
        for (size_t s = 0; s < symbols.size(); ++s)
          if (levels[s] == level) table[s] = symbols[s];
        shapes.evaluate(level, table);
      }
    } catch (const UserError&) {
      ++counts.refused;
      continue;
    }
    for (size_t i = 0; i < slots.size(); ++i) {
      ++counts.cases;
      const auto exact = maker.sizes.exact(i, symbols);
      if (exact && fits(*exact) && table[slots[i]] != static_cast<int64_t>(*exact))
        return dims.to_string(maker.sizes.dim(i)) + " is " + std::to_string(table[slots[i]]) + " in the shape program for" + show(symbols);
    }
  }
  return "";
}

}  // namespace

std::optional<Finding> check_guards(uint64_t seed, Counts& counts) {
  ++counts.made;
  Random random(seed);
  GuardMaker maker(random, random.one_in(2));
  for (int round = 0; round < 40; ++round) {
    const Values symbols = random_symbols(maker.sizes.table.symbol_count(), random, true);
    const auto wanted = definition(maker, symbols);
    Values table = maker.table(symbols);
    const bool got = maker.program->interpret(table.data());
    ++counts.cases;
    if (!wanted && !got) ++counts.refused;
    const bool wrong = wanted ? *wanted != got : got && !maker.holds_exactly(symbols);
    if (wrong) return Finding{std::string("the guard program says ") + (got ? "yes" : "no") + " for" + show(symbols), maker.program->to_string()};
  }
  if (const std::string text = shape_program_difference(maker, random, counts); !text.empty()) return Finding{text, ""};
  return {};
}

}  // namespace escapement::fuzz
