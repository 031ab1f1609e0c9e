// What a program asks of a tensor's layout: is it contiguous, in this memory format, dense; what are its strides. An answer is an expression
// of sizes that holds for all of them, so whoever branches on it guards the relation asked and nothing else.
//
// Of a type's strides only those are claimed that address something: where an axis has size 1 or the tensor is empty, ATen computes strides in
// several ways. An answer that depends on such a stride is right for the very inputs that were seen and no others (Tape::pin_everything);
// of an input itself the stride is read anew at each call.
//
// Two kinds of askers. The program wants the truth. ATen's "is it contiguous, or say no" takes a shortcut and is right either way: it gets
// what holds for all sizes, without a guard (BoolExpr::Kind::layout). So does Python's `.contiguous()`, which asks before the operator itself,
// in the program's own words; Python's side tells it by the function that asks. C++'s `contiguous()` is told by what follows (Tape::hold).
#pragma once

#include "escapement/export.h"
#include "torch/record/symnode.h"

namespace escapement {

struct AskedLayout {
  Tape& tape;
  ValueId value;
  const at::Tensor& real;   // what stands for it now
};

// Whether the question comes from a shortcut; null: nobody can tell, and it is the program's.
using ShortcutAsks = bool (*)();
ESCAPEMENT_API void set_shortcut_asks(ShortcutAsks asks);

c10::SymBool asked_contiguous(const AskedLayout& asked, at::MemoryFormat format);
c10::SymBool lies_as(const AskedLayout& asked, at::MemoryFormat format);   // the same, where the answer matters whoever asks
c10::SymBool asked_dense(const AskedLayout& asked);            // non-overlapping and dense
c10::SymInt asked_stride(const AskedLayout& asked, int axis);  // its conditions are guarded when somebody looks at the number
c10::SymInt asked_offset(const AskedLayout& asked);            // of the storage

}  // namespace escapement
