// Staged launches: copies against a loop over all points, and which layouts are copied in which pieces.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "jit/run/launch.h"
#include "run_support.h"

namespace escapement {
namespace {

using run_test::sum_nest;
using Numbers = std::vector<int64_t>;

// --- copies

struct Case {
  std::vector<CopyAxis> points, each;
  int64_t element = 4, pitch = 0, memory = 0, block = 0;   // bytes
};

// Both lists in one memory order, drawn at random; the block is dense, but for gaps between points.
Case random_case(std::mt19937& random) {
  Case made;
  made.element = int64_t{1} << random() % 4;
  const size_t axes = 1 + random() % 4, points = 1 + random() % axes;
  std::vector<CopyAxis> all(axes);
  std::vector<size_t> order(axes);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  int64_t next = made.element;
  for (const size_t axis : order) {
    all[axis].extent = 1 + static_cast<int64_t>(random() % 21);
    if (random() % 6 == 0) next *= 2;   // every second element
    all[axis].from = random() % 8 == 0 ? 0 : next;
    if (all[axis].from != 0) next *= all[axis].extent + static_cast<int64_t>(random() % 3 == 0);
  }
  made.memory = next;
  made.points.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(points));
  made.each.assign(all.begin() + static_cast<std::ptrdiff_t>(points), all.end());
  int64_t inner = made.element;
  for (size_t i = made.each.size(); i-- > 0; inner *= made.each[i].extent) made.each[i].to = inner;
  made.pitch = inner + made.element * static_cast<int64_t>(random() % 2);
  made.block = made.pitch;
  for (const CopyAxis& axis : made.points) made.block *= axis.extent;
  return made;
}

// f(offset in the block, offset in memory) of every element of the points [begin, end).
template <class F>
void each_element(const Case& made, int64_t begin, int64_t end, F f) {
  int64_t count = 1;
  for (const CopyAxis& axis : made.each) count *= axis.extent;
  for (int64_t point = begin; point < end; ++point) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t to = point * made.pitch, from = 0, rest = i;
      for (size_t a = made.each.size(); a-- > 0; rest /= made.each[a].extent)
        to += rest % made.each[a].extent * made.each[a].to, from += rest % made.each[a].extent * made.each[a].from;
      rest = point;
      for (size_t a = made.points.size(); a-- > 0; rest /= made.points[a].extent) from += rest % made.points[a].extent * made.points[a].from;
      f(static_cast<size_t>(to), static_cast<size_t>(from));
    }
  }
}

std::vector<std::byte> random_bytes(int64_t count, std::mt19937& random) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

TEST(RunStaging, CopiesEveryElementToItsPlaceAndNothingElse) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const Case made = random_case(random);
    const auto memory = random_bytes(made.memory, random), before = random_bytes(made.block, random);
    const int64_t points = made.block / made.pitch, begin = static_cast<int64_t>(random() % points);
    const int64_t end = begin + static_cast<int64_t>(random() % (points - begin + 1));
    auto block = before, wanted = before;
    each_element(made, begin, end, [&](size_t to, size_t from) { std::copy_n(&memory[from], made.element, &wanted[to]); });
    copy_points(block.data(), memory.data(), made.points, begin, end, made.pitch, made.each, made.element);
    ASSERT_EQ(block, wanted) << round;
  }
}

TEST(RunStaging, CopiesBackToWhereItCopiesFrom) {
  std::mt19937 random(4);
  for (int round = 0; round < 2000; ++round) {
    Case made = random_case(random);
    const auto repeats = [](const CopyAxis& axis) { return axis.from == 0; };
    if (std::any_of(made.points.begin(), made.points.end(), repeats) || std::any_of(made.each.begin(), made.each.end(), repeats)) continue;
    const auto block = random_bytes(made.block, random), before = random_bytes(made.memory, random);
    auto memory = before, wanted = before;
    const int64_t points = made.block / made.pitch, end = static_cast<int64_t>(random() % (points + 1));
    each_element(made, 0, end, [&](size_t to, size_t from) { std::copy_n(&block[to], made.element, &wanted[from]); });
    copy_points_back(block.data(), memory.data(), made.points, 0, end, made.pitch, made.each, made.element);
    ASSERT_EQ(memory, wanted) << round;
  }
}

