// Guard programs as machine code: see checks.h.
#include <array>

#include "fuzz/ir/checks.h"
#include "fuzz/ir/guard_maker.h"
#include "jit/llvm/compile.h"

namespace escapement::fuzz {
namespace {

int64_t random_entry(Random& random) {
  static constexpr std::array<int64_t, 20> kEnds{0, 1, 2, 3, 4, 7, 8, 64, -1, -2, -7, 1 << 20, int64_t{1} << 32, int64_t{1} << 62, INT64_MAX, INT64_MAX - 1,
                                                 INT64_MIN, INT64_MIN + 1, 1000, -3};
  return random.one_in(2) ? random.between(0, 9) : random.one_in(4) ? static_cast<int64_t>(random.bits()) : kEnds[random.below(kEnds.size())];
}

}  // namespace

std::optional<Finding> check_guard_code(uint64_t seed, Counts& counts) {
  ++counts.made;
  Random random(seed);
  GuardMaker maker(random, random.one_in(3));
  const GuardProgram& program = *maker.program;
  program.compile(compile_guards);
  for (int round = 0; round < 400; ++round) {
    std::vector<int64_t> symbols(maker.sizes.table.symbol_count());
    for (int64_t& value : symbols) value = random_entry(random);
    std::vector<int64_t> expected = maker.table(symbols), got = expected;
    const bool wanted = program.interpret(expected.data()), answer = program.holds(got.data());
    ++counts.cases;
    bool same = wanted == answer;
    for (const Slot slot : program.kept()) same = same && (!wanted || expected[slot] == got[slot]);
    if (same) continue;
    std::string text = "machine code and interpreter differ for";
    for (const int64_t value : symbols) text += " " + std::to_string(value);
    return Finding{text, program.to_string()};
  }
  return {};
}

}  // namespace escapement::fuzz
