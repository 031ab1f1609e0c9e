// Maps, and the vector loop that element stages without reductions share with rows.
#include <algorithm>
#include <numeric>

#include "jit/llvm/kernel.h"

namespace escapement {

namespace {

constexpr unsigned kUnrollBelow = 24;  // nodes
constexpr unsigned kMostLanes = 64;    // of a chunk

bool any_strides(const KernelEmitter& kernel) { return kernel.variant == Variant::general || kernel.variant == Variant::strided; }

unsigned unroll_of(const KernelEmitter& kernel, const StageBody& body) {
  return !any_strides(kernel) && body.size() < kUnrollBelow ? 2 : 1;
}

// Four registers for a large body: as many chains of dependent operations run side by side, which fills the machine better than one after the
// other.
unsigned lanes_of(const KernelEmitter& kernel, const StageBody& narrow) {
  const bool large = !any_strides(kernel) && narrow.size() >= kUnrollBelow;
  return large ? std::min(4 * narrow.lanes(), kMostLanes) : narrow.lanes();
}

std::vector<unsigned> all_but_last(unsigned axes) {
  std::vector<unsigned> result(axes - 1);
  std::iota(result.begin(), result.end(), 0u);
  return result;
}

Access access_of(KernelEmitter& kernel, unsigned param, Value* base, Value* stride) {
  const bool unit = kernel.nest.params[param].inner == InnerStride::unit;
  if (kernel.variant == Variant::general || (kernel.variant == Variant::strided && unit)) return {Access::Kind::strided, base, stride, nullptr};
  return {unit ? Access::Kind::unit : Access::Kind::zero, base, nullptr, nullptr};
}

}  // namespace

void emit_vector_loop(KernelEmitter& kernel, StageBody& body, Value* begin, Value* end) {
  Ir& ir = kernel.ir;
  const unsigned lanes = body.lanes(), step = lanes * unroll_of(kernel, body);
  Value* length = ir.b.CreateSub(end, begin);
  Value* main_end = ir.b.CreateAdd(begin, ir.b.CreateAnd(length, ir.i64(-static_cast<int64_t>(step))));
  ir.loop("main", begin, main_end, step, [&](Value* i) {
    for (unsigned offset = 0; offset < step; offset += lanes) {
      body.begin(full_chunk(ir.b.CreateAdd(i, ir.i64(offset)), lanes));
      body.store();
    }
  });
  ir.loop("tail", main_end, end, lanes, [&](Value* i) {
    body.begin(masked_chunk(ir, i, end, lanes));
    body.store();
  });
}

void emit_map(KernelEmitter& kernel) {
  Ir& ir = kernel.ir;
  const unsigned lanes = vector_lanes(kernel.nest, kernel.target), vector = kernel.axes() - 1;
  ir.leave_if(ir.b.CreateOr(ir.b.CreateICmpSGE(kernel.outer_begin, kernel.outer_end),
                            ir.b.CreateICmpSGE(kernel.inner_begin, kernel.inner_end)), [] {});
  std::vector<Value*> strides(kernel.params());
  if (any_strides(kernel))
    for (unsigned p = 0; p < kernel.params(); ++p) strides[p] = kernel.stride(p, vector);
  Odometer outer(kernel, all_but_last(kernel.axes()));
  outer.start(kernel.outer_begin);
  ir.loop("outer", kernel.outer_begin, kernel.outer_end, 1, [&](Value*) {
    Point point;
    for (unsigned p = 0; p < kernel.params(); ++p)
      point.params.push_back(access_of(kernel, p, ir.at(kernel.data(p), outer.offset(p)), strides[p]));
    for (unsigned a : outer.axes()) point.axes.push_back({IndexSource::Kind::scalar, outer.index(a)});
    point.axes.push_back({IndexSource::Kind::lanes, nullptr});
    for (const Stage& stage : kernel.nest.stages) {
      StageBody body(kernel, stage, lanes_of(kernel, StageBody(kernel, stage, lanes)));
      body.enter(point);
      emit_vector_loop(kernel, body, kernel.inner_begin, kernel.inner_end);
    }
    outer.advance();
  });
}

bool has_strided(const LoopNest& nest) {
  const auto is_same = [](const LoopParam& param) { return param.inner == InnerStride::zero; };
  return nest.schedule == Schedule::map && std::any_of(nest.params.begin(), nest.params.end(), is_same);
}

}  // namespace escapement