// --- plans: sum nests, whose operand is staged and whose result never needs to be

struct Planned {
  run_test::PlainKernel kernel;
  LaunchRecipe recipe;
  Launch launch;

  Planned(LoopNest nest, Geometry geometry, const StagingLimits& limits = {}) : kernel(std::move(nest)) {
    recipe.code = &kernel;
    recipe.may_block = true;
    recipe.uses = uses_of(kernel.nest());
    launch.geometry = std::move(geometry);
    plan_staging(recipe, launch, limits);
  }
};

LoopNest reading_sum(size_t parallel, size_t reduced) {
  LoopNest nest = sum_nest(parallel, reduced);
  nest.stages[0].inputs.resize(1);
  nest.stages[1].stores.push_back({1, 0});
  return nest;
}

TEST(RunStaging, RowsSideBySideAreCopiedTogether) {
  const Planned made(reading_sum(1, 1), {{512, 300}, {4, 2048, 0, 4, 0, 0}});   // a transposed operand
  EXPECT_EQ(made.launch.staging.pieces, Staging::Pieces::rows);
  EXPECT_EQ(made.launch.variant, Variant::fast);
  EXPECT_GE(made.launch.staging.block, 16);
  EXPECT_EQ(made.launch.geometry.strides[1], 4);
}

TEST(RunStaging, ALongRowOfRunsIsCopiedInStretches) {
  const Planned made(reading_sum(1, 2), {{3, 64, 1000}, {4000, 12000, 4, 0, 4, 0, 0, 0}});
  EXPECT_EQ(made.launch.staging.pieces, Staging::Pieces::stretches);
  EXPECT_EQ(made.launch.geometry.extents, (Numbers{3, 1, 64000}));
}

TEST(RunStaging, ARowThatManyStagesWalkIsCopiedWhole) {
  LoopNest nest = reading_sum(1, 2);
  nest.stages.push_back(nest.stages[0]);
  const Planned made(std::move(nest), {{3, 64, 1000}, {4000, 12000, 4, 0, 4, 0, 0, 0}});
  EXPECT_EQ(made.launch.staging.pieces, Staging::Pieces::rows);
  EXPECT_EQ(made.launch.staging.block, 1);
}

// The elements of the images lie two apart, the weights of their channels repeat along pixels.
TEST(RunStaging, WhatRepeatsAlongTheInnermostAxisStaysWhereItIs) {
  LoopNest nest = reading_sum(1, 2);
  nest.params.push_back({DType::f32, false, InnerStride::zero});
  LoopInput weight;
  weight.number = 2;
  nest.stages[0].inputs.push_back(weight);
  const Planned made(std::move(nest), {{3, 7, 437}, {24472, 3496, 8, 0, 4, 0, 0, 0, 0, 4, 0, 0}});
  EXPECT_EQ(made.launch.staging.pieces, Staging::Pieces::rows);
  EXPECT_EQ(made.launch.staging.operands.size(), 1u);
  EXPECT_EQ(made.launch.variant, Variant::general);
  EXPECT_EQ(made.launch.geometry.extents, (Numbers{3, 7, 437}));
  EXPECT_EQ((Numbers{made.launch.geometry.strides[1], made.launch.geometry.strides[2]}), (Numbers{1748, 4}));
}

LoopNest sum_of_columns() {
  LoopNest nest = reading_sum(2, 1);
  nest.schedule = Schedule::column;
  std::swap(nest.axes[1], nest.axes[2]);
  nest.params[1].inner = InnerStride::unit;
  return nest;
}

TEST(RunStaging, FewColumnsAndThoseBehindThemAreOneAxis) {
  const Planned made(sum_of_columns(), {{19, 351, 3}, {12, 228, 4, 0, 4, 0, 76, 0}});   // the result is staged
  EXPECT_EQ(made.launch.staging.pieces, Staging::Pieces::columns);
  EXPECT_EQ(made.launch.staging.block, 57);
  EXPECT_EQ(made.launch.geometry.extents, (Numbers{1, 351, 57}));
}

