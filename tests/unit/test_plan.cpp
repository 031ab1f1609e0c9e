// Plans compute what the trace says: every case runs fused, with small kernels and unfused, on sizes 0, 1 and primes, on dense
// and odd strides, cut into ranges, against the reference evaluator; all bit for bit.
#include <cstdlib>

#include <gtest/gtest.h>

#include "exec/plan_runner.h"
#include "exec/reference.h"
#include "exec/trace_maker.h"

namespace escapement {
namespace {

using testing::HostTensor;
using testing::Maker;
using testing::PlanRunner;
using V = ValueId;

// What the tests answer for library calls: each result element is a sum over some operand elements.
void answer(const Instr&, const std::vector<HostTensor>& operands, std::vector<HostTensor>& results) {
  for (HostTensor& r : results) {
    for (int64_t i = 0; i < r.count(); ++i) {
      const HostTensor& o = operands[0];
      const float value = o.count() == 0 ? 1.5f : float(double_from_bits(o.bits(i % o.count()), o.dtype)) * 0.5f;
      store_bits(r.at(i), r.dtype, to_bits(double(value), compute_type(r.dtype)));
    }
  }
}

struct Case {
  std::vector<int64_t> sizes;  // of the `s` symbols in order
  bool odd = false;
};

std::vector<HostTensor> make_inputs(const Trace& trace, const Case& c, uint32_t seed) {
  std::vector<int64_t> symbols(trace.dims.symbol_count(), 1);
  size_t next = 0;
  for (uint32_t s = 0; s < symbols.size(); ++s) {
    if (trace.dims.info(Symbol(s)).kind == SymbolKind::size && next < c.sizes.size()) symbols[s] = c.sizes[next++];
  }
  std::mt19937 random(seed);
  std::vector<HostTensor> inputs;
  for (const Input& in : trace.inputs) {
    const TensorType& type = trace.type(in.value);
    std::vector<int64_t> sizes;
    for (Dim d : type.sizes) sizes.push_back(trace.dims.evaluate(d, symbols));
    inputs.push_back(testing::make_tensor(type.dtype, sizes, !in.contiguous));
    testing::fill_random(inputs.back(), random, type.dtype == DType::i64 ? 5 : 0);
  }
  return inputs;
}

HostTensor deep_copy(const HostTensor& t) {
  HostTensor copy = t;
  copy.memory = std::make_shared<std::vector<char>>(*t.memory);
  return copy;
}

std::vector<HostTensor> copy_all(const std::vector<HostTensor>& tensors) {
  std::vector<HostTensor> copies;
  for (const HostTensor& t : tensors) copies.push_back(deep_copy(t));
  return copies;
}

bool same_bits(uint64_t a, uint64_t b, DType type) {
  if (a == b) return true;
  if (!is_float(type)) return false;
  const double x = double_from_bits(a, compute_type(type)), y = double_from_bits(b, compute_type(type));
  return x != x && y != y;
}

void expect_equal(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].sizes, b[i].sizes) << what;
    for (int64_t e = 0; e < a[i].count(); ++e) {
      ASSERT_TRUE(same_bits(a[i].bits(e), b[i].bits(e), a[i].dtype))
          << what << ": tensor " << i << " element " << e << ": " << double_from_bits(a[i].bits(e), compute_type(a[i].dtype)) << " and "
          << double_from_bits(b[i].bits(e), compute_type(b[i].dtype));
    }
  }
}

