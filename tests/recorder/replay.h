// Replay: a plain interpreter that runs a Trace op by op through ATen, the slow twin of everything compiled; for tests only. A traced op is run by the ATen op that it was recorded from, so results are eager's bit for bit.
#pragma once

#include <span>
#include <vector>

#include "torch/record/recorder.h"

namespace escapement {

struct ReplayResult {
  std::vector<c10::IValue> outputs;
  const Guard* failed = nullptr;   // the first guard that does not hold; outputs are empty. Effects before it have happened.
};

// `arguments`: one per input of the caller (tensors or ints; captured tensors are added by the replay itself).
ReplayResult replay(const Recording& recording, std::span<const c10::IValue> arguments);

}  // namespace escapement
