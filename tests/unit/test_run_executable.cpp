// Executable on hand-made plans: results, reuse between calls, zero sizes, born symbols, checks, splits, threads, memory.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "jit/run/call_control.h"
#include "jit/run/context_pool.h"
#include "run_support.h"

namespace escapement {
namespace {

using namespace run_test;  // the helpers of this folder's own tests

// out = a + (a + b), with a temporary in between.
struct Chain {
  PlanBuilder builder;
  ValueId a, b, t, out;
  uint32_t kernel;
  std::unique_ptr<Executable> executable;
  Slot out_bytes;

  explicit Chain(ParallelHost host = {}) {
    const Dim m = builder.symbol(), n = builder.symbol();
    a = builder.value({m, n}, Buffer::Kind::input);
    b = builder.value({m, n}, Buffer::Kind::input);
    t = builder.value({m, n}, Buffer::Kind::temporary);
    out = builder.output(builder.value({m, n}, Buffer::Kind::output));
    kernel = builder.kernel(map_nest(2, 2));
    builder.add(kernel, {a, b}, t);
    builder.add(kernel, {a, t}, out);
    executable = std::make_unique<Executable>(builder.plan, builder.code, host, 0);
    out_bytes = executable->slot(builder.plan.buffers[3].bytes);
    executable->finish(builder.plan);
  }

  std::vector<float> run(Context& context, int64_t m, int64_t n, std::vector<float>& x, std::vector<float>& y) const {
    PlainHost host(builder.plan, context, *executable);
    host.bytes[3] = out_bytes;
    context.symbols[0] = m;
    context.symbols[1] = n;
    context.bases[0] = x.data();
    context.bases[1] = y.data();
    EXPECT_EQ(executable->run(context, host).status, RunStatus::done);
    std::vector<float> result = host.outputs[3];
    result.resize(static_cast<size_t>(m * n));
    return result;
  }

  void check(Context& context, int64_t m, int64_t n, unsigned seed) const {
    std::mt19937 random(seed);
    std::vector<float> x(static_cast<size_t>(m * n)), y(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random() % 100), y[i] = static_cast<float>(random() % 100);
    const std::vector<float> result = run(context, m, n, x, y);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(result[i], x[i] + (x[i] + y[i])) << i << " of " << m << "x" << n;
  }
};

TEST(RunExecutable, RunsAChainAtAnyShape) {
  const Chain chain;
  const auto context = chain.executable->new_context();
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{3, 5}, {1, 1}, {0, 7}, {7, 0}, {101, 1}, {1, 97}, {64, 64}}) {
    chain.check(*context, m, n, static_cast<unsigned>(m * 100 + n));
  }
}

TEST(RunExecutable, PreparesOnlyWhenAShapeChanges) {
  Chain chain;
  const auto context = chain.executable->new_context();
  chain.check(*context, 3, 5, 1);
  const int before = chain.builder.plain(chain.kernel).asked[0];
  chain.check(*context, 3, 5, 2);
  EXPECT_EQ(chain.builder.plain(chain.kernel).asked[0], before);
  chain.check(*context, 4, 5, 3);
  EXPECT_GT(chain.builder.plain(chain.kernel).asked[0], before);
}

TEST(RunExecutable, ChunksOnTwoThreadsGiveTheSameResult) {
  const Chain chain(two_threads());
  const auto context = chain.executable->new_context();
  chain.check(*context, 1, 300000, 1);
  chain.check(*context, 700, 701, 2);
  chain.check(*context, 200000, 2, 3);
  EXPECT_GT(const_cast<Chain&>(chain).builder.plain(chain.kernel).runs[0], 8);
}

TEST(RunExecutable, ThreadsMayComeAndGoBetweenCalls) {
  static int count = 1;
  ParallelHost host = two_threads();
  host.threads = [] { return count; };
  const Chain chain(host);
  const auto context = chain.executable->new_context();
  for (const int threads : {1, 2, 1}) {
    count = threads;
    chain.check(*context, 700, 701, 1);
    EXPECT_EQ(context->launches[0].threads, threads);
  }
}

