// The tile variant of maps: some parameters are contiguous along the last axis, others, transposed, along the one before it.
// The two axes are walked in tiles; a transposed parameter's part of the tile is turned into a block on the stack before the
// stages (if they read it) and turned back after them (if they write it), by the precompiled routines of
// jit/run/row_block.h. Within a tile the vector runs along the last axis, as in the fast variant.
//
// Blocks are copies, so nothing may be read through one parameter that was written through another: the launcher sees to
// that, as it does to the strides: each parameter has its expected stride along the last axis, or its elements are adjacent
// along the other.
#include <numeric>

#include "jit/llvm/kernel.h"
#include "jit/llvm/orc.h"
#include "jit/run/row_block.h"

namespace escapement {

namespace {

struct TileEmitter {
  // How the stages use a parameter, and where its part of the tile at hand is.
  struct Param {
    bool unit = false, read = false, written = false;
    Value *along = nullptr, *across = nullptr;    // bytes to the next element on the last axis and on the one before
    Value *transposed = nullptr, *memory = nullptr;
    Value* first = nullptr;                       // address of the tile's first element
    Value *base = nullptr, *pitch = nullptr;      // of the first line, at position 0 of the last axis; to the next
  };

  KernelEmitter& kernel;
  Ir& ir = kernel.ir;
  unsigned last = kernel.axes() - 1, before = kernel.axes() - 2;
  Odometer* outer = nullptr;
  std::vector<Param> params{};

