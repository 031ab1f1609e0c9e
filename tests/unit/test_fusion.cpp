// What becomes one kernel, what stays apart and why.
#include <gtest/gtest.h>

#include "exec/trace_maker.h"
#include "kernels/distribute_cat.h"
#include "kernels/plan.h"

namespace escapement {
namespace {

using testing::Maker;
using V = ValueId;

struct Planned {
  LaunchPlan plan;
  int launches() const {
    int n = 0;
    for (const Step& s : plan.steps) n += std::holds_alternative<KernelStep>(s);
    return n;
  }
  bool apart(Reason why) const {
    for (const Apart& a : plan.apart) {
      if (a.why == why) return true;
    }
    return false;
  }
};

Planned plan_of(const Maker& m, FusionLimits limits = {}) {
  verify(m.trace);
  Planned p{make_plan(m.trace, limits)};
  verify(p.plan);
  EXPECT_EQ(print(p.plan), print(make_plan(m.trace, limits)));  // deterministic
  return p;
}

TEST(Fusion, PointwiseChainIsOneKernel) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n}), y = m.in({n});
  m.out(m.op(Op::relu, {m.op(Op::add, {m.op(Op::mul, {x, y}), x})}));
  EXPECT_EQ(plan_of(m).launches(), 1);
  EXPECT_EQ(plan_of(m, {false, 512}).launches(), 3);
}

TEST(Fusion, BroadcastOfRowAndColumn) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  const V x = m.in({n, c}), row = m.in({c}), column = m.in({n, m.k(1)});
  m.out(m.op(Op::mul, {m.op(Op::add, {x, row}), column}));
  EXPECT_EQ(plan_of(m).launches(), 1);
}

TEST(Fusion, TransposeOfItselfStaysApart) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n, n});
  const V e = m.op(Op::exp, {x});
  m.out(m.op(Op::add, {e, m.permute(e, {1, 0})}));
  const Planned p = plan_of(m);
  EXPECT_EQ(p.launches(), 2);
  EXPECT_TRUE(p.apart(Reason::apart_axis_order)) << print(p.plan);
}

TEST(Fusion, TransposeOfAnInputIsALoad) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n, n});
  m.out(m.op(Op::add, {x, m.permute(x, {1, 0})}));
  EXPECT_EQ(plan_of(m).launches(), 1);
}

TEST(Fusion, SoftmaxWithNeighboursIsOneKernel) {
  Maker m;
  const Dim b = m.size(), h = m.size(), s = m.size();
  const V x = m.in({b, h, s, s}), mask = m.in({b, m.k(1), m.k(1), s});
  m.out(m.op(Op::mul, m.softmax(m.op(Op::add, {m.op(Op::mul, x, 0.125), mask}), 3), 2.0));
  const Planned p = plan_of(m);
  EXPECT_EQ(p.launches(), 1) << print(p.plan);
  EXPECT_EQ(p.plan.kernels[0].nest.schedule, Schedule::row);
}

TEST(Fusion, SoftmaxKeepsExpInItsResult) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  m.out(m.softmax(m.in({n, c}), 1));
  const Planned p = plan_of(m);
  ASSERT_EQ(p.launches(), 1);
  const LoopNest& nest = p.plan.kernels[0].nest;
  EXPECT_EQ(nest.params.size(), 2u) << print(p.plan);
  EXPECT_EQ(nest.stages.size(), 3u);
  EXPECT_EQ(nest.stages[1].stores.size(), 1u);
  EXPECT_LT(nest.stages[2].body.nodes().size(), 8u);
}

TEST(Fusion, SoftmaxOverTheFirstAxisIsAColumn) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  m.out(m.softmax(m.in({n, c}), 0));
  const Planned p = plan_of(m);
  ASSERT_EQ(p.launches(), 1);
  EXPECT_EQ(p.plan.kernels[0].nest.schedule, Schedule::column);
}

TEST(Fusion, LayerNormWithResidualAndGeluIsOneKernel) {
  Maker m;
  const Dim b = m.size(), s = m.size();
  const V x = m.in({b, s, m.k(64)}), r = m.in({b, s, m.k(64)}), w = m.in({m.k(64)}), bias = m.in({m.k(64)});
  m.out(m.op(Op::gelu, {m.layer_norm(m.op(Op::add, {x, r}), w, bias)}));
  const Planned p = plan_of(m);
  EXPECT_EQ(p.launches(), 1) << print(p.plan);
}

TEST(Fusion, OtherReducedAxesStayApart) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  const V x = m.in({n, c});
  const V e = m.op(Op::sub, {x, m.reduce(Op::amax, x, {1})});
  m.out(m.reduce(Op::sum, e, {0}));
  const Planned p = plan_of(m);
  EXPECT_EQ(p.launches(), 2);
  EXPECT_TRUE(p.apart(Reason::apart_reduced_axes)) << print(p.plan);
}

TEST(Fusion, ReductionOfEverythingIsNotFollowedByAllElements) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n});
  m.out(m.op(Op::div, {x, m.reduce(Op::sum, x, {0})}));
  EXPECT_EQ(plan_of(m).launches(), 2);
}

