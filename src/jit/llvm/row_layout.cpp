// See row_layout.h.
#include "jit/llvm/row_layout.h"

#include <algorithm>
#include <set>

namespace escapement {

namespace {

std::set<unsigned> params_of(const Stage& stage) {
  std::set<unsigned> params;
  for (const LoopInput& input : stage.inputs)
    if (input.kind == LoopInput::Kind::load) params.insert(input.number);
  for (const LoopStore& store : stage.stores) params.insert(store.param);
  return params;
}

Value* element_stride(KernelEmitter& kernel, unsigned param) {
  const LoopParam& p = kernel.nest.params[param];
  return kernel.ir.i64(p.inner == InnerStride::unit ? size_of(p.dtype) : 0);
}

}  // namespace

bool has_row_layout(const KernelEmitter& kernel, const Stage& stage) {
  return std::none_of(stage.inputs.begin(), stage.inputs.end(), [&](const LoopInput& input) {
    return input.kind == LoopInput::Kind::gather || (input.kind == LoopInput::Kind::index && kernel.nest.axes[input.number].reduced);
  });
}

Value* lies_flat(KernelEmitter& kernel, const Stage& stage) {
  Ir& ir = kernel.ir;
  Value* all = ir.b.getTrue();
  for (const unsigned p : params_of(stage)) {
    Value* expected = element_stride(kernel, p);
    for (unsigned axis = kernel.axes(); axis-- > 0 && kernel.nest.axes[axis].reduced;) {
      Value* single = ir.b.CreateICmpEQ(kernel.extent(axis), ir.i64(1));
      all = ir.b.CreateAnd(all, ir.b.CreateOr(single, ir.b.CreateICmpEQ(kernel.stride(p, axis), expected)));
      expected = ir.b.CreateMul(expected, kernel.extent(axis));
    }
  }
  return all;
}

Value* lies_in_runs(KernelEmitter& kernel, const Stage& stage, unsigned lanes) {
  Ir& ir = kernel.ir;
  const unsigned innermost = kernel.axes() - 1;
  Value* all = ir.b.CreateICmpSGE(kernel.extent(innermost), ir.i64(lanes));
  for (const unsigned p : params_of(stage)) all = ir.b.CreateAnd(all, ir.b.CreateICmpEQ(kernel.stride(p, innermost), element_stride(kernel, p)));
  return all;
}

}  // namespace escapement
