// Tensors that the program kept from a recording which is over, where nobody found them to put the real ones in their place. A recording that meets one works
// on what stands behind it: a write there is a write to memory of the program's.
#pragma once

#include <ATen/core/ivalue.h>

#include <span>
#include <utility>
#include <vector>

#include "torch/record/recorder_tape.h"

namespace escapement {

class LeftOver {
 public:
  // Puts what stands behind them among the arguments; none of this recording's, and none that asks for gradients of its own.
  LeftOver(const Tape* tape, std::span<c10::IValue> arguments);

  // What an operator hands back of its arguments is what the program gave.
  void put_back(std::span<c10::IValue> results) const;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> replaced_;  // the program's, what stands behind it
};

}  // namespace escapement
