// One node of a ScalarProgram as LLVM IR on `lanes` elements at once (lanes == 1: on a scalar), bit-equal to
// trace/scalar_basic.cpp. No fast-math flags, no contraction, no nsw; conversions that do not fit have a defined result.
#pragma once

#include "jit/llvm/ir.h"
#include "trace/scalar.h"

namespace escapement {

struct Lanes {
  unsigned count = 1;
  bool avx = false;   // 256-bit x86 intrinsics may be used
  bool bf16 = false;  // AVX512-BF16's may be
  bool wide = false;  // AVX512F's and AVX512VL's may be
};

// Not for input and param nodes.
Value* emit_scalar(Ir& ir, const ScalarNode& node, Value* x, Value* y, Value* z, Lanes lanes);

// Memory form (Ir::storage_type) <-> register form. `narrow` rounds to nearest even, `narrow_rounded` is for what `round_to` made.
Value* widen(Ir& ir, DType type, Value* stored, unsigned lanes);
Value* narrow(Ir& ir, DType type, Value* value, Lanes lanes);
Value* narrow_rounded(Ir& ir, DType type, Value* value, Lanes lanes);

// uint64_t of trace/scalar.h <-> register form, scalars only.
Value* from_bits(Ir& ir, DType type, Value* bits);
Value* to_bits(Ir& ir, DType type, Value* value);

}  // namespace escapement
