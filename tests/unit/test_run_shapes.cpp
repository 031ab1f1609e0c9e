// ShapeProgram: deduplication, levels, checked arithmetic, agreement with DimTable::evaluate. Arena: growth and shrinking.
#include <gtest/gtest.h>

#include <random>

#include "jit/run/arena.h"
#include "jit/run/shape_program.h"
#include "support/error.h"

namespace escapement {
namespace {

TEST(RunShapes, EvaluatesLikeTheDimTable) {
  DimTable dims;
  const Dim a = dims.new_symbol(SymbolKind::size, {}), b = dims.new_symbol(SymbolKind::size, {}), c = dims.new_symbol(SymbolKind::size, {});
  std::vector<Dim> wanted = {dims.mul(a, b), dims.add(dims.mul(a, b), c), dims.floordiv(dims.add(a, c), dims.constant(3)),
                             dims.mod(dims.sub(a, b), dims.constant(4)), dims.max(dims.min(a, c), b), dims.constant(7), a};
  ShapeProgram program(dims, {0, 0, 0});
  std::vector<Slot> slots;
  for (const Dim dim : wanted) slots.push_back(program.add(dim));
  program.finish();
  std::vector<int64_t> table(program.table_size());
  program.initialise(table);
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 3; ++i) table[i] = static_cast<int64_t>(random() % 40);
    program.evaluate(0, table);
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(table[slots[i]], dims.evaluate(wanted[i], std::span(table).first(3))) << dims.to_string(wanted[i]);
    }
  }
}

TEST(RunShapes, EqualExpressionsShareASlot) {
  DimTable dims;
  const Dim a = dims.new_symbol(SymbolKind::size, {}), b = dims.new_symbol(SymbolKind::size, {});
  ShapeProgram program(dims, {0, 0});
  const Slot product = program.add(dims.mul(a, b));
  const size_t before = program.table_size();
  EXPECT_EQ(program.add(dims.mul(b, a)), product);
  EXPECT_EQ(program.add(a), 0u);
  EXPECT_EQ(program.table_size(), before);
}

TEST(RunShapes, LevelsAreEvaluatedApart) {
  DimTable dims;
  const Dim known = dims.new_symbol(SymbolKind::size, {}), born = dims.new_symbol(SymbolKind::born, {});
  ShapeProgram program(dims, {0, 1});
  const Slot late = program.add(dims.mul(known, born)), early = program.add(dims.add(known, dims.constant(1)));
  program.finish();
  EXPECT_EQ(program.level(late), 1u);
  EXPECT_EQ(program.level(early), 0u);
  std::vector<int64_t> table(program.table_size(), -1);
  program.initialise(table);
  table[0] = 5;
  program.evaluate(0, table);
  EXPECT_EQ(table[early], 6);
  EXPECT_EQ(table[late], -1);
  table[1] = 3;
  program.evaluate(1, table);
  EXPECT_EQ(table[late], 15);
}

TEST(RunShapes, OverflowAndDivisionByZeroAreErrors) {
  DimTable dims;
  const Dim a = dims.new_symbol(SymbolKind::size, {}), b = dims.new_symbol(SymbolKind::size, {});
  ShapeProgram product(dims, {0, 0}), quotient(dims, {0, 0});
  product.add(dims.mul(a, b));
  quotient.add(dims.floordiv(a, b));
  product.finish();
  quotient.finish();
  std::vector<int64_t> table(8);
  table[0] = INT64_MAX / 2;
  table[1] = 3;
  EXPECT_THROW(product.evaluate(0, table), UserError);
  table[1] = 0;
  EXPECT_THROW(quotient.evaluate(0, table), UserError);
}

TEST(RunShapes, ArenaGrowsAtOnceAndShrinksLate) {
  Arena arena;
  arena.reserve(64 << 20);
  EXPECT_GE(arena.capacity(), size_t{64} << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % Arena::kAlignment, 0u);
  for (uint32_t i = 0; i < Arena::kPatience; ++i) arena.reserve(1000);
  EXPECT_GE(arena.capacity(), size_t{64} << 20);
  for (uint32_t i = 0; i < 3; ++i) arena.reserve(1000);
  EXPECT_LT(arena.capacity(), size_t{1} << 20);
}

}  // namespace
}  // namespace escapement