TEST(Fusion, SplitOfHeadsIsOneKernel) {
  Maker m;
  const Dim b = m.size(), s = m.size();
  const V x = m.in({b, s, m.k(768)});
  const V heads = m.permute(m.reshape(m.op(Op::exp, {x}), {b, s, m.k(12), m.k(64)}), {0, 2, 1, 3});
  m.out(m.op(Op::mul, heads, 0.125));
  const Planned p = plan_of(m);
  EXPECT_EQ(p.launches(), 1) << print(p.plan);
}

TEST(Fusion, MergeOfHeadsIsOneKernel) {
  Maker m;
  const Dim b = m.size(), s = m.size();
  const V x = m.in({b, s, m.k(12), m.k(64)}), r = m.in({b, s, m.k(768)});
  m.out(m.op(Op::add, {m.reshape(m.op(Op::exp, {x}), {b, s, m.k(768)}), r}));
  EXPECT_EQ(plan_of(m).launches(), 1);
}

TEST(Fusion, UnprovableReshapeStaysApart) {
  Maker m;
  const V x = m.in({m.k(6), m.k(4)});
  m.out(m.op(Op::neg, {m.reshape(m.op(Op::exp, {x}), {m.k(3), m.k(8)})}));
  const Planned p = plan_of(m);
  EXPECT_TRUE(p.launches() == 1 || p.apart(Reason::apart_reshape)) << print(p.plan);
}

TEST(Fusion, SliceOfAKernelStaysApartSliceOfMemoryIsFree) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n, m.k(8)});
  const V e = m.op(Op::exp, {x});
  m.out(m.op(Op::mul, {m.slice(e, 1, m.k(0), m.k(4)), m.slice(x, 1, m.k(4), m.k(4))}));
  const Planned p = plan_of(m);
  EXPECT_EQ(p.launches(), 2);
  EXPECT_TRUE(p.apart(Reason::apart_slice));
}

TEST(Fusion, CausalMaskIsComputedInPlace) {
  Maker m;
  const Dim b = m.size(), s = m.size();
  const V x = m.in({b, s, s});
  const V mask = m.op(Op::ge, {m.unsqueeze(m.arange(s), 1), m.unsqueeze(m.arange(s), 0)});
  m.out(m.softmax(m.op(Op::where, {mask, x, m.full({}, -1e9)}), 2));
  const Planned p = plan_of(m);
  EXPECT_EQ(p.launches(), 1) << print(p.plan);
}

TEST(Fusion, CycleIsRefused) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n});
  const V e = m.op(Op::exp, {x});
  const V c = m.call("test::f", {e}, {n});
  m.out(m.op(Op::add, {e, c}));
  const Planned p = plan_of(m);
  EXPECT_EQ(p.launches(), 2);
  EXPECT_TRUE(p.apart(Reason::apart_cycle));
}

TEST(Fusion, EmbeddingWithLayerNormIsOneKernel) {
  Maker m;
  const Dim b = m.size(), s = m.size();
  const V words = m.in({m.k(100), m.k(64)}), places = m.in({m.k(512), m.k(64)}), ids = m.in({b, s}, DType::i64);
  const V w = m.in({m.k(64)}), bias = m.in({m.k(64)});
  const V sum = m.op(Op::add, {m.index(Op::embedding, words, ids), m.index(Op::embedding, places, m.arange(s))});
  m.out(m.layer_norm(sum, w, bias));
  const Planned p = plan_of(m);
  EXPECT_EQ(p.launches(), 1) << print(p.plan);
}

TEST(Fusion, CatTakesItsProducersIn) {
  Maker m;
  const Dim n = m.size(), a = m.size(), c = m.size();
  m.out(m.cat({m.op(Op::exp, {m.in({n, a})}), m.op(Op::neg, {m.in({n, c})})}, 1));
  EXPECT_EQ(plan_of(m).launches(), 2);
}

TEST(Fusion, OpsOnACatMoveIntoItsParts) {
  Maker m;
  const Dim n = m.size(), a = m.size(), c = m.size();
  const V cat = m.cat({m.op(Op::exp, {m.in({n, a})}), m.in({n, c})}, 1);
  m.out(m.op(Op::relu, {m.op(Op::mul, {cat, m.in({n, m.k(1)})})}));
  const LaunchPlan plan = make_plan(distribute_cat(m.trace), {});
  EXPECT_EQ(plan.steps.size(), 2u) << print(plan);
}

TEST(Fusion, WriteIsTheStoreOfItsSource) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n});
  m.b.write(x, m.op(Op::add, x, 1.0));
  const Planned p = plan_of(m);
  EXPECT_EQ(p.launches(), 1) << print(p.plan);
  EXPECT_EQ(p.plan.kernels[0].nest.params.size(), 1u);
}

TEST(Fusion, WriteOfATransposeIsNotInPlace) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n, n});
  m.b.write(x, m.op(Op::add, m.permute(x, {1, 0}), 1.0));
  const Planned p = plan_of(m);
  EXPECT_EQ(p.launches(), 2);
  EXPECT_TRUE(p.apart(Reason::apart_write_order));
}

TEST(Fusion, SizeLimit) {
  Maker m;
  V x = m.in({m.size()});
  for (int i = 0; i < 20; ++i) x = m.op(Op::add, x, 1.0);
  m.out(x);
  const Planned p = plan_of(m, {true, 5});
  EXPECT_EQ(p.launches(), 4);
  EXPECT_TRUE(p.apart(Reason::apart_size_limit));
}

}  // namespace
}  // namespace escapement