TEST(RunExecutable, EightThreadsAtOnce) {
  const Chain chain;
  ContextPool<Context> pool;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 200; ++i) {
        auto context = pool.take([&] { return chain.executable->new_context(); });
        chain.check(*context, 1 + (t * 7 + i) % 13, 1 + (t + i * 3) % 29, t * 1000 + i);
        pool.give(std::move(context));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RunExecutable, MemoryDoesNotGrowWithTheNumberOfShapes) {
  const Chain chain;
  const auto context = chain.executable->new_context();
  std::vector<float> x(1 << 16), y(1 << 16);
  for (int64_t i = 0; i < 10000; ++i) chain.run(*context, 1 + i % 100, 1 + i / 100 % 100 * 3, x, y);
  EXPECT_LT(context->arena.capacity(), size_t{1} << 20);
}

// sum over rows, and the same with a split.
struct RowSum {
  PlanBuilder builder;
  uint32_t kernel;
  std::unique_ptr<Executable> executable;
  Slot out_bytes;

  explicit RowSum(ParallelHost host) {
    const Dim m = builder.symbol(), n = builder.symbol(), zero = builder.constant(0), one = builder.constant(1);
    const ValueId a = builder.value({m, n}, Buffer::Kind::input);
    const ValueId out = builder.output(builder.value({m}, Buffer::Kind::output));
    kernel = builder.kernel(sum_nest(1, 1));
    KernelStep step;
    step.kernel = kernel;
    step.extents = {m, n};
    step.operands = {builder.operand(a, {n, one}), builder.operand(out, {one, zero})};
    step.writes = {out};
    builder.plan.steps.emplace_back(std::in_place_type<KernelStep>, step);
    executable = std::make_unique<Executable>(builder.plan, builder.code, host, 0);
    out_bytes = executable->slot(builder.plan.buffers[1].bytes);
    executable->finish(builder.plan);
  }

  std::vector<float> run(int64_t m, int64_t n) const {
    std::vector<float> x(static_cast<size_t>(m * n));
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& v : x) v = uniform(random);
    const auto context = executable->new_context();
    PlainHost host(builder.plan, *context, *executable);
    host.bytes[1] = out_bytes;
    context->symbols = {m, n};
    context->bases[0] = x.data();
    EXPECT_EQ(executable->run(*context, host).status, RunStatus::done);
    host.outputs[1].resize(static_cast<size_t>(m));
    return host.outputs[1];
  }
};

TEST(RunExecutable, ManyShortRowsRunInBlocks) {
  RowSum sum({});
  PlainKernel& kernel = sum.builder.plain(sum.kernel);
  const std::vector<float> expected = sum.run(1000, 16);
  EXPECT_EQ(kernel.count(Variant::fast), 1);
  kernel.across = true;
  EXPECT_EQ(sum.run(1000, 16), expected);
  EXPECT_EQ(kernel.count(Variant::block), 1);
  sum.run(10, 16), sum.run(1000, 600), sum.run(1000, 0);  // few, long, empty
  EXPECT_EQ(kernel.count(Variant::block), 1);
}

TEST(RunExecutable, TransposedOperandsRunInTiles) {   // out = a + transpose(b)
  PlanBuilder builder;
  const Dim m = builder.symbol(), n = builder.symbol(), one = builder.constant(1);
  const ValueId a = builder.value({m, n}, Buffer::Kind::input), b = builder.value({n, m}, Buffer::Kind::input);
  const ValueId out = builder.output(builder.value({m, n}, Buffer::Kind::output));
  const uint32_t number = builder.kernel(map_nest(2, 2));
  KernelStep step;
  step.kernel = number;
  step.extents = {m, n};
  step.operands = {builder.operand(a, {n, one}), builder.operand(b, {one, m}), builder.operand(out, {n, one})};
  step.writes = {out};
  builder.plan.steps.emplace_back(std::in_place_type<KernelStep>, step);
  Executable executable(builder.plan, builder.code, {}, 0);
  const Slot out_bytes = executable.slot(builder.plan.buffers[2].bytes);
  executable.finish(builder.plan);
  builder.plain(number).across = true;
  const auto context = executable.new_context();
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{200, 300}, {3, 5}, {20000, 3}, {1, 20000}}) {
    std::vector<float> x(static_cast<size_t>(rows * columns), 1), y(x.size());
    std::iota(y.begin(), y.end(), 0.0f);
    PlainHost host(builder.plan, *context, executable);
    host.bytes[2] = out_bytes;
    context->symbols = {rows, columns};
    context->bases[0] = x.data();
    context->bases[1] = y.data();
    EXPECT_EQ(executable.run(*context, host).status, RunStatus::done);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        ASSERT_EQ(host.outputs[2][static_cast<size_t>(i * columns + j)], 1 + y[static_cast<size_t>(j * rows + i)]);
  }
  EXPECT_EQ(builder.plain(number).count(Variant::tile), 1);
  EXPECT_EQ(builder.plain(number).count(Variant::general), 2);   // small, narrow; a single line is contiguous
}

