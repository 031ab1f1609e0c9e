// The tensors that a recording used and that are neither inputs nor results of a recorded operator. A trace may keep such a tensor
// only as what later calls would find, too. When the program has ended it is one of these:
//
//   somebody else holds it           a parameter, a global, what a lambda captured: an input of its own, read anew at each call
//   a literal                        the program made it in memory of its own, nobody wrote it since, and it was let go of
//                                    (`torch::tensor({1.f, 2.f})`): a constant, since host code depends on its arguments only
//   made_unseen                      memory that belongs to something else (from_blob, from_numpy, dlpack) and may be gone or changed at the
//                                    next call, another name for a parameter's memory (`.data()`), what the program's operators wrote or
//                                    what it returns, which each call must make anew
//   storage_access                   what the program filled through its address after it had used it, or may have
//
// Who holds a tensor is read from reference counts, so the question is asked once nothing is left of the program but its results.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/reason.h"

namespace escapement {

struct Recording;

// Memory that the tensor's storage did not get from an allocator: torch only borrows it.
bool is_borrowed_memory(const at::Tensor& real);

class Captures {
 public:
  // An operator found the captured tensor of that number: for the first time, or again.
  void note_use(size_t number, const at::Tensor& real);
  // A copy that nobody else has ever seen.
  void note_own(size_t number);
  // Why the recording must not be kept, if so. `holders`: references to each captured tensor that are the recording's own.
  struct Refusal {
    Reason why;
    std::string detail;
  };
  std::optional<Refusal> refusal(const Recording& recording, std::span<const c10::IValue> outputs, long holders) const;

 private:
  struct Known {
    bool own = false, changed = false;
    std::vector<std::byte> seen;   // its bytes at first use, if they could be a literal's
  };
  std::vector<Known> known_;
};

}  // namespace escapement
