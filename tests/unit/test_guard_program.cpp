// GuardProgram: text, answers, what counts as no. Its machine code is compared with this in tests/exec/test_guard_code.cpp.
#include <gtest/gtest.h>

#include "jit/run/guard_program.h"

namespace escapement {
namespace {

bool holds(const GuardProgram& program, std::vector<int64_t> values) {
  values.resize(program.table_size(), -1);
  return program.holds(values.data());
}

TEST(GuardProgram, HasAText) {
  DimTable dims;
  const Dim a = dims.new_symbol(SymbolKind::size, {}), b = dims.new_symbol(SymbolKind::size, {});
  GuardProgram program(dims);
  const Slot given = program.input();
  const Slot zero = program.value(dims.constant(0));
  program.test(Guard::Kind::equal, program.value(dims.mod(a, dims.constant(4))), zero);
  program.test(Guard::Kind::equal, given, program.value(dims.mul(a, b)));
  program.test(Guard::Kind::less_equal, 0, 1);
  program.keep(program.value(dims.mul(a, b)));
  program.finish();
  EXPECT_EQ(program.to_string(), "t3 = 0\nt4 = 4\nt5 = mod t0 t4\nt6 = mul t0 t1\nt5 == t3\nt2 == t6\nt0 <= t1\nkeep t6\n");
}

TEST(GuardProgram, AllTestsMustHold) {
  DimTable dims;
  const Dim a = dims.new_symbol(SymbolKind::size, {}), b = dims.new_symbol(SymbolKind::size, {});
  GuardProgram program(dims);
  program.test(Guard::Kind::less, program.value(a), program.value(b));
  program.test(Guard::Kind::not_equal, program.value(dims.add(a, b)), program.value(dims.constant(7)));
  program.finish();
  EXPECT_TRUE(holds(program, {2, 3}));
  EXPECT_FALSE(holds(program, {3, 3}));
  EXPECT_FALSE(holds(program, {3, 4}));
}

TEST(GuardProgram, WhatCannotBeComputedDoesNotHold) {
  DimTable dims;
  const Dim a = dims.new_symbol(SymbolKind::size, {}), b = dims.new_symbol(SymbolKind::size, {});
  GuardProgram product(dims), quotient(dims);
  product.test(Guard::Kind::less_equal, product.value(dims.constant(0)), product.value(dims.mul(a, b)));
  quotient.test(Guard::Kind::less_equal, quotient.value(dims.constant(0)), quotient.value(dims.floordiv(a, b)));
  product.finish();
  quotient.finish();
  EXPECT_TRUE(holds(product, {1 << 20, 1 << 20}));
  EXPECT_FALSE(holds(product, {int64_t{1} << 40, int64_t{1} << 40}));
  EXPECT_TRUE(holds(quotient, {7, 2}));
  EXPECT_FALSE(holds(quotient, {7, 0}));
}

}  // namespace
}  // namespace escapement