// Runs a plan on copies of the inputs; what it returns and what it left in the inputs.
std::vector<HostTensor> run(const LaunchPlan& plan, const std::vector<HostTensor>& inputs, int64_t pieces = 1) {
  std::vector<HostTensor> own = copy_all(inputs);
  PlanRunner runner(plan, answer);
  runner.pieces = pieces;
  std::vector<HostTensor> all = copy_all(runner.run(own));
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

void check(const Trace& trace, const std::vector<std::vector<int64_t>>& sizes) {
  verify(trace);
  const LaunchPlan fused = make_plan(trace, {});
  const LaunchPlan small = make_plan(trace, {true, 3});
  const LaunchPlan apart = make_plan(trace, {false, 1});
  for (const LaunchPlan* p : {&fused, &small, &apart}) verify(*p);
  uint32_t seed = 1;
  int compared = 0;
  for (const auto& s : sizes) {
    const auto inputs = make_inputs(trace, {s}, ++seed);
    std::vector<HostTensor> own = copy_all(inputs);
    auto evaluated = testing::run_reference(trace, own, answer);
    if (!evaluated) continue;  // a guard of the trace: amax of nothing
    ++compared;
    std::vector<HostTensor> wanted = std::move(*evaluated);
    wanted.insert(wanted.end(), own.begin(), own.end());
    expect_equal(run(apart, inputs), wanted, "unfused\n" + print(trace) + print(apart));
    expect_equal(run(fused, inputs), wanted, "fused\n" + print(trace) + print(fused));
    expect_equal(run(small, inputs), wanted, "small kernels\n" + print(trace) + print(small));
    expect_equal(run(fused, inputs, 3), wanted, "in pieces\n" + print(fused));
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(compared, 1);
}

const std::vector<std::vector<int64_t>> kPairs = {{3, 5}, {1, 1}, {0, 3}, {3, 0}, {7, 41}, {1, 97}, {31, 1}};

TEST(Plan, Pointwise) {
  for (const bool odd : {false, true}) {
    Maker m;
    const Dim n = m.size(), c = m.size();
    const V x = m.in({n, c}, DType::f32, odd), y = m.in({c}), z = m.in({n, m.k(1)}, DType::bf16, odd);
    const V sum = m.op(Op::add, {m.op(Op::mul, {x, y}), z});
    m.out(m.op(Op::gelu, {sum}));
    m.out(m.op(Op::gt, {sum, x}));
    check(m.trace, kPairs);
  }
}

// Whether the operand is repeated is known only at the call: its stride is 0 then.
TEST(Plan, BroadcastKnownAtRunTime) {
  Maker m;
  const Dim n = m.size(), c = m.size(), k = m.size(5);
  const V x = m.in({n, c}), y = m.in({k, c});
  m.out(m.op(Op::mul, {m.op(Op::add, {x, y}), m.op(Op::exp, {y})}));
  check(m.trace, {{3, 5, 3}, {3, 5, 1}, {1, 1, 1}, {0, 3, 1}, {0, 3, 0}, {7, 2, 1}});
}

TEST(Plan, HalfTypesRoundBetweenOps) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  const V x = m.in({n, c}, DType::bf16), y = m.in({n, c}, DType::f16);
  m.out(m.op(Op::mul, {m.op(Op::add, {x, x}), m.op(Op::exp, {x})}));
  m.out(m.softmax(m.op(Op::add, {y, y}), 1));
  check(m.trace, kPairs);
}

TEST(Plan, Rows) {
  for (const int axis : {0, 1}) {
    Maker m;
    const Dim n = m.size(), c = m.size();
    const V x = m.in({n, c}, DType::f32, true);
    m.out(m.op(Op::mul, m.softmax(m.op(Op::mul, x, 0.5), axis), 3.0));
    check(m.trace, kPairs);
  }
}

TEST(Plan, LayerNorm) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  const V x = m.in({n, c, m.k(64)}), r = m.in({n, c, m.k(64)}), w = m.in({m.k(64)}), bias = m.in({m.k(64)});
  const V h = m.op(Op::add, {x, r});
  m.out(h);
  m.out(m.op(Op::gelu, {m.layer_norm(m.op(Op::tanh, {h}), w, bias)}));
  check(m.trace, {{1, 1}, {2, 3}, {0, 3}});
}

TEST(Plan, ReductionsOfAllKinds) {
  for (Op op : {Op::sum, Op::prod, Op::amax, Op::amin, Op::argmax, Op::argmin, Op::any, Op::all}) {
    for (const std::vector<int32_t>& axes : {std::vector<int32_t>{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}}) {
      if ((op == Op::argmax || op == Op::argmin) && axes.size() == 2) continue;
      Maker m;
      const Dim n = m.size(), c = m.size();
      const V x = m.in({n, m.k(3), c}, DType::f32, true);
      m.out(m.reduce(op, m.op(Op::add, x, 0.25), axes, axes.size() == 1));
      check(m.trace, {{3, 5}, {1, 1}, {17, 41}});
    }
  }
}

