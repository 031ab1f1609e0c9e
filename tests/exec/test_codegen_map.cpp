// Maps as machine code: every scalar op on every type, every storage type, sizes around vector widths, strides, gathers.
#include "exec/nest_harness.h"

namespace escapement::testing {
namespace {

constexpr DType kStorage[] = {DType::b8, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType kCompute[] = {DType::b8, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f32, DType::f64};
constexpr int64_t kSizes[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 1023, 1024, 1025, 4095, 4096, 4097, 9000};

LoopNest map_of(size_t axes, std::vector<LoopParam> params, Stage stage) {
  LoopNest nest;
  nest.schedule = Schedule::map;
  nest.axes.resize(axes);
  nest.params = std::move(params);
  nest.stages.push_back(std::move(stage));
  return nest;
}

bool has_meaning(ScalarOp op, DType type) {
  switch (op) {
    case ScalarOp::input: case ScalarOp::param: case ScalarOp::constant: case ScalarOp::scale: return false;
    case ScalarOp::div: case ScalarOp::fma: case ScalarOp::sqrt: case ScalarOp::floor: case ScalarOp::ceil: case ScalarOp::trunc:
    case ScalarOp::rint: case ScalarOp::copysign: case ScalarOp::is_nan: return is_float(type);
    case ScalarOp::sub: case ScalarOp::neg: return type != DType::b8;
    case ScalarOp::bit_and: case ScalarOp::bit_or: case ScalarOp::bit_xor: case ScalarOp::bit_not: return !is_float(type);
    case ScalarOp::shl: case ScalarOp::shr: return is_integer(type);
    case ScalarOp::round_to: return type == DType::f32;
    case ScalarOp::bitcast: return size_of(type) >= 4;
    default: return true;
  }
}

DType bitcast_target(DType type) {
  switch (type) {
    case DType::i32: return DType::f32;
    case DType::f32: return DType::i32;
    case DType::i64: return DType::f64;
    default: return DType::i64;
  }
}

// One op between loads and a store; results are stored as they are.
LoopNest single_op(ScalarOp op, DType type, DType result, uint64_t bits) {
  Stage stage;
  std::vector<Reg> operands;
  std::vector<LoopParam> params;
  for (int k = 0; k < arity_of(op); ++k) {
    DType operand = op == ScalarOp::select && k == 0 ? DType::b8 : type;
    operands.push_back(stage.body.input(k, operand));
    stage.inputs.push_back(load_of(static_cast<uint32_t>(k)));
    params.push_back({operand, false, InnerStride::unit});
  }
  operands.resize(3);
  if (op == ScalarOp::shl || op == ScalarOp::shr) {  // the count must be below the width
    Reg limit = stage.body.constant_int(8 * size_of(type) - 1, type);
    operands[1] = stage.body.emit(ScalarOp::bit_and, type, operands[1], limit);
  }
  Reg value = stage.body.emit(op, result, operands[0], operands[1], operands[2], bits);
  stage.stores.push_back({static_cast<uint32_t>(params.size()), value});
  params.push_back({result, true, InnerStride::unit});
  return map_of(1, params, stage);
}

Launch contiguous(const LoopNest& nest, std::vector<int64_t> extents, Values values) {
  Launch launch{extents, {}, {}};
  for (const LoopParam& p : nest.params) {
    std::vector<bool> has(extents.size(), true);
    if (p.inner == InnerStride::zero) has.back() = false;
    launch.operands.push_back({row_major(extents, has), 0, 0, values});
  }
  return launch;
}

void check_op(ScalarOp op, DType type, DType result, uint64_t bits = 0) {
  SCOPED_TRACE(std::string(name_of(op)) + " " + std::string(name_of(type)) + " -> " + std::string(name_of(result)));
  LoopNest nest = single_op(op, type, result, bits);
  for (int64_t n : {int64_t{5}, int64_t{1000}}) expect_equal(nest, Variant::fast, contiguous(nest, {n}, Values::wild));
}

bool compares(ScalarOp op) { return op >= ScalarOp::eq && op <= ScalarOp::is_nan; }

TEST(CodegenMap, EveryScalarOpOnEveryType) {
  for (int i = 0; i <= static_cast<int>(ScalarOp::round_to); ++i) {
    ScalarOp op = static_cast<ScalarOp>(i);
    if (op == ScalarOp::convert) continue;
    for (DType type : kCompute) {
      if (!has_meaning(op, type)) continue;
      if (op == ScalarOp::round_to) {
        check_op(op, type, type, static_cast<uint64_t>(DType::f16));
        check_op(op, type, type, static_cast<uint64_t>(DType::bf16));
      } else {
        check_op(op, type, compares(op) ? DType::b8 : op == ScalarOp::bitcast ? bitcast_target(type) : type);
      }
    }
  }
}

TEST(CodegenMap, EveryConversion) {
  for (DType from : kCompute)
    for (DType to : kCompute) check_op(ScalarOp::convert, from, to);
}

// Scalars (splat operands) take the scalar path of the same definition.
TEST(CodegenMap, EveryScalarOpOnBroadcastOperands) {
  for (int i = 0; i <= static_cast<int>(ScalarOp::round_to); ++i) {
    ScalarOp op = static_cast<ScalarOp>(i);
    for (DType type : kCompute) {
      if (!has_meaning(op, type) || op == ScalarOp::bitcast) continue;
      DType result = compares(op) ? DType::b8 : op == ScalarOp::convert ? DType::i32 : type;
      if (op == ScalarOp::convert && type == DType::i32) continue;
      LoopNest nest = single_op(op, type, result, static_cast<uint64_t>(DType::bf16));
      nest.axes.resize(2);
      for (LoopParam& p : nest.params)
        if (!p.written) p.inner = InnerStride::zero;
      SCOPED_TRACE(std::string(name_of(op)) + " " + std::string(name_of(type)));
      expect_equal(nest, Variant::fast, contiguous(nest, {60, 9}, Values::wild));
    }
  }
}

// out = (a + b) * s, with conversion from and to storage.
LoopNest add_mul(DType type, InnerStride b_inner, size_t axes) {
  DType compute = compute_type(type);
  Stage stage;
  stage.inputs = {load_of(0), load_of(1)};
  Reg a = stage.body.input(0, compute), b = stage.body.input(1, compute);
  Reg sum = stage.body.emit(ScalarOp::add, compute, a, b);
  Reg value = stage.body.emit(ScalarOp::mul, compute, sum, stage.body.param(0, compute));
  stage.stores = {{2, value}};
  LoopNest nest = map_of(axes, {{type, false, InnerStride::unit}, {type, false, b_inner}, {type, true, InnerStride::unit}}, stage);
  nest.scalars = {compute};
  return nest;
}

TEST(CodegenMap, EveryStorageTypeAndSize) {
  for (DType type : kStorage)
    for (InnerStride inner : {InnerStride::unit, InnerStride::zero})
      for (int64_t n : kSizes)
        for (Variant variant : {Variant::fast, Variant::general}) {
          LoopNest nest = add_mul(type, inner, 2);
          Launch launch = contiguous(nest, {2, n}, Values::wild);
          launch.scalars = {escapement::to_bits(int64_t{1}, compute_type(type))};
          SCOPED_TRACE(std::string(name_of(type)));
          expect_equal(nest, variant, launch);
        }
}

// Adjacent, every second, every third, backwards; nothing between and behind the elements is touched.
TEST(CodegenMap, StridesAlongTheVector) {
  for (DType type : kStorage)
    for (InnerStride inner : {InnerStride::unit, InnerStride::zero})
      for (int64_t n : {1, 2, 7, 15, 16, 17, 31, 32, 33, 70}) {
        LoopNest nest = add_mul(type, inner, 2);
        Launch launch = contiguous(nest, {2, n}, Values::wild);
        launch.scalars = {escapement::to_bits(int64_t{1}, compute_type(type))};
        for (const auto& [a, out] : {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 1}, {0, 3}}) {
          launch.operands[0].strides = {a * n + 1, a};
          launch.operands[2].strides = {out * n + 2, out};
          expect_equal(nest, Variant::general, launch);
          if (inner == InnerStride::zero) expect_equal(nest, Variant::strided, launch, {2, 1});
        }
      }
}

TEST(CodegenMap, RangesGiveTheSameBits) {
  LoopNest nest = add_mul(DType::f32, InnerStride::zero, 3);
  Launch launch = contiguous(nest, {3, 5, 1037}, Values::wild);
  launch.scalars = {escapement::to_bits(1.7, DType::f32)};
  for (Variant variant : {Variant::fast, Variant::general})
    for (Pieces pieces : {Pieces{1, 1}, Pieces{4, 1}, Pieces{15, 7}, Pieces{40, 3}}) expect_equal(nest, variant, launch, pieces);
}

TEST(CodegenMap, StridesOfAnyKind) {
  for (DType type : kStorage) {
    LoopNest nest = add_mul(type, InnerStride::unit, 3);
    Launch launch = contiguous(nest, {3, 5, 21}, Values::wild);
    launch.scalars = {escapement::to_bits(int64_t{1}, compute_type(type))};
    launch.operands[0].strides = {1, 3, 15};       // permuted
    launch.operands[1].strides = {0, 43, 2};       // expanded and odd
    expect_equal(nest, Variant::general, launch);
    launch.operands[2].strides = {23 * 5, 23, 1};  // padded result
    expect_equal(nest, Variant::general, launch);
    launch.operands[2].strides = {1, 63, 3};       // result permuted
    expect_equal(nest, Variant::general, launch, {3, 2});
  }
}

// Each operand along the last axis or along the one before it; planes that tiles do not fill, and one that is smaller than a
// tile.
TEST(CodegenTile, EveryOperandEitherWay) {
  for (DType type : kStorage) {
    LoopNest nest = add_mul(type, InnerStride::unit, 3);
    ASSERT_TRUE(has_tile(nest));
    for (std::vector<int64_t> extents : {std::vector<int64_t>{3, 45, 70}, {2, 32, 64}, {2, 3, 5}, {1, 1, 33}, {2, 37, 1}}) {
      const int64_t lines = extents[1], plane = extents[1] * extents[2];
      for (unsigned across = 0; across < 8; ++across) {
        Launch launch = contiguous(nest, extents, Values::wild);
        launch.scalars = {escapement::to_bits(int64_t{1}, compute_type(type))};
        for (size_t p = 0; p < 3; ++p)
          if (across >> p & 1) launch.operands[p].strides = {plane, 1, lines};
        SCOPED_TRACE(std::string(name_of(type)) + " across " + std::to_string(across));
        expect_equal(nest, Variant::tile, launch, across == 5 ? Pieces{4, 3} : Pieces{1, 1});
      }
    }
  }
}

TEST(CodegenTile, BroadcastAndPaddedOperands) {
  LoopNest nest = add_mul(DType::f32, InnerStride::zero, 3);
  Launch launch = contiguous(nest, {2, 40, 50}, Values::wild);
  launch.scalars = {escapement::to_bits(1.7, DType::f32)};
  launch.operands[0].strides = {40 * 53, 1, 41};  // transposed, lines padded
  launch.operands[1].strides = {0, 1, 0};         // one number a line
  expect_equal(nest, Variant::tile, launch, {7, 2});
  launch.operands[0].strides = {0, 1, 0};         // transposed and expanded along the last axis
  expect_equal(nest, Variant::tile, launch);
}

TEST(CodegenTile, InPlace) {   // x = x * x, x transposed
  Stage stage;
  stage.inputs = {load_of(0)};
  Reg x = stage.body.input(0, DType::f32);
  stage.stores = {{0, stage.body.emit(ScalarOp::mul, DType::f32, x, x)}};
  LoopNest nest = map_of(2, {{DType::f32, true, InnerStride::unit}}, stage);
  Launch launch = contiguous(nest, {70, 45}, Values::tame);
  launch.operands[0].strides = {1, 70};
  expect_equal(nest, Variant::tile, launch, {3, 2});
}

TEST(CodegenMap, ZeroExtents) {
  LoopNest nest = add_mul(DType::f32, InnerStride::unit, 3);
  for (std::vector<int64_t> extents : {std::vector<int64_t>{0, 4, 9}, {4, 0, 9}, {4, 9, 0}}) {
    Launch launch = contiguous(nest, extents, Values::tame);
    launch.scalars = {0};
    for (Variant variant : {Variant::fast, Variant::general, Variant::tile}) expect_equal(nest, variant, launch);
  }
}

TEST(CodegenMap, IndicesOfAxes) {
  Stage stage;
  stage.inputs = {index_of(0), index_of(1), index_of(2)};
  ScalarProgram& b = stage.body;
  Reg sum = b.emit(ScalarOp::add, DType::i64, b.input(0, DType::i64), b.emit(ScalarOp::mul, DType::i64, b.input(1, DType::i64), b.constant_int(100, DType::i64)));
  sum = b.emit(ScalarOp::add, DType::i64, sum, b.emit(ScalarOp::mul, DType::i64, b.input(2, DType::i64), b.constant_int(10000, DType::i64)));
  stage.stores = {{0, sum}};
  LoopNest nest = map_of(3, {{DType::i64, true, InnerStride::unit}}, stage);
  for (LoopAxis& a : nest.axes) a.indexed = true;
  for (Variant variant : {Variant::fast, Variant::general, Variant::tile})
    expect_equal(nest, variant, contiguous(nest, {3, 4, 19}, Values::tame), {5, 3});
}

// --- gather

// out[i, j] = table[position(i [, j]), j]
LoopNest gather_nest(DType type, bool position_varies, bool wrap) {
  Stage stage;
  stage.inputs = {load_of(0), {.kind = LoopInput::Kind::gather, .number = 1, .position = 0, .bound = 0, .wrap = wrap}};
  stage.body.input(0, DType::i64);
  Reg value = stage.body.input(1, compute_type(type));
  stage.stores = {{2, value}};
  LoopNest nest = map_of(2, {{DType::i64, false, position_varies ? InnerStride::unit : InnerStride::zero}, {type, false, InnerStride::unit}, {type, true, InnerStride::unit}}, stage);
  nest.scalars = {DType::i64};
  return nest;
}

Launch gather_launch(const LoopNest& nest, int64_t rows, int64_t columns, int64_t bound, int64_t stored) {
  Launch launch = contiguous(nest, {rows, columns}, Values::tame);   // positions: 0 .. 6
  launch.operands[1].strides = {0, 1};
  launch.operands[1].gather_stride = columns;
  launch.operands[1].gather_extent = stored;
  launch.scalars = {static_cast<uint64_t>(bound)};
  return launch;
}

TEST(CodegenMap, Gather) {
  for (DType type : kStorage)
    for (bool varies : {false, true})
      for (int64_t columns : {1, 5, 8, 33, 70, 512, 515}) {
        LoopNest nest = gather_nest(type, varies, true);
        for (Variant variant : {Variant::fast, Variant::general, Variant::strided}) {
          if (variant == Variant::strided && varies) continue;
          expect_equal(nest, variant, gather_launch(nest, 9, columns, 7, 7));
          expect_equal(nest, variant, gather_launch(nest, 9, columns, 4, 4));   // some out of range: must fail, must not fault
        }
      }
}

TEST(CodegenMap, GatherFromNothingReadsNothing) {
  for (bool varies : {false, true}) {
    LoopNest nest = gather_nest(DType::f32, varies, true);
    Launch launch = gather_launch(nest, 3, 9, 0, -1);
    for (Variant variant : {Variant::fast, Variant::general}) {
      expect_equal(nest, variant, launch);
      launch.extents[1] = 0;   // no point, no failure
      expect_equal(nest, variant, launch);
      launch.extents[1] = 9;
    }
  }
}

TEST(CodegenMap, GatherWrapsNegativePositions) {
  LoopNest nest = gather_nest(DType::f32, true, true);
  LoopNest shifted = nest;
  Stage stage;
  stage.inputs = {load_of(0), {.kind = LoopInput::Kind::gather, .number = 1, .position = 2, .bound = 0, .wrap = true}};
  Reg position = stage.body.emit(ScalarOp::sub, DType::i64, stage.body.input(0, DType::i64), stage.body.constant_int(3, DType::i64));
  ASSERT_EQ(position, 2);
  stage.stores = {{2, stage.body.input(1, DType::f32)}};
  shifted.stages = {stage};
  for (Variant variant : {Variant::fast, Variant::general}) expect_equal(shifted, variant, gather_launch(shifted, 6, 21, 5, 5));
}

}  // namespace
}  // namespace escapement::testing