TEST(RunStaging, ColumnsWithMemoryBetweenThemAreNot) {
  const Planned made(sum_of_columns(), {{19, 351, 3}, {16, 304, 4, 0, 4, 0, 76, 0}});
  EXPECT_EQ(made.launch.staging.pieces, Staging::Pieces::columns);
  EXPECT_EQ(made.launch.geometry.extents, (Numbers{19, 351, 3}));
}

TEST(RunStaging, ManyColumnsAreEnough) {
  const Planned made(sum_of_columns(), {{19, 351, 64}, {256, 4864, 4, 0, 4, 0, 76, 0}});
  EXPECT_EQ(made.launch.geometry.extents, (Numbers{19, 351, 64}));
}

TEST(RunStaging, WhatWouldTakeTooMuchMemoryIsNotCopied) {
  LoopNest nest = reading_sum(1, 1);
  nest.stages.push_back(nest.stages[0]);
  const Planned made(std::move(nest), {{3, 1 << 20}, {4, 12, 0, 4, 0, 0}}, {.largest = 1 << 20});
  EXPECT_FALSE(made.launch.staging);
  EXPECT_EQ(made.launch.geometry.strides[1], 12);
}

TEST(RunStaging, MemoryThatSomeoneElseWritesIsNotCopied) {
  Planned made(reading_sum(1, 1), {{512, 300}, {4, 2048, 0, 4, 0, 0}});
  made.launch = Launch();
  made.launch.geometry = {{512, 300}, {4, 2048, 0, 4, 0, 0}};
  made.recipe.may_block = false;
  plan_staging(made.recipe, made.launch);
  EXPECT_FALSE(made.launch.staging);
}

TEST(RunStaging, AGatheredOperandIsNotCopied) {
  LoopNest nest = reading_sum(1, 1);
  nest.stages[0].inputs[0].kind = LoopInput::Kind::gather;
  EXPECT_FALSE(Planned(std::move(nest), {{512, 300}, {4, 2048, 0, 4, 0, 0}}).launch.staging);
}

TEST(RunStaging, SumsInPiecesAreTheSums) {
  for (const auto& [limit, long_row] : {std::pair<int64_t, int64_t>{1, 1 << 20}, {5000, 1 << 20}, {1 << 20, 1 << 20}, {1, 0}, {9000, 0}}) {
    std::vector<float> x(5 * 7 * 601), sums(7, -1);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 91);
    Planned made(reading_sum(1, 2), {{7, 5, 601}, {2404, 16828, 4, 0, 4, 0, 0, 0}}, {limit, 1 << 20, limit, long_row});
    Launch& launch = made.launch;
    ASSERT_TRUE(launch.staging);
    const int64_t stretches = launch.staging.pieces == Staging::Pieces::stretches ? 3 : 0;
    std::vector<uint64_t> scratch(static_cast<size_t>(2 * 7 * stretches));
    launch.data = {x.data(), sums.data()};
    const KernelArgs args{launch.data.data(), launch.geometry.extents.data(), launch.geometry.strides.data(), nullptr, nullptr, scratch.data()};
    for (int64_t row = 0; row < 7 && stretches > 0; ++row) run_staged(made.recipe, launch, Variant::partial, args, row, row + 1, 0, stretches);
    if (stretches > 0) made.kernel.run(Variant::finish, args, 0, 7, 0, stretches);
    else run_staged(made.recipe, launch, Variant::fast, args, 0, 7, 0, 1);
    for (size_t row = 0; row < 7; ++row) {
      float wanted = 0;
      for (size_t n = 0; n < 5; ++n) wanted += std::accumulate(&x[n * 4207 + row * 601], &x[n * 4207 + row * 601] + 601, 0.0f);
      EXPECT_EQ(sums[row], wanted) << row << " " << limit;
    }
  }
}

}  // namespace
}  // namespace escapement