TEST(Plan, ReductionsOfIntegersAndHalves) {
  for (DType type : {DType::i32, DType::i64, DType::u8, DType::b8, DType::bf16, DType::f64}) {
    Maker m;
    const Dim n = m.size(), c = m.size();
    const V x = m.in({n, c}, type);
    m.out(m.reduce(Op::sum, x, {1}));
    m.out(m.reduce(Op::amax, x, {0}, false));
    m.out(m.reduce(Op::any, x, {0, 1}, false));
    check(m.trace, {{3, 5}, {1, 1}, {17, 41}});
  }
}

TEST(Plan, PermutedReduction) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  const V x = m.in({n, m.k(5), c});
  m.out(m.reduce(Op::sum, m.permute(m.op(Op::exp, {x}), {2, 0, 1}), {0, 2}));
  m.out(m.softmax(m.permute(x, {1, 2, 0}), 2));
  check(m.trace, kPairs);
}

TEST(Plan, RowOfOneElement) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n, m.k(1)});
  m.out(m.softmax(x, 1));
  m.out(m.reduce(Op::sum, m.in({}), {}, false));
  check(m.trace, {{1}, {5}, {0}});
}

TEST(Plan, Heads) {
  Maker m;
  const Dim b = m.size(), s = m.size();
  const V x = m.in({b, s, m.k(12)}), r = m.in({b, s, m.k(12)});
  const V heads = m.permute(m.reshape(m.op(Op::add, {x, r}), {b, s, m.k(3), m.k(4)}), {0, 2, 1, 3});
  m.out(m.op(Op::mul, {heads, m.softmax(heads, 3)}));
  check(m.trace, kPairs);
}

TEST(Plan, MergedHeads) {
  Maker m;
  const Dim b = m.size(), s = m.size();
  const V x = m.in({b, s, m.k(3), m.k(4)}), r = m.in({b, s, m.k(12)});
  const V flat = m.reshape(m.op(Op::exp, {x}), {b, s, m.k(12)});
  m.out(m.softmax(m.op(Op::add, {flat, r}), 2));
  m.out(m.reshape(m.op(Op::neg, {x}), {m.b.dims().mul(b, s), m.k(12)}));
  check(m.trace, kPairs);
}

TEST(Plan, SlicesAndTransposes) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  const V x = m.in({n, m.k(8)}), y = m.in({n, n});
  const V e = m.op(Op::exp, {x});
  m.out(m.op(Op::mul, {m.slice(e, 1, m.k(0), m.k(4)), m.slice(x, 1, m.k(4), m.k(4))}));
  const V z = m.op(Op::neg, {y});
  m.out(m.op(Op::add, {z, m.permute(z, {1, 0})}));
  m.out(m.op(Op::add, {m.arange(c), m.in({c}, DType::i64)}));
  check(m.trace, kPairs);
}

TEST(Plan, CausalSoftmax) {
  Maker m;
  const Dim b = m.size(), s = m.size();
  const V mask = m.op(Op::ge, {m.unsqueeze(m.arange(s), 1), m.unsqueeze(m.arange(s), 0)});
  m.out(m.softmax(m.op(Op::where, {mask, m.in({b, s, s}), m.full({}, -1e9)}), 2));
  check(m.trace, kPairs);
}

TEST(Plan, Gathers) {
  Maker m;
  const Dim b = m.size(), s = m.size();
  const V table = m.in({m.k(5), m.k(8)}), ids = m.in({b, s}, DType::i64), w = m.in({m.k(8)}), data = m.in({m.k(5), s});
  m.out(m.op(Op::mul, {m.index(Op::embedding, table, ids), w}));
  m.out(m.index(Op::gather, data, ids, 0));
  m.out(m.op(Op::exp, {m.index(Op::index_select, m.op(Op::neg, {table}), m.in({s}, DType::i64), 0)}));
  check(m.trace, {{2, 3}, {1, 1}, {5, 7}, {0, 2}, {2, 0}});
}