  void emit();
  void find_uses();
  void emit_lines(Value* lines);
  void emit_tile(Value* begin, Value* end, Value* lines);
  void place(Param& param, unsigned number, Value* begin, Value* width, Value* lines);
  void copy(const std::string& symbol, const Param& param, DType type, Value* to, Value* from, Value* width, Value* lines);
  void emit_line(Value* line, Value* begin, Value* end);
  void put_back(const Param& param, DType type, Value* width, Value* lines);
};

void TileEmitter::emit() {
  ir.leave_if(ir.b.CreateOr(ir.b.CreateICmpSGE(kernel.outer_begin, kernel.outer_end),
                            ir.b.CreateICmpSGE(kernel.inner_begin, kernel.inner_end)), [] {});
  find_uses();
  std::vector<unsigned> axes(last);
  std::iota(axes.begin(), axes.end(), 0u);
  Odometer odometer(kernel, axes);
  outer = &odometer;
  Var at = ir.var(kernel.outer_begin, "at");
  ir.while_loop("lines", [&] { return ir.b.CreateICmpSLT(ir.get(at), kernel.outer_end); }, [&] {
    Value* from = ir.get(at);
    odometer.start(from);
    Value* left = ir.b.CreateSub(kernel.extent(before), odometer.index(before));   // a tile does not leave its plane
    Value* lines = ir.min(ir.min(left, ir.b.CreateSub(kernel.outer_end, from)), ir.i64(kTileLines));
    emit_lines(lines);
    ir.set(at, ir.b.CreateAdd(from, lines));
  });
}

void TileEmitter::find_uses() {
  params.resize(kernel.params());
  for (const Stage& stage : kernel.nest.stages) {
    for (const LoopInput& input : stage.inputs)
      if (input.kind == LoopInput::Kind::load) params[input.number].read |= !params[input.number].written;
    for (const LoopStore& store : stage.stores) params[store.param].written = true;
  }
  for (unsigned p = 0; p < kernel.params(); ++p) {
    const LoopParam& expected = kernel.nest.params[p];
    params[p].unit = expected.inner == InnerStride::unit;
    params[p].along = kernel.stride(p, last);
    params[p].across = kernel.stride(p, before);
    params[p].transposed = ir.b.getFalse();
    if (!params[p].unit) continue;
    params[p].transposed = ir.b.CreateICmpNE(params[p].along, ir.i64(size_of(expected.dtype)));
    params[p].memory = ir.array(ir.storage_type(expected.dtype), static_cast<unsigned>(kTileLines * kBlockRows), "tile");
  }
}

void TileEmitter::emit_lines(Value* lines) {
  ir.loop("tile", kernel.inner_begin, kernel.inner_end, kBlockRows, [&](Value* begin) {
    emit_tile(begin, ir.min(ir.b.CreateAdd(begin, ir.i64(kBlockRows)), kernel.inner_end), lines);
  });
}

void TileEmitter::emit_tile(Value* begin, Value* end, Value* lines) {
  Value* width = ir.b.CreateSub(end, begin);
  for (unsigned p = 0; p < kernel.params(); ++p) place(params[p], p, begin, width, lines);
  ir.loop("line", ir.i64(0), lines, 1, [&](Value* line) { emit_line(line, begin, end); });
  for (unsigned p = 0; p < kernel.params(); ++p) put_back(params[p], kernel.nest.params[p].dtype, width, lines);
}

void TileEmitter::place(Param& param, unsigned number, Value* begin, Value* width, Value* lines) {
  Value* plane = ir.at(kernel.data(number), outer->offset(number));
  param.first = ir.at(plane, ir.b.CreateMul(begin, param.along));
  param.base = plane;
  param.pitch = param.across;
  if (!param.unit) return;
  DType type = kernel.nest.params[number].dtype;
  if (param.read) {
    const std::string gather = gather_rows_symbol(size_of(type));
    ir.if_then(param.transposed, [&] { copy(gather, param, type, param.memory, param.first, width, lines); });
  }
  Value* block = ir.at(param.memory, ir.b.CreateMul(begin, ir.i64(-size_of(type))));
  param.base = ir.b.CreateSelect(param.transposed, block, plane);
  param.pitch = ir.b.CreateSelect(param.transposed, ir.i64(size_of(type) * kBlockRows), param.across);
}

void TileEmitter::put_back(const Param& param, DType type, Value* width, Value* lines) {
  if (!param.unit || !param.written) return;
  const std::string scatter = scatter_rows_symbol(size_of(type));
  ir.if_then(param.transposed, [&] { copy(scatter, param, type, param.first, param.memory, width, lines); });
}

void TileEmitter::copy(const std::string& symbol, const Param& param, DType dtype, Value* to, Value* from, Value* width, Value* lines) {
  llvm::Type *pointer = ir.b.getPtrTy(), *i64 = ir.b.getInt64Ty();
  auto* type = llvm::FunctionType::get(ir.b.getVoidTy(), {pointer, pointer, i64, i64, i64, i64}, false);
  llvm::Module* module = ir.b.GetInsertBlock()->getModule();
  ir.b.CreateCall(module->getOrInsertFunction(symbol, type), {to, from, param.along, width, lines, ir.i64(size_of(dtype))});
}

void TileEmitter::emit_line(Value* line, Value* begin, Value* end) {
  Point point;
  for (const Param& param : params) {
    Value* base = ir.at(param.base, ir.b.CreateMul(line, param.pitch));
    point.params.push_back({param.unit ? Access::Kind::unit : Access::Kind::zero, base, nullptr, nullptr});
  }
  for (unsigned a : outer->axes()) point.axes.push_back({IndexSource::Kind::scalar, outer->index(a)});
  point.axes[before].value = ir.b.CreateAdd(point.axes[before].value, line);
  point.axes.push_back({IndexSource::Kind::lanes, nullptr});
  for (const Stage& stage : kernel.nest.stages) {
    StageBody body(kernel, stage, vector_lanes(kernel.nest, kernel.target));
    body.enter(point);
    emit_vector_loop(kernel, body, begin, end);
  }
}

}  // namespace

void emit_tile(KernelEmitter& kernel) { TileEmitter{kernel}.emit(); }

bool has_tile(const LoopNest& nest) {
  if (nest.schedule != Schedule::map || nest.axes.size() < 2) return false;
  for (const Stage& stage : nest.stages)
    for (const LoopInput& input : stage.inputs)
      if (input.kind == LoopInput::Kind::gather) return false;
  return true;
}

}  // namespace escapement
