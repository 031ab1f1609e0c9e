// Rows and columns as machine code: every reduction on every type, the canonical order on awkward sizes, several stages, strides.
#include "exec/nest_harness.h"
#include "jit/run/row_block.h"
#include "trace/scalar_math.h"

namespace escapement::testing {
namespace {

constexpr int64_t kSizes[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 1023, 1024, 1025, 4095, 4096, 4097, 9000};
constexpr int64_t kFewSizes[] = {1, 5, 33, 100, 4097};
constexpr Op kReductions[] = {Op::sum, Op::prod, Op::amax, Op::amin, Op::argmax, Op::argmin, Op::any, Op::all};

bool reduces(Op op, DType type) {
  switch (op) {
    case Op::sum: case Op::prod: return type == DType::f32 || type == DType::f64 || type == DType::i64;
    case Op::any: case Op::all: return type == DType::b8;
    default: return true;
  }
}

DType result_type(Op op, DType type) { return op == Op::argmax || op == Op::argmin ? DType::i64 : compute_type(type); }

Stage reducing(std::initializer_list<Op> ops, DType type) {
  Stage stage;
  stage.inputs = {load_of(0)};
  Reg value = stage.body.input(0, compute_type(type));
  uint32_t row = 0;
  for (Op op : ops) stage.reductions.push_back({op, value, row++});
  return stage;
}

Stage storing_row(uint32_t row_value, DType type, uint32_t param) {
  Stage stage;
  stage.kind = Stage::Kind::each_row;
  stage.inputs = {row_input(row_value)};
  stage.stores = {{param, stage.body.input(0, type)}};
  return stage;
}

// params: x, result
LoopNest reduction(Schedule schedule, Op op, DType type, std::vector<bool> reduced) {
  LoopNest nest;
  nest.schedule = schedule;
  for (bool r : reduced) nest.axes.push_back({r, false});
  DType result = result_type(op, type);
  nest.params = {{type, false, InnerStride::unit}, {result, true, schedule == Schedule::row ? InnerStride::zero : InnerStride::unit}};
  nest.row_values = {result};
  nest.stages = {reducing({op}, type), storing_row(0, result, 1)};
  return nest;
}

Launch launch_of(const LoopNest& nest, std::vector<int64_t> extents, Values values) {
  Launch launch{extents, {}, {}};
  std::vector<bool> parallel;
  for (const LoopAxis& a : nest.axes) parallel.push_back(!a.reduced);
  launch.operands.push_back({row_major(extents), 0, 0, values});
  launch.operands.push_back({row_major(extents, parallel), 0, 0, Values::tame});
  return launch;
}

constexpr DType kStorage[] = {DType::b8, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};

TEST(CodegenRow, EveryReductionOnEveryType) {
  for (DType type : kStorage)
    for (Op op : kReductions) {
      if (!reduces(op, compute_type(type))) continue;
      SCOPED_TRACE("op " + std::to_string(int(op)) + " " + std::string(name_of(type)));
      LoopNest nest = reduction(Schedule::row, op, type, {false, true});
      for (Variant variant : {Variant::fast, Variant::general})
        for (int64_t n : kFewSizes)
          for (Values values : {Values::tame, Values::wild}) expect_equal(nest, variant, launch_of(nest, {3, n}, values));
    }
}

TEST(CodegenRow, CanonicalOrderOnEverySize) {
  for (Op op : {Op::sum, Op::argmax})
    for (DType type : {DType::f32, DType::bf16, DType::f64}) {
      LoopNest nest = reduction(Schedule::row, op, type, {false, true});
      for (Variant variant : {Variant::fast, Variant::general})
        for (int64_t n : kSizes) expect_equal(nest, variant, launch_of(nest, {2, n}, Values::tame), {2, 1});
    }
}

TEST(CodegenRow, SplitGivesTheSameBits) {
  for (DType type : kStorage)
    for (Op op : kReductions) {
      if (!reduces(op, compute_type(type))) continue;
      SCOPED_TRACE("op " + std::to_string(int(op)) + " " + std::string(name_of(type)));
      LoopNest nest = reduction(Schedule::row, op, type, {false, true});
      ASSERT_TRUE(can_split(nest));
      for (int64_t n : {int64_t{5}, int64_t{4096}, int64_t{20000}}) expect_equal_split(nest, launch_of(nest, {3, n}, Values::tame));
    }
}

TEST(CodegenRow, SeveralReducedAxesWithAnyStrides) {
  LoopNest nest = reduction(Schedule::row, Op::sum, DType::f32, {false, false, true, true, true});
  Launch launch = launch_of(nest, {2, 3, 5, 7, 9}, Values::tame);
  expect_equal(nest, Variant::general, launch, {6, 1});
  launch.operands[0].strides = {1, 2, 6 * 9, 6 * 9 * 5, 6};
  expect_equal(nest, Variant::general, launch, {4, 1});
  launch = launch_of(nest, {2, 3, 1, 1, 315}, Values::tame);
  expect_equal(nest, Variant::fast, launch);
}

TEST(CodegenRow, EmptyRowsGiveTheIdentity) {
  for (Variant variant : {Variant::fast, Variant::general}) {
    LoopNest nest = reduction(Schedule::row, Op::prod, DType::f32, {false, true});
    expect_equal(nest, variant, launch_of(nest, {5, 0}, Values::tame));
    expect_equal(nest, variant, launch_of(nest, {0, 5}, Values::tame));
  }
}

// Rows of many stretches whose result may be known after any of them, and after none.
TEST(CodegenRow, TruthValuesThatAreKnownEarly) {
  for (Op op : {Op::any, Op::all})
    for (bool stores : {false, true}) {
      LoopNest nest = reduction(Schedule::row, op, DType::b8, {false, true, true});
      if (stores) {   // what is stored beside it must be stored to the end
        nest.params.push_back({DType::b8, true, InnerStride::unit});
        nest.stages[0].stores = {{2, 0}};
      }
      Stage& s = nest.stages[0];
      const Reg value = s.reductions[0].value;
      if (op == Op::all) s.reductions[0].value = s.body.emit(ScalarOp::bit_or, DType::b8, value, s.body.constant_int(1, DType::b8));
      for (int64_t n : {1, 5, 1024, 1025, 3000, 5000})
        for (Values values : {Values::tame, Values::wild}) {
          Launch launch = launch_of(nest, {6, 1, n}, values);
          if (stores) launch.operands.push_back({row_major({6, 1, n})});
          expect_equal(nest, Variant::fast, launch, {2, 1});
          expect_equal(nest, Variant::general, launch);
          expect_equal_split(nest, launch);
        }
    }
}

TEST(CodegenBlock, EveryReductionOnEveryType) {
  for (DType type : kStorage)
    for (Op op : kReductions) {
      if (!reduces(op, compute_type(type))) continue;
      SCOPED_TRACE("op " + std::to_string(int(op)) + " " + std::string(name_of(type)));
      LoopNest nest = reduction(Schedule::row, op, type, {false, true});
      ASSERT_TRUE(has_block(nest));
      for (int64_t n : {1, 2, 3, 5, 8, 16, 17, 32})
        for (int64_t rows : {1, 7, 64, 75})
          for (Values values : {Values::tame, Values::wild}) expect_equal(nest, Variant::block, launch_of(nest, {rows, n}, values));
    }
}

TEST(CodegenBlock, EveryLengthAndNumberOfRows) {
  for (Op op : {Op::sum, Op::argmin})
    for (DType type : {DType::f32, DType::bf16, DType::f64, DType::u8}) {
      if (!reduces(op, compute_type(type))) continue;
      LoopNest nest = reduction(Schedule::row, op, type, {false, true});
      for (int64_t rows : {1, 7, 8, 9, 31, 32, 33, 64, 1000})
        for (int64_t n = 1; n <= kBlockLength; ++n) expect_equal(nest, Variant::block, launch_of(nest, {rows, n}, Values::tame), {rows < 64 ? 1 : 3, 1});
    }
}

TEST(CodegenBlock, LinesOfRowsAndElementsAnywhere) {
  for (DType type : {DType::f32, DType::bf16, DType::f64, DType::u8})
    for (Schedule schedule : {Schedule::row, Schedule::column}) {
      const bool row = schedule == Schedule::row;
      const Op op = type == DType::u8 ? Op::amax : Op::sum;
      LoopNest nest = reduction(schedule, op, type, row ? std::vector<bool>{false, false, true} : std::vector<bool>{false, true, false});
      for (int64_t lines : {1, 3, 5})
        for (int64_t rows : {1, 31, 32, 33, 57, 64, 75})
          for (int64_t n : {1, 3, 20, 48}) {
            const size_t r = row ? 1 : 2, e = row ? 2 : 1;
            std::vector<int64_t> extents{lines, 0, 0};
            extents[r] = rows, extents[e] = n;
            Launch launch = launch_of(nest, extents, Values::tame);
            const std::vector<int64_t> apart[] = {{n * rows, n, 1}, {n * rows, 1, rows}, {1, lines, lines * rows}, {2 * n * rows + 5, 2 * n, 2}, {7, 0, 3}};
            for (const std::vector<int64_t>& strides : apart) {
              launch.operands[0].strides[0] = strides[0], launch.operands[0].strides[r] = strides[1], launch.operands[0].strides[e] = strides[2];
              expect_equal(nest, Variant::block, launch, {lines * (row ? rows : 1) > 4 ? 3 : 1, !row && rows > 31 ? 2 : 1});
            }
            launch.operands[1].strides[0] = 1, launch.operands[1].strides[r] = lines;
            expect_equal(nest, Variant::block, launch);
          }
    }
}

TEST(CodegenBlock, RowsAnywhere) {
  LoopNest nest = reduction(Schedule::row, Op::sum, DType::f32, {false, false, true, true});
  for (int64_t n : {1, 3, 7, 20})
    for (int64_t stride : {n + 3, n, int64_t{1}, int64_t{0}}) {
      Launch launch = launch_of(nest, {1, 70, 1, n}, Values::tame);
      launch.operands[0].strides[1] = stride;
      expect_equal(nest, Variant::block, launch);
      launch.operands[1].strides[1] = 3;
      expect_equal(nest, Variant::block, launch);
    }
}

// --- several stages

// y = (x - mean) * rstd * w + b, and the mean as a second result. params: x, w, b, y, mean
LoopNest layer_norm(DType type, Schedule schedule) {
  LoopNest nest;
  nest.schedule = schedule;
  if (schedule == Schedule::row) nest.axes = {{false, false}, {true, false}};
  else nest.axes = {{false, false}, {true, false}, {false, false}};
  InnerStride across = schedule == Schedule::row ? InnerStride::unit : InnerStride::zero;
  InnerStride along = schedule == Schedule::row ? InnerStride::zero : InnerStride::unit;
  nest.params = {{type, false, InnerStride::unit}, {type, false, across}, {type, false, across}, {type, true, InnerStride::unit}, {DType::f32, true, along}};
  nest.scalars = {DType::f32, DType::f32};  // 1/n, eps
  nest.row_values = {DType::f32, DType::f32, DType::f32, DType::f32};
  nest.stages.resize(5);
  const DType f = DType::f32;
  nest.stages[0] = reducing({Op::sum}, type);
  {
    Stage& s = nest.stages[1];
    s.kind = Stage::Kind::each_row;
    s.inputs = {row_input(0)};
    Reg mean = s.body.emit(ScalarOp::mul, f, s.body.input(0, f), s.body.param(0, f));
    s.keeps = {{mean, 1}};
    s.stores = {{4, mean}};
  }
  {
    Stage& s = nest.stages[2];
    s.inputs = {load_of(0), row_input(1)};
    Reg d = s.body.emit(ScalarOp::sub, f, s.body.input(0, f), s.body.input(1, f));
    s.reductions = {{Op::sum, s.body.emit(ScalarOp::mul, f, d, d), 2}};
  }
  {
    Stage& s = nest.stages[3];
    s.kind = Stage::Kind::each_row;
    s.inputs = {row_input(2)};
    Reg var = s.body.emit(ScalarOp::mul, f, s.body.input(0, f), s.body.param(0, f));
    Reg root = s.body.emit(ScalarOp::sqrt, f, s.body.emit(ScalarOp::add, f, var, s.body.param(1, f)));
    s.keeps = {{s.body.emit(ScalarOp::div, f, s.body.constant(1.0, f), root), 3}};
  }
  {
    Stage& s = nest.stages[4];
    s.inputs = {load_of(0), row_input(1), row_input(3), load_of(1), load_of(2)};
    Reg d = s.body.emit(ScalarOp::sub, f, s.body.input(0, f), s.body.input(1, f));
    Reg y = s.body.emit(ScalarOp::mul, f, s.body.emit(ScalarOp::mul, f, d, s.body.input(2, f)), s.body.input(3, f));
    s.stores = {{3, s.body.emit(ScalarOp::add, f, y, s.body.input(4, f))}};
  }
  return nest;
}

Launch layer_norm_launch(const LoopNest& nest, std::vector<int64_t> extents, int64_t n) {
  std::vector<bool> parallel, reduced;
  for (const LoopAxis& a : nest.axes) parallel.push_back(!a.reduced), reduced.push_back(a.reduced);
  Launch launch{extents, {{row_major(extents)}, {row_major(extents, reduced)}, {row_major(extents, reduced)}, {row_major(extents)}, {row_major(extents, parallel)}}, {}};
  launch.scalars = {escapement::to_bits(1.0 / static_cast<double>(n), DType::f32), escapement::to_bits(1e-5, DType::f32)};
  return launch;
}

TEST(CodegenRow, LayerNorm) {
  for (DType type : {DType::f32, DType::bf16, DType::f16}) {
    LoopNest nest = layer_norm(type, Schedule::row);
    for (Variant variant : {Variant::fast, Variant::general})
      for (int64_t n : kSizes)
        if (n > 0) expect_equal(nest, variant, layer_norm_launch(nest, {3, n}, n), {2, 1});
    expect_equal_split(nest, layer_norm_launch(nest, {2, 9001}, 9001));
  }
}

// A group norm: weights that repeat along the innermost axis. Operands as rows want them, in runs with gaps between, and with no element beside another.
TEST(CodegenRow, WeightsThatRepeatAlongTheInnermostAxis) {
  for (DType type : {DType::f32, DType::bf16, DType::f16}) {
    LoopNest nest = layer_norm(type, Schedule::row);
    nest.axes = {{false, false}, {true, false}, {true, false}};
    nest.params[1].inner = nest.params[2].inner = InnerStride::zero;
    for (int64_t channels : {1, 2, 5, 40})
      for (int64_t inner : {1, 3, 15, 16, 17, 49, 130}) {
        Launch launch = layer_norm_launch(nest, {3, channels, inner}, channels * inner);
        launch.operands[1].strides = launch.operands[2].strides = {0, 1, 0};
        expect_equal(nest, Variant::general, launch, {2, 1});
        launch.operands[0].strides = {channels * (inner + 5), inner + 5, 1};
        expect_equal(nest, Variant::general, launch, {2, 1});
        launch.operands[3].strides = {channels * inner, 1, channels};
        expect_equal(nest, Variant::general, launch, {2, 1});
      }
  }
}

// Reductions of what repeats along one of the reduced axes: vectors of one run, and chunks that end in the next.
TEST(CodegenRow, ReducesWhatRepeatsAlongAnAxis) {
  for (DType type : {DType::f32, DType::f64, DType::bf16, DType::i64}) {
    for (const bool inner_repeats : {true, false}) {
      LoopNest nest = reduction(Schedule::row, Op::amax, compute_type(type), {false, true, true});
      nest.params[0].dtype = type;
      nest.params.push_back({type, false, inner_repeats ? InnerStride::zero : InnerStride::unit});
      Stage& s = nest.stages[0];
      s.inputs.push_back(load_of(2));
      s.reductions[0].value = s.body.emit(ScalarOp::mul, compute_type(type), s.body.input(0, compute_type(type)), s.body.input(1, compute_type(type)));
      nest.row_values.push_back(DType::i64);
      nest.stages[0].reductions.push_back({Op::argmax, s.reductions[0].value, 1});
      for (int64_t outer : {1, 2, 5, 40})
        for (int64_t inner : {1, 7, 16, 17, 49, 64, 130}) {
          Launch launch = launch_of(nest, {3, outer, inner}, Values::tame);
          launch.operands.push_back({inner_repeats ? std::vector<int64_t>{0, 1, 0} : std::vector<int64_t>{inner, 0, 1}, 0, 0, Values::tame});
          expect_equal(nest, Variant::general, launch, {2, 1});
          launch.operands[0].strides = {outer * (inner + 5), inner + 5, 1};
          expect_equal(nest, Variant::general, launch, {2, 1});
        }
    }
  }
}

// Stretches that cross from run to run, which begin and end anywhere in the 32 lanes; what is stored on the way goes to its own places only.
TEST(CodegenRow, StretchesOfSeveralRuns) {
  for (DType type : kStorage)
    for (Op op : kReductions) {
      if (!reduces(op, compute_type(type))) continue;
      SCOPED_TRACE("op " + std::to_string(int(op)) + " " + std::string(name_of(type)));
      for (const bool stores : {false, true}) {
        LoopNest nest = reduction(Schedule::row, op, type, {false, true, true});
        if (stores) nest.params.push_back({type, true, InnerStride::unit}), nest.stages[0].stores = {{2, nest.stages[0].reductions[0].value}};
        for (const auto& [runs, elements] : {std::pair{40, 32}, {3, 50}, {70, 49}, {5, 784}, {2, 1027}}) {
          Launch launch = launch_of(nest, {3, runs, elements}, elements == 49 ? Values::wild : Values::tame);
          launch.operands[0].strides = {runs * (elements + 3), elements + 3, 1};
          if (stores) launch.operands.push_back({{runs * (elements + 1), elements + 1, 1}});
          expect_equal(nest, Variant::general, launch, {2, 1});
        }
      }
    }
}

TEST(CodegenBlock, LayerNorm) {
  for (DType type : {DType::f32, DType::bf16, DType::f16}) {
    LoopNest nest = layer_norm(type, Schedule::row);
    for (int64_t rows : {1, 9, 64, 1000})
      for (int64_t n : {1, 2, 3, 4, 7, 8, 9, 16, 31, 32})
        expect_equal(nest, Variant::block, layer_norm_launch(nest, {rows, n}, n), {2, 1});
  }
}

// x -= its mean, through one parameter.
TEST(CodegenBlock, InPlace) {
  LoopNest nest = layer_norm(DType::f32, Schedule::row);
  nest.params[0].written = true;
  nest.stages[4].stores[0].param = 0;
  nest.stages[1].stores.clear();
  nest.params.resize(3);
  for (int64_t n : {1, 3, 8, 19}) {
    Launch launch = layer_norm_launch(nest, {75, n}, n);
    launch.operands.resize(3);
    expect_equal(nest, Variant::block, launch);
  }
}

// A result in the memory of an operand that nobody needs any more: no row may be done twice.
TEST(CodegenBlock, ResultOverItsOperand) {
  for (Schedule schedule : {Schedule::row, Schedule::column}) {
    LoopNest nest = layer_norm(DType::f32, schedule);
    for (int64_t rows : {1, 31, 32, 33, 57, 75})
      for (int64_t n : {1, 3, 8, 19, 48}) {
        const bool row = schedule == Schedule::row;
        Launch launch = layer_norm_launch(nest, row ? std::vector<int64_t>{rows, n} : std::vector<int64_t>{3, n, rows}, n);
        launch.operands[3].over = 0;
        expect_equal(nest, Variant::block, launch, {row && rows > 40 ? 2 : 1, 1});
      }
  }
}

TEST(CodegenRow, ReducedIndexIsAnInput) {
  LoopNest nest = reduction(Schedule::row, Op::sum, DType::i64, {false, true, true});
  nest.axes = {{false, true}, {true, true}, {true, true}};
  Stage& s = nest.stages[0];
  s = Stage{};
  s.inputs = {load_of(0), index_of(1), index_of(2), index_of(0)};
  auto times = [&](Reg x, int64_t k) { return s.body.emit(ScalarOp::mul, DType::i64, x, s.body.constant_int(k, DType::i64)); };
  auto plus = [&](Reg x, Reg y) { return s.body.emit(ScalarOp::add, DType::i64, x, y); };
  Reg sum = plus(s.body.input(0, DType::i64), times(s.body.input(1, DType::i64), 1000));
  sum = plus(sum, plus(times(s.body.input(2, DType::i64), 7), times(s.body.input(3, DType::i64), 100000)));
  s.reductions = {{Op::sum, s.body.emit(ScalarOp::mul, DType::i64, sum, sum), 0}};
  expect_equal(nest, Variant::general, launch_of(nest, {3, 5, 11}, Values::tame));
  expect_equal(nest, Variant::fast, launch_of(nest, {3, 1, 45}, Values::tame));
  expect_equal(nest, Variant::block, launch_of(nest, {75, 1, 29}, Values::tame));
}

// What is kept for a later stage may be the same all along the row, and of no use to anything but that.
TEST(CodegenRow, KeptValueOfAWholeRow) {
  const DType f = DType::f32;
  LoopNest nest = reduction(Schedule::row, Op::sum, f, {false, true});
  nest.params[0].inner = InnerStride::zero;
  nest.params.push_back({f, true, InnerStride::unit});
  const auto computed = [](Stage& stage) {
    stage.inputs = {load_of(0)};
    return scalar::tanh(scalar::Expr{&stage.body, stage.body.input(0, DType::f32)}).reg;
  };
  Stage first, later;
  first.reductions = {{Op::sum, first.body.emit(ScalarOp::neg, f, computed(first)), 0}};
  later.stores = {{2, computed(later)}};
  nest.stages = {first, later, nest.stages[1]};
  for (const Variant variant : {Variant::fast, Variant::general, Variant::block})
    for (int64_t n : {1, 7, 40})
      expect_equal(nest, variant, {{5, n}, {{{1, 0}}, {{1, 0}}, {row_major({5, n})}}, {}});
}

TEST(CodegenRow, StoreBesideReduction) {   // y = 2x and its sum in one pass
  LoopNest nest = reduction(Schedule::row, Op::sum, DType::f32, {false, true});
  nest.params.push_back({DType::f32, true, InnerStride::unit});
  Stage& s = nest.stages[0];
  Reg twice = s.body.emit(ScalarOp::add, DType::f32, 0, 0);
  s.stores = {{2, twice}};
  s.reductions = {{Op::sum, twice, 0}};
  for (Variant variant : {Variant::fast, Variant::general})
    for (int64_t n : kSizes) {
      Launch launch = launch_of(nest, {2, n}, Values::tame);
      launch.operands.push_back({row_major({2, n})});
      expect_equal(nest, variant, launch);
      if (n > 0 && n <= kBlockLength) expect_equal(nest, Variant::block, launch);
    }
}

// A body too large for accumulators in registers, with three reductions.
TEST(CodegenRow, LargeBodyAndSeveralReductions) {
  for (Schedule schedule : {Schedule::row, Schedule::column}) {
    LoopNest nest = reduction(schedule, Op::sum, DType::f32, schedule == Schedule::row ? std::vector<bool>{false, true} : std::vector<bool>{true, false});
    Stage& s = nest.stages[0];
    Reg x = s.body.input(0, DType::f32), y = x;
    for (int i = 0; i < 20; ++i) y = s.body.emit(i % 2 ? ScalarOp::mul : ScalarOp::sub, DType::f32, y, s.body.constant(0.3 + i, DType::f32));
    for (int i = 0; i < 20; ++i) y = s.body.emit(ScalarOp::min, DType::f32, s.body.emit(ScalarOp::add, DType::f32, y, x), s.body.constant(100.0, DType::f32));
    s.reductions = {{Op::sum, y, 0}, {Op::amax, y, 1}, {Op::argmin, y, 2}};
    nest.row_values = {DType::f32, DType::f32, DType::i64};
    nest.stages.push_back(storing_row(1, DType::f32, 2));
    nest.stages.push_back(storing_row(2, DType::i64, 3));
    nest.params.push_back({DType::f32, true, nest.params[1].inner});
    nest.params.push_back({DType::i64, true, nest.params[1].inner});
    for (Variant variant : {Variant::fast, Variant::general})
      for (int64_t n : kFewSizes) {
        Launch launch = launch_of(nest, schedule == Schedule::row ? std::vector<int64_t>{3, n} : std::vector<int64_t>{n, 3}, Values::tame);
        launch.operands.push_back(launch.operands[1]);
        launch.operands.push_back(launch.operands[1]);
        expect_equal(nest, variant, launch);
        if (schedule == Schedule::row && n <= kBlockLength) expect_equal(nest, Variant::block, launch);
      }
  }
}

// out[i] = sum over j of table[position[i, j], j]
TEST(CodegenRow, GatherInsideARow) {
  LoopNest nest = reduction(Schedule::row, Op::sum, DType::f32, {false, true});
  nest.params = {{DType::i64, false, InnerStride::unit}, {DType::f32, true, InnerStride::zero}, {DType::f32, false, InnerStride::unit}};
  nest.scalars = {DType::i64};
  Stage& s = nest.stages[0];
  s = Stage{};
  s.inputs = {load_of(0), {.kind = LoopInput::Kind::gather, .number = 2, .position = 0, .bound = 0, .wrap = false}};
  s.body.input(0, DType::i64);
  s.reductions = {{Op::sum, s.body.input(1, DType::f32), 0}};
  for (Variant variant : {Variant::fast, Variant::general})
    for (int64_t n : kFewSizes)
      for (int64_t bound : {7, 4}) {
        Launch launch = launch_of(nest, {3, n}, Values::tame);
        launch.operands.push_back({{0, 1}, n, bound, Values::tame});
        launch.scalars = {static_cast<uint64_t>(bound)};
        expect_equal(nest, variant, launch);
      }
}

// --- columns

// One column for each point around it, walked as a row: what its stages share along the columns is the column's own.
TEST(CodegenColumn, AloneItIsARow) {
  for (DType type : {DType::f32, DType::bf16, DType::f64}) {
    LoopNest nest = layer_norm(type == DType::f64 ? DType::f32 : type, Schedule::column);
    ASSERT_TRUE(has_alone(nest));
    for (int64_t n : kSizes) {
      if (n > 0) expect_equal(nest, Variant::alone, layer_norm_launch(nest, {3, n, 1}, n), {2, 1});
    }
    for (Op op : kReductions) {   // of two walks: a reduction, and a copy of the elements
      if (!reduces(op, compute_type(type))) continue;
      LoopNest two = reduction(Schedule::column, op, type, {false, true, false});
      two.params.push_back({type, true, InnerStride::unit});
      Stage second;
      second.inputs = {load_of(0)};
      second.stores = {{2, second.body.input(0, compute_type(type))}};
      two.stages.push_back(second);
      ASSERT_TRUE(has_alone(two));
      for (int64_t n : kFewSizes) {
        Launch launch = launch_of(two, {4, n, 1}, n == 33 ? Values::wild : Values::tame);
        launch.operands.push_back({row_major({4, n, 1})});
        expect_equal(two, Variant::alone, launch, {2, 1});
      }
    }
  }
  EXPECT_FALSE(has_alone(reduction(Schedule::column, Op::sum, DType::f32, {true, false})));
  EXPECT_FALSE(has_alone(reduction(Schedule::row, Op::sum, DType::f32, {false, true})));
}

TEST(CodegenColumn, EveryReductionOnEveryType) {
  for (DType type : kStorage)
    for (Op op : kReductions) {
      if (!reduces(op, compute_type(type))) continue;
      SCOPED_TRACE("op " + std::to_string(int(op)) + " " + std::string(name_of(type)));
      LoopNest nest = reduction(Schedule::column, op, type, {false, true, false});
      for (Variant variant : {Variant::fast, Variant::general})
        for (int64_t n : kFewSizes)
          for (Values values : {Values::tame, Values::wild}) expect_equal(nest, variant, launch_of(nest, {2, n, 21}, values));
    }
}

TEST(CodegenColumn, CanonicalOrderOnEverySize) {
  for (Op op : {Op::sum, Op::argmax}) {
    LoopNest nest = reduction(Schedule::column, op, DType::f32, {true, false});
    for (Variant variant : {Variant::fast, Variant::general})
      for (int64_t n : kSizes)
        for (int64_t width : {1, 16, 19}) expect_equal(nest, variant, launch_of(nest, {n, width}, Values::tame), {1, 2});
  }
  LoopNest nest = reduction(Schedule::column, Op::sum, DType::bf16, {true, false});
  for (int64_t width : kSizes) expect_equal(nest, Variant::fast, launch_of(nest, {3, width}, Values::tame));
}

// Few elements are done in registers, in chunks of every width.
TEST(CodegenColumn, FewElements) {
  for (DType type : {DType::f32, DType::bf16, DType::f64, DType::i64, DType::u8, DType::b8})
    for (Op op : kReductions) {
      if (!reduces(op, compute_type(type))) continue;
      LoopNest nest = reduction(Schedule::column, op, type, {true, true, false});
      for (int64_t width : {1, 19, 300})
        for (int64_t n = 0; n <= 9; ++n) expect_equal(nest, Variant::fast, launch_of(nest, {1, n, width}, n % 2 ? Values::wild : Values::tame), {1, 2});
      for (int64_t n : {1, 2, 3, 11}) expect_equal(nest, Variant::fast, launch_of(nest, {2, n, 300}, Values::wild));
    }
}

// Fewer columns than lanes, row behind row: walked as one line. With one row more apart they are not.
TEST(CodegenColumn, Lines) {
  for (DType type : {DType::f32, DType::bf16, DType::f64, DType::i64, DType::u8, DType::b8})
    for (Op op : kReductions) {
      if (!reduces(op, compute_type(type))) continue;
      LoopNest nest = reduction(Schedule::column, op, type, {false, true, true, false});
      for (int64_t width : {1, 3, 10, 19, 31, 32})
        for (int64_t n : {5, 32, 33, 100, 1025}) {
          if (n > 1000 && width > 3) continue;
          Launch launch = launch_of(nest, {n < 1000 ? 2 : 1, 1, n, width}, n % 2 ? Values::wild : Values::tame);
          expect_equal(nest, Variant::fast, launch);
          if (width != 10) continue;
          expect_equal(nest, Variant::fast, launch, {1, 2});
          launch.operands[0].strides = {n * (width + 1), 0, width + 1, 1};
          expect_equal(nest, Variant::fast, launch);
        }
    }
}

TEST(CodegenColumn, LayerNorm) {
  for (DType type : {DType::f32, DType::bf16, DType::f16}) {
    LoopNest nest = layer_norm(type, Schedule::column);
    for (Variant variant : {Variant::fast, Variant::general})
      for (int64_t n : kFewSizes) expect_equal(nest, variant, layer_norm_launch(nest, {3, n, 37}, n), {2, 3});
  }
}

TEST(CodegenColumn, SeveralReducedAxesWithAnyStrides) {
  LoopNest nest = reduction(Schedule::column, Op::sum, DType::f32, {false, true, true, false});
  Launch launch = launch_of(nest, {3, 5, 7, 40}, Values::tame);
  for (Variant variant : {Variant::fast, Variant::general}) expect_equal(nest, variant, launch, {3, 2});
  launch.operands[0].strides = {41, 3 * 41 * 7, 3 * 41, 1};
  for (Variant variant : {Variant::fast, Variant::general}) expect_equal(nest, variant, launch);
  launch.operands[0].strides = {1, 3, 15, 105};
  expect_equal(nest, Variant::general, launch);
}

// y = 2x in one stage, its sum read from y in the next, and a running value of each row: t = t / 2 + sum. Stages wait for what they read of each other.
TEST(CodegenStages, ReadWhatOthersWroteBefore) {
  const DType f = DType::f32;
  for (const Schedule schedule : {Schedule::row, Schedule::column}) {
    LoopNest nest = reduction(schedule, Op::sum, f, schedule == Schedule::row ? std::vector{false, true} : std::vector{true, false});
    nest.params.push_back({f, true, InnerStride::unit});
    Stage doubling;
    doubling.inputs = {load_of(0)};
    const Reg x = doubling.body.input(0, f);
    doubling.stores = {{2, doubling.body.emit(ScalarOp::add, f, x, x)}};
    Stage running;
    running.kind = Stage::Kind::each_row;
    running.inputs = {load_of(1), row_input(0)};
    const Reg half = running.body.emit(ScalarOp::mul, f, running.body.input(0, f), running.body.constant(0.5, f));
    running.stores = {{1, running.body.emit(ScalarOp::add, f, half, running.body.input(1, f))}};
    nest.stages[0].inputs = {load_of(2)};
    nest.stages = {doubling, nest.stages[0], running};
    for (const Variant variant : {Variant::fast, Variant::general})
      for (const int64_t n : {1, 33, 100, 1025, 5000}) {
        Launch launch = launch_of(nest, schedule == Schedule::row ? std::vector<int64_t>{3, n} : std::vector<int64_t>{n, 37}, Values::tame);
        launch.operands.push_back(launch.operands[0]);
        expect_equal(nest, variant, launch);
      }
  }
}

// Every element of `from` stored as `to` beside the greatest of its row or column.
LoopNest converting(Schedule schedule, DType from, DType to) {
  LoopNest nest = reduction(schedule, Op::amax, from, schedule == Schedule::row ? std::vector{false, true} : std::vector{true, false});
  nest.params.push_back({to, true, InnerStride::unit});
  Stage& stage = nest.stages[0];
  stage.stores = {{2, stage.body.cast(stage.reductions[0].value, compute_type(to))}};
  return nest;
}

// Few elements of known number: the optimiser finds the lanes that a store is for, and nothing outside of them may be written.
TEST(CodegenForSizes, StoresOfFewElementsOfEveryType) {
  for (DType from : kStorage)
    for (DType to : kStorage)
      for (Schedule schedule : {Schedule::row, Schedule::column})
        for (int64_t n : {1, 3}) {
          SCOPED_TRACE(std::string(name_of(from)) + " as " + std::string(name_of(to)));
          const LoopNest nest = converting(schedule, from, to);
          Launch launch = launch_of(nest, {4, n}, Values::tame);
          launch.operands.push_back({row_major({4, n}), 0, 0, Values::tame});
          expect_equal_sized(nest, Variant::fast, launch);
        }
}

}  // namespace
}  // namespace escapement::testing