TEST(RunExecutable, ASplitReductionHasTheSameBits) {
  const RowSum serial({}), parallel(two_threads());
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1000003}, {1, 400000}, {3, 300001}, {1, 5}, {2, 0}}) {
    EXPECT_EQ(serial.run(m, n), parallel.run(m, n)) << m << "x" << n;
  }
  const auto& runs = const_cast<RowSum&>(parallel).builder.plain(parallel.kernel).runs;
  EXPECT_GT(runs[static_cast<size_t>(Variant::partial)], 1);
  EXPECT_EQ(runs[static_cast<size_t>(Variant::finish)], 2);
}

TEST(RunExecutable, AnEmptyReductionWritesItsIdentity) {
  const RowSum sum({});
  EXPECT_EQ(sum.run(3, 0), (std::vector<float>{0, 0, 0}));
  EXPECT_TRUE(sum.run(0, 5).empty());
}

// A call brings a symbol to life; a kernel works on that many elements; a check follows.
struct Born {
  PlanBuilder builder;
  std::unique_ptr<Executable> executable;
  Slot out_bytes = 0;
  std::vector<float> data;
  std::function<void()> while_called = [] {};

  explicit Born(bool effect_before_check) {
    Source source;
    source.kind = Source::Kind::value_size;
    source.value = ValueId(1);
    const Dim s = builder.symbol(), u = builder.symbol(SymbolKind::born, source);
    builder.value({s}, Buffer::Kind::input);
    builder.value({u}, Buffer::Kind::call);
    const ValueId temporary = builder.value({u}, Buffer::Kind::temporary);
    const ValueId out = builder.output(builder.value({u}, Buffer::Kind::output));
    Instr call;
    call.op = Op::call;
    call.operands = {ValueId(0)};
    call.results = {ValueId(1)};
    call.effect = effect_before_check;
    builder.plan.trace.instrs.push_back(call);
    builder.plan.trace.guards.push_back({Guard::Kind::less, u, builder.constant(50), InstrId(0), "test", {}});
    const uint32_t kernel = builder.kernel(map_nest(1, 1));
    CallStep call_step;
    call_step.instr = InstrId(0);
    builder.plan.steps.emplace_back(std::in_place_type<CallStep>, call_step);
    builder.plan.steps.emplace_back(std::in_place_type<CheckStep>);
    builder.add(kernel, {ValueId(1)}, temporary);
    builder.add(kernel, {temporary}, out);
    executable = std::make_unique<Executable>(builder.plan, builder.code, ParallelHost{}, 0);
    out_bytes = executable->slot(builder.plan.buffers[3].bytes);
    executable->finish(builder.plan);
  }

  RunStatus run(Context& context, int64_t born, std::vector<float>& result) {
    PlainHost host(builder.plan, context, *executable);
    host.bytes[3] = out_bytes;
    host.on_call = [&](uint32_t) {
      while_called();
      data.assign(static_cast<size_t>(born), 0);
      std::iota(data.begin(), data.end(), 1.0f);
      context.bases[1] = data.data();
      return true;
    };
    host.on_read = [&](const Source&) { return born; };
    context.symbols[0] = 9;
    const RunStatus status = executable->run(context, host).status;
    result = host.outputs[3];
    result.resize(status == RunStatus::done ? static_cast<size_t>(born) : 0);
    return status;
  }
};