TEST(Plan, Cats) {
  for (const int axis : {0, 1}) {
    Maker m;
    const Dim n = m.size(), a = m.size();
    const V x = axis == 1 ? m.in({n, a}) : m.in({a, n}), y = axis == 1 ? m.in({n, m.k(3)}) : m.in({m.k(3), n});
    const V c = m.cat({m.op(Op::exp, {x}), m.op(Op::neg, {y}), x}, axis);
    m.out(m.op(Op::relu, {c}));
    m.out(m.softmax(c, 1));
    check(m.trace, kPairs);
  }
}

TEST(Plan, Pads) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  Attrs attrs;
  attrs.sizes = {m.k(1), m.k(2), m.k(0), m.k(3)};
  attrs.value.kind = Number::Kind::real;
  attrs.value.real = 2.5;
  m.out(m.op(Op::neg, {m.b.combine(Op::pad, std::vector<V>{m.op(Op::exp, {m.in({n, c})})}, attrs)}));
  check(m.trace, kPairs);
}

TEST(Plan, OpsOnACat) {
  for (const int axis : {0, 1}) {
    Maker m;
    const Dim n = m.size(), a = m.size();
    const V x = axis == 1 ? m.in({n, a}) : m.in({a, n}), y = axis == 1 ? m.in({n, m.k(3)}, DType::bf16) : m.in({m.k(3), n}, DType::bf16);
    const V once = axis == 1 ? m.in({n, m.k(1)}) : m.in({n});
    m.out(m.op(Op::relu, {m.op(Op::mul, {m.op(Op::add, m.cat({x, m.op(Op::neg, {y})}, axis), 0.5), once})}));
    check(m.trace, kPairs);
  }
}

TEST(Plan, PadsThatCutOff) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  Attrs attrs;
  attrs.sizes = {m.k(-1), m.k(2), m.k(1), m.k(-1)};
  attrs.value.kind = Number::Kind::real;
  attrs.value.real = 2.5;
  m.out(m.b.combine(Op::pad, std::vector<V>{m.op(Op::exp, {m.in({n, c})})}, attrs));
  check(m.trace, {{3, 5}, {7, 4}, {2, 2}});
}

TEST(Plan, RowValuesBeforeTheRows) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  const V x = m.in({n, c}), scale = m.op(Op::exp, {m.in({n, m.k(1)})});
  const V y = m.op(Op::mul, {x, scale});
  const V total = m.reduce(Op::sum, y, {1});
  m.out(m.op(Op::sub, {y, m.op(Op::tanh, {m.op(Op::mul, {total, scale})})}));
  m.out(total);
  check(m.trace, kPairs);
}

TEST(Plan, Writes) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  const V x = m.in({n, c}), y = m.in({n, c});
  const V before = m.op(Op::mul, x, 2.0);
  m.b.write(x, m.op(Op::add, {x, y}));
  const V after = m.op(Op::exp, {x});
  m.b.write(m.slice(y, 0, m.k(0), n), m.softmax(after, 1));
  m.b.write(x, m.full({}, 7.0));
  m.out(m.op(Op::add, {before, after}));
  m.out(m.op(Op::add, {x, y}));
  check(m.trace, kPairs);
}

TEST(Plan, WriteOfATranspose) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n, n});
  m.b.write(x, m.op(Op::add, m.permute(x, {1, 0}), 1.0));
  m.out(m.op(Op::neg, {x}));
  check(m.trace, {{0}, {1}, {5}, {13}});
}

// Without an op between: the builder copies what would be overwritten before it is read. Also through a view that starts elsewhere.
TEST(Plan, WriteOverWhatIsRead) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n, n}), y = m.in({n});
  const Dim one = m.k(1);
  m.b.write(x, m.permute(x, {1, 0}));
  m.b.write(m.slice(y, 0, one, m.b.dims().sub(n, one)), m.slice(y, 0, m.k(0), m.b.dims().sub(n, one)));
  m.b.write(x, x);
  m.out(m.op(Op::neg, {x}));
  check(m.trace, {{1}, {5}, {13}});
  EXPECT_EQ(std::count_if(m.trace.instrs.begin(), m.trace.instrs.end(), [](const Instr& i) { return i.op == Op::copy; }), 2);
}

