// Machine code of guard programs against the interpreter: random expressions and relations, on small sizes and on the values where
// arithmetic overflows, divisors vanish and signs change.
#include <gtest/gtest.h>

#include <random>

#include "dims/real.h"
#include "jit/llvm/compile.h"
#include "jit/run/guard_program.h"

namespace escapement {
namespace {

constexpr int kSymbols = 4;
constexpr int64_t kValues[] = {0, 1, 2, 3, 4, 7, 8, 64, 1000, -1, -2, -7, 1 << 20, INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1};
constexpr int64_t kConstants[] = {0, 1, 2, 3, 4, 8, 16, 1000, -1, -3, INT64_MAX};
constexpr Guard::Kind kKinds[] = {Guard::Kind::equal, Guard::Kind::not_equal, Guard::Kind::less, Guard::Kind::less_equal};

class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed), program_(make()) {
    for (int i = 0; i < 3; ++i) program_.test(kKinds[pick(std::size(kKinds))], slot(), slot());
    for (int i = 0; i < 2; ++i) program_.keep(slot());
  }

  GuardProgram& program() { return program_; }
  size_t pick(size_t count) { return random_() % count; }

 private:
  const DimTable& make() {
    for (int i = 0; i < kSymbols; ++i) pool_.push_back(dims_.new_symbol(SymbolKind::integer, {}));
    while (pool_.size() < 24) grow();
    return dims_;
  }

  Dim operand() { return pick(3) == 0 ? dims_.constant(kConstants[pick(std::size(kConstants))]) : pool_[pick(pool_.size())]; }

  void grow() try {
    const Dim a = operand(), b = operand();
    if (pick(3) == 0) return grow_real(a);
    switch (pick(6)) {
      case 0: pool_.push_back(dims_.add(a, b)); break;
      case 1: pool_.push_back(dims_.mul(a, b)); break;
      case 2: pool_.push_back(dims_.floordiv(a, b)); break;
      case 3: pool_.push_back(dims_.mod(a, b)); break;
      case 4: pool_.push_back(dims_.min(a, b)); break;
      default: pool_.push_back(dims_.max(a, b)); break;
    }
  } catch (const std::exception&) {  // constants that overflow, a division by the constant zero: no expression
  }

  void grow_real(Dim a) {
    constexpr double kNumbers[] = {0.7, 1.5, -2, 0, 1e308, 0.5};
    constexpr SizeOp kOps[] = {SizeOp::real_add, SizeOp::real_mul, SizeOp::real_div, SizeOp::real_sqrt, SizeOp::real_min, SizeOp::real_max};
    constexpr SizeOp kBack[] = {SizeOp::real_floor, SizeOp::real_round, SizeOp::real_less};
    const auto operand = [&] { return pick(3) == 0 || reals_.empty() ? dims_.real(kNumbers[pick(std::size(kNumbers))]) : reals_[pick(reals_.size())]; };
    reals_.push_back(dims_.apply(SizeOp::real, a));
    for (int i = 0; i < 2; ++i) reals_.push_back(dims_.apply(kOps[pick(std::size(kOps))], reals_.back(), operand()));
    pool_.push_back(dims_.apply(kBack[pick(std::size(kBack))], reals_.back(), operand()));
  }

  Slot slot() { return pick(8) == 0 ? program_.input() : program_.value(pool_[pick(pool_.size())]); }

  std::mt19937 random_;
  DimTable dims_;
  std::vector<Dim> pool_, reals_;
  GuardProgram program_;
};

class GuardCodeTest : public testing::TestWithParam<uint32_t> {};

TEST_P(GuardCodeTest, AnswersAsTheInterpreter) {
  RandomProgram random(GetParam());
  GuardProgram& program = random.program();
  program.finish();
  program.compile(compile_guards);
  int yes = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<int64_t> table(program.table_size());
    const bool small = round % 2 == 0;
    for (int64_t& value : table) value = kValues[random.pick(small ? 9 : std::size(kValues))];
    std::vector<int64_t> other = table;
    const bool expected = program.interpret(table.data());
    ASSERT_EQ(program.holds(other.data()), expected) << program.to_string();
    yes += expected;
    for (const Slot slot : program.kept()) {
      if (expected) { ASSERT_EQ(other[slot], table[slot]) << "t" << slot << " of\n" << program.to_string(); }
    }
  }
  RecordProperty("yes", yes);
}

INSTANTIATE_TEST_SUITE_P(Random, GuardCodeTest, testing::Range(0u, 120u));

TEST(GuardCode, IsOneBlock) {
  DimTable dims;
  const Dim a = dims.new_symbol(SymbolKind::size, {}), b = dims.new_symbol(SymbolKind::size, {});
  GuardProgram program(dims);
  program.test(Guard::Kind::equal, program.value(dims.mod(a, dims.constant(8))), program.value(dims.constant(0)));
  program.test(Guard::Kind::less, program.value(a), program.value(dims.floordiv(b, a)));
  program.finish();
  const std::string text = CodeGenerator::instance().ir_text(program);
  EXPECT_EQ(text.find("br "), std::string::npos) << text;
  EXPECT_NE(text.find("ret i1"), std::string::npos) << text;
}

}  // namespace
}  // namespace escapement
