// What a lowering claims of an operator's results, against what ATen returned: a claim that disagrees is taken back, and the operator recorded
// as a library call.
#pragma once

#include <vector>

#include "torch/record/lower.h"

namespace escapement {

struct Mark {
  size_t instrs, values;
};

Mark mark(const Tape& tape);
// Takes back the instructions since the mark. Guards stay (they can only be too strict), but for those that were to be tested after an
// instruction that is gone.
void take_back(Tape& tape, const Mark& m);

bool sizes_agree(const OpCall& call, ValueId v, const at::Tensor& real);
// The stride of an axis of size 1 (or of an empty tensor) has no meaning; ATen itself computes it in several ways.
bool strides_agree(const OpCall& call, ValueId v, const at::Tensor& real);
bool functional_agrees(OpCall& call);

// Of an in-place or out= form: can the results be stored in what it writes? `store_all` does so. `before`: the sizes of each written argument.
bool values_agree(const OpCall& call, const Mark& m);
bool store_all(OpCall& call, const Mark& m, const std::vector<std::vector<int64_t>>& before);

}  // namespace escapement