TEST(Plan, WriteIntoAFreshValue) {
  Maker m;
  const Dim n = m.size();
  const V x = m.in({n, m.k(8)});
  const V zeros = m.full({n, m.k(8)}, 0.0);
  m.b.write(m.slice(zeros, 1, m.k(2), m.k(3)), m.op(Op::exp, {m.slice(x, 1, m.k(5), m.k(3))}));
  m.out(m.op(Op::add, {zeros, x}));
  m.out(zeros);
  check(m.trace, {{0}, {1}, {5}, {13}});
}

TEST(Plan, OutputsThatAreViewsAndInputs) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  const V x = m.in({n, c});
  const V e = m.op(Op::exp, {x});
  m.out(m.permute(e, {1, 0}));
  m.out(e);
  m.out(e);
  m.out(x);
  m.out(m.permute(x, {1, 0}));
  check(m.trace, kPairs);
}

TEST(Plan, CallsAndReusedSlots) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  V x = m.in({n, c});
  for (int i = 0; i < 4; ++i) {
    const V h = m.op(Op::exp, {m.op(Op::mul, x, 0.1)});
    const V y = m.call("aten::f", {h}, {n, c});
    x = m.op(Op::add, {m.softmax(y, 1), h});
  }
  m.out(x);
  check(m.trace, kPairs);
  const LaunchPlan plan = make_plan(m.trace, {});
  EXPECT_LE(plan.slot_count, 2u);
  EXPECT_LE(plan.kernels.size(), 4u);
}

// What the kernel makes besides must not come to lie where it writes.
TEST(Plan, AWriteThatNobodyReads) {
  Maker m;
  const Dim n = m.size(), c = m.size();
  const V t = m.call("aten::f", {m.in({n, c})}, {n, c});
  const V y = m.op(Op::neg, {t});
  m.b.write(t, m.op(Op::exp, {t}));
  m.out(m.call("aten::f", {y}, {n, c}));
  check(m.trace, kPairs);
}

TEST(Plan, RandomTraces) {
  std::mt19937 random(7);
  const char* rounds = std::getenv("ESCAPEMENT_FUZZ_ROUNDS");
  for (int round = 0; round < (rounds ? std::atoi(rounds) : 300); ++round) {
    Maker m;
    const Dim n = m.size(), c = m.size();
    std::vector<V> pool = {m.in({n, c}), m.in({n, c}, DType::f32, true), m.in({c}), m.in({n, m.k(1)}), m.in({n, c}, DType::bf16)};
    const auto pick = [&] { return pool[random() % pool.size()]; };
    const auto full_rank = [&](V v) { return m.sizes(v).size() == 2 && m.b.dims().same(m.sizes(v)[0], n) && m.b.dims().same(m.sizes(v)[1], c); };
    for (int step = 0; step < 14; ++step) {
      const V v = pick();
      switch (random() % 11) {
        case 8: if (full_rank(v)) pool.push_back(m.softmax(v, int(random() % 2))); break;
        case 9: if (full_rank(v)) pool.push_back(m.op(Op::neg, {m.permute(m.op(Op::abs, {m.permute(v, {1, 0})}), {1, 0})})); break;
        case 10: if (full_rank(v)) pool.push_back(m.op(Op::add, {v, m.arange(c, DType::i64)})); break;
        case 0: pool.push_back(m.op(Op::exp, {v})); break;
        case 1: pool.push_back(m.op(Op::mul, v, 0.3)); break;
        case 2: case 3: pool.push_back(m.op(random() % 2 ? Op::add : Op::sub, {v, pick()})); break;
        case 4: if (full_rank(v)) pool.push_back(m.reduce(random() % 2 ? Op::sum : Op::amax, v, {1})); break;
        case 5: if (full_rank(v)) pool.push_back(m.reduce(Op::sum, v, {0})); break;
        case 6: if (full_rank(v) && random() % 3 == 0) pool.push_back(m.op(Op::relu, {m.slice(m.cat({v, v}, 0), 0, n, n)})); break;
        case 7: if (full_rank(v) && random() % 3 == 0) m.b.write(pool[random() % 2], m.op(Op::cast, {v}, Maker::cast_to(DType::f32))); break;
      }
    }
    for (int i = 0; i < 3; ++i) m.out(pick());
    m.out(pool.back());
    check(m.trace, {{3, 5}, {1, 1}, {1, 7}, {4, 1}, {0, 3}});
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace escapement
