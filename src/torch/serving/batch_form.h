// How the inputs and results of one module divide into requests (include/escapement/batcher.h).
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "escapement/batcher.h"
#include "torch/serving/module_state.h"

namespace escapement {

using Values = std::vector<c10::IValue>;

struct BatchForm {
  // ServingError invalid_input: the signature has not this form, or the program writes an input or a weight: what is joined is a copy of the
  // requests, and a batch that fails is run again.
  BatchForm(const ModuleFacts& facts, Batching asked);

  void check(const ModuleFacts& facts, const Values& request) const;  // as the module checks a call of this request alone; UserError
  int64_t rows(const Values& request) const;                          // that count against a batch's; of a checked request
  std::vector<int64_t> key(const Values& request) const;              // requests whose keys are equal may be joined

  Values join(std::span<const Values* const> requests) const;
  // Copies: a session writes into the same memory in its next run.
  std::vector<Values> divide(const Values& results, std::span<const int64_t> rows) const;

  Batching batching = Batching::none;
  size_t inputs;              // of a request
  size_t most_rows = std::numeric_limits<size_t>::max(), most_requests = most_rows;   // of one call, as far as the signature's ranges go
  std::vector<bool> per_row;  // per result: a row for each row, else one for each request
};

}  // namespace escapement
