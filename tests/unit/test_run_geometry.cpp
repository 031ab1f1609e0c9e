// Launch geometry: which axes merge, which variant runs, on hand-made nests.
#include <gtest/gtest.h>

#include "run_support.h"

namespace escapement {
namespace {

using run_test::map_nest;
using run_test::sum_nest;
using Numbers = std::vector<int64_t>;

TEST(RunGeometry, ContiguousAxesMergeIntoTheInnerOne) {
  const LoopNest nest = map_nest(3, 1);
  Geometry g{{2, 3, 5}, {60, 20, 4, 0, 60, 20, 4, 0}};
  merge_axes(nest, g);
  EXPECT_EQ(g.extents, (Numbers{1, 1, 30}));
  EXPECT_EQ(g.strides[2], 4);
  EXPECT_TRUE(is_fast(nest, g));
}

TEST(RunGeometry, ABroadcastOperandKeepsItsAxisApart) {
  const LoopNest nest = map_nest(3, 1);
  Geometry g{{2, 3, 5}, {0, 20, 4, 0, 60, 20, 4, 0}};
  merge_axes(nest, g);
  EXPECT_EQ(g.extents, (Numbers{1, 2, 15}));
}

TEST(RunGeometry, AnExtentOfOneTakesTheOuterAxisOver) {
  const LoopNest nest = map_nest(2, 1);
  Geometry g{{7, 1}, {4, 400, 0, 4, 4, 0}};
  merge_axes(nest, g);
  EXPECT_EQ(g.extents, (Numbers{1, 7}));
  EXPECT_TRUE(is_fast(nest, g));
}

TEST(RunGeometry, IndexedAxesStay) {
  LoopNest nest = map_nest(2, 1);
  nest.axes[1].indexed = true;
  Geometry g{{3, 5}, {20, 4, 0, 20, 4, 0}};
  merge_axes(nest, g);
  EXPECT_EQ(g.extents, (Numbers{3, 5}));
}

TEST(RunGeometry, ReducedAndParallelAxesDoNotMix) {
  const LoopNest nest = sum_nest(2, 2);
  Geometry g{{2, 3, 4, 5}, {240, 80, 20, 4, 0, 12, 4, 0, 0, 0}};
  merge_axes(nest, g);
  EXPECT_EQ(g.extents, (Numbers{1, 6, 1, 20}));
  EXPECT_TRUE(is_fast(nest, g));
}

TEST(RunGeometry, BlocksOfRowsRunAlongTheAxisWhereTheyAreReachedSoonest) {
  const LoopNest nest = sum_nest(2, 1);
  Geometry windows{{100, 64, 3}, {8000, 4, 4000, 0, 256, 4, 0, 0}}, turned{{64, 100, 3}, {4, 8000, 4000, 0, 4, 256, 0, 0}};
  EXPECT_TRUE(is_block(nest, windows));
  choose_row_axis(nest, windows);
  EXPECT_EQ(windows.extents, (Numbers{100, 64, 3}));
  choose_row_axis(nest, turned);
  EXPECT_EQ(turned, windows);
  Geometry many{{1000, 3, 16}, {192, 64, 4, 0, 12, 4, 0, 0}};   // lines of three rows would leave most of a block empty
  choose_row_axis(nest, many);
  EXPECT_EQ(many.extents, (Numbers{3, 1000, 16}));
  const Geometry along{{4, 64, 3}, {768, 12, 4, 0, 256, 4, 8, 0}};   // the result would change from element to element
  EXPECT_FALSE(is_block(nest, along));
}

TEST(RunGeometry, ReducedAxesThatDoNotMergeAreGeneral) {
  const LoopNest nest = sum_nest(1, 2);
  Geometry g{{2, 3, 5}, {240, 80, 4, 0, 4, 0, 0, 0}};
  merge_axes(nest, g);
  EXPECT_EQ(g.extents, (Numbers{2, 3, 5}));
  EXPECT_FALSE(is_fast(nest, g));
}

LoopNest reading(LoopNest nest) {
  nest.stages[0].inputs.resize(1);
  return nest;
}

TEST(RunGeometry, LongRunsAreTakenWhereTheyAre) {
  const LoopNest nest = reading(sum_nest(1, 2));
  const Geometry runs{{64, 16, 784}, {3136, 200704, 4, 0, 4, 0, 0, 0}}, shorter{{64, 16, 47}, {188, 12032, 4, 0, 4, 0, 0, 0}};
  EXPECT_TRUE(is_in_long_runs(nest, runs));
  EXPECT_FALSE(is_in_long_runs(nest, shorter));
  Geometry apart = runs;
  apart.strides[2] = 8;
  EXPECT_FALSE(is_in_long_runs(nest, apart));
  LoopNest indexed = nest;
  indexed.stages[0].inputs.push_back({LoopInput::Kind::index, 2});
  EXPECT_FALSE(is_in_long_runs(indexed, runs));
}

TEST(RunGeometry, OneColumnOfAdjacentElementsIsAlone) {
  LoopNest nest = reading(sum_nest(2, 1));
  nest.schedule = Schedule::column;
  std::swap(nest.axes[1], nest.axes[2]);
  nest.params[1].inner = InnerStride::unit;
  const Geometry one{{3, 500, 1}, {2000, 4, 4, 0, 4, 0, 4, 0}}, two{{3, 500, 2}, {4000, 8, 4, 0, 8, 0, 4, 0}};
  EXPECT_TRUE(is_alone(nest, one));
  EXPECT_FALSE(is_alone(nest, two));
  Geometry apart = one;
  apart.strides[1] = 8;
  EXPECT_FALSE(is_alone(nest, apart));
  EXPECT_FALSE(is_alone(sum_nest(2, 1), one));
}

TEST(RunGeometry, AnEmptyReductionIsOneEmptyAxis) {
  const LoopNest nest = sum_nest(1, 2);
  Geometry g{{2, 0, 5}, {0, 80, 4, 0, 4, 0, 0, 0}};
  merge_axes(nest, g);
  EXPECT_EQ(g.extents, (Numbers{2, 1, 0}));
  EXPECT_TRUE(is_fast(nest, g));
}

LoopNest column_nest() {
  LoopNest nest = map_nest(3, 1);
  nest.schedule = Schedule::column;
  nest.axes[1].reduced = true;
  return nest;
}

TEST(RunGeometry, AParallelAxisMergesIntoTheVectorAxisOfAColumnNest) {
  Geometry g{{6, 7, 5}, {20, 120, 4, 0, 20, 0, 4, 0}};
  merge_axes(column_nest(), g);
  EXPECT_EQ(g.extents, (Numbers{1, 7, 30}));
  EXPECT_EQ(g.strides, (Numbers{0, 120, 4, 0, 0, 0, 4, 0}));
}

TEST(RunGeometry, AParallelAxisOutsideTheReducedOnesStaysApart) {
  Geometry g{{6, 7, 5}, {140, 20, 4, 0, 20, 0, 4, 0}};
  merge_axes(column_nest(), g);
  EXPECT_EQ(g.extents, (Numbers{6, 7, 5}));
}

TEST(RunGeometry, AVectorAxisOfOneElementTakesOverWhatItCanStepThrough) {
  Geometry adjacent{{6, 7, 1}, {4, 24, 0, 0, 4, 0, 0, 0}}, apart{{6, 7, 1}, {8, 48, 0, 0, 4, 0, 0, 0}};
  merge_axes(column_nest(), adjacent);
  EXPECT_EQ(adjacent.extents, (Numbers{1, 7, 6}));
  merge_axes(column_nest(), apart);
  EXPECT_EQ(apart.extents, (Numbers{6, 7, 1}));
  EXPECT_TRUE(is_fast(column_nest(), apart));
}

TEST(RunGeometry, AxesFollowTheStridesOfTheOutput) {
  const LoopNest nest = map_nest(2, 1);
  Geometry g{{3, 5}, {4, 12, 0, 4, 12, 0}};  // both operands are transposed
  order_axes(nest, g);
  merge_axes(nest, g);
  EXPECT_EQ(g.extents, (Numbers{1, 15}));
  EXPECT_TRUE(is_fast(nest, g));
}

TEST(RunGeometry, AStridedInnerAxisIsGeneral) {
  const LoopNest nest = map_nest(2, 1);
  Geometry g{{3, 5}, {40, 8, 0, 20, 4, 0}};
  merge_axes(nest, g);
  EXPECT_FALSE(is_fast(nest, g));
}

TEST(RunGeometry, TheVectorRunsAlongTheNearestElements) {
  const LoopNest nest = map_nest(2, 1);
  Geometry far{{512, 1024}, {8, 2048, 0, 8, 2048, 0}};   // x[::2] of a transposed x, written in place
  choose_vector_axis(nest, far);
  EXPECT_EQ(far.extents, (Numbers{1024, 512}));
  EXPECT_EQ(far.strides, (Numbers{2048, 8, 0, 2048, 8, 0}));
}

TEST(RunGeometry, AShortAxisIsNoVectorAxisWhereAnotherIsLonger) {
  const LoopNest nest = map_nest(3, 1);
  Geometry pairs{{64, 32, 2}, {256, 8, 4, 0, 256, 4, 128, 0}};   // the halves of a row, interleaved
  choose_vector_axis(nest, pairs);
  EXPECT_EQ(pairs.extents, (Numbers{64, 2, 32}));
}

TEST(RunGeometry, AnIndexThatIsReadKeepsItsAxis) {
  LoopNest nest = map_nest(2, 1);
  nest.axes[0].indexed = true;
  Geometry far{{512, 1024}, {8, 2048, 0, 8, 2048, 0}};
  choose_vector_axis(nest, far);
  EXPECT_EQ(far.extents, (Numbers{512, 1024}));
}

TEST(RunGeometry, NothingIsChosenAmongNoElements) {
  const LoopNest nest = map_nest(2, 1);
  Geometry none{{0, 1024}, {8, 2048, 0, 8, 2048, 0}};
  choose_vector_axis(nest, none);
  EXPECT_EQ(none.extents, (Numbers{0, 1024}));
}

}  // namespace
}  // namespace escapement
