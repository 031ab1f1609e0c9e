// What Python adds to the recorder, as function pointers: the library itself never sees Python. The module sets them once, at
// import (python/symnode_python.cpp); in a process without Python they stay null.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymNodeImpl.h>

#include "escapement/export.h"

namespace escapement {

struct PythonHooks {
  // The symbol hidden behind a wrapped number that holds the argument parser's placeholder; null if it is an ordinary number.
  c10::SymNode (*wrapped_number)(const at::Tensor& tensor) = nullptr;
  // A float or boolean node crosses to Python only in torch's own shell.
  c10::SymNode (*to_python)(c10::SymNode node) = nullptr;
  c10::SymNodeImpl* (*from_python)(c10::SymNodeImpl* node) = nullptr;  // borrowed; null if it holds no node of C++
};
ESCAPEMENT_API PythonHooks& python_hooks();

// Methods that torch's own symbolic numbers lack; null if the node is none of ours.
ESCAPEMENT_API c10::SymNode symbolic_sqrt(c10::SymNodeImpl* node);
ESCAPEMENT_API c10::SymNode symbolic_log2(c10::SymNodeImpl* node);
ESCAPEMENT_API c10::SymNode symbolic_trunc(c10::SymNodeImpl* node);
ESCAPEMENT_API c10::SymNode symbolic_round(c10::SymNodeImpl* node);   // half to even
// An integer of ours whose value does not fit 32 bits; but the ends of 64 bits, at which no relation can be guarded: reading them raises.
ESCAPEMENT_API bool is_wide(c10::SymNodeImpl* node);

}  // namespace escapement