TEST(RunExecutable, BornSizesAreFreshAtEveryCall) {
  Born plan(false);
  const auto context = plan.executable->new_context();
  std::vector<float> result;
  for (const int64_t born : {3, 40, 0, 3, 3, 49, 1}) {
    EXPECT_EQ(plan.run(*context, born, result), RunStatus::done);
    EXPECT_EQ(result, plan.data);
  }
}

TEST(RunExecutable, ACallIsStoppedBetweenStepsAsLongAsNothingHasHappened) {
  std::atomic<bool> cancelled{false};
  CallControl control;
  control.cancelled = &cancelled;
  std::vector<float> result;
  for (const bool effect : {false, true}) {
    Born plan(effect);
    const auto context = plan.executable->new_context();
    const ControlScope scope(&control);
    cancelled = true;
    EXPECT_THROW(plan.run(*context, 3, result), CallStopped);  // before the first step
    EXPECT_TRUE(plan.data.empty());
    cancelled = false;
    plan.while_called = [&] { cancelled = true; };
    if (effect) EXPECT_EQ(plan.run(*context, 3, result), RunStatus::done);
    else EXPECT_THROW(plan.run(*context, 3, result), CallStopped);
    plan.while_called = [] {};
    cancelled = false;
    EXPECT_EQ(plan.run(*context, 40, result), RunStatus::done);
    EXPECT_EQ(result, plan.data);
    EXPECT_EQ(current_control(), &control);
  }
  control.deadline = CallControl::Clock::now() - std::chrono::seconds(1);
  const ControlScope scope(&control);
  Born plan(false);
  try {
    plan.run(*plan.executable->new_context(), 3, result);
    FAIL();
  } catch (const CallStopped& stopped) {
    EXPECT_EQ(stopped.why, CallStopped::Why::deadline);
  }
}

// What an effect's step calls must not be stopped either: its caller has begun to change something.
TEST(RunExecutable, NothingStopsWhatIsCalledAfterAnEffect) {
  CallControl control;
  const ControlScope scope(&control);
  std::vector<float> result;
  for (const bool effect : {false, true}) {
    Born plan(effect);
    const CallControl* seen = nullptr;
    plan.while_called = [&] { seen = current_control(); };
    plan.run(*plan.executable->new_context(), 3, result);
    EXPECT_EQ(seen, effect ? nullptr : &control);
    EXPECT_EQ(current_control(), &control);
  }
}

TEST(RunExecutable, MeasuresWhatACallNeeds) {
  const Chain chain;
  for (const int64_t m : {0, 1, 7}) {
    const Executable::Memory memory = chain.executable->measure(std::vector<int64_t>{m, 100});
    EXPECT_TRUE(memory.complete);
    EXPECT_EQ(memory.arena_bytes, (m * 400 + 63) / 64 * 64);
    EXPECT_EQ(memory.table[chain.out_bytes], m * 400);
  }
  EXPECT_FALSE(Born(false).executable->measure(std::vector<int64_t>{9, 0}).complete);
}

TEST(RunExecutable, AFailingCheckSaysWhetherAnythingHappened) {
  std::vector<float> result;
  Born clean(false), dirty(true);
  EXPECT_EQ(clean.run(*clean.executable->new_context(), 50, result), RunStatus::check_failed_clean);
  EXPECT_EQ(dirty.run(*dirty.executable->new_context(), 50, result), RunStatus::check_failed_dirty);
}

TEST(RunExecutable, AnOverflowingSizeDoesNotFitAndTheContextStaysUsable) {
  const Chain chain;
  const auto context = chain.executable->new_context();
  PlainHost host(chain.builder.plan, *context, *chain.executable);
  context->symbols[0] = INT64_MAX / 2;
  context->symbols[1] = 3;
  EXPECT_EQ(chain.executable->run(*context, host).status, RunStatus::check_failed_clean);
  chain.check(*context, 3, 5, 1);
}

}  // namespace
}  // namespace escapement
