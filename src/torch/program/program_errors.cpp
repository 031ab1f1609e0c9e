// See program_errors.h. The texts are those of torch 2.13 on the CPU.
#include "torch/program/program_errors.h"

#include <c10/util/Exception.h>

namespace escapement {

void raise_gather_failure(const std::string& operation) {
  if (operation == "embedding" || operation == "index_select") {
    TORCH_CHECK_INDEX(false, "index out of range in self");
  }
  if (operation == "index_select_axis_1") TORCH_CHECK(false, "INDICES element is out of DATA bounds");
  if (operation == "gather") TORCH_CHECK(false, "gather: index out of bounds");  // eager too raises no IndexError here
  if (operation == "nll_loss") TORCH_CHECK_INDEX(false, "Target is out of bounds.");
  TORCH_CHECK_INDEX(false, operation, ": index out of range");
}

}  // namespace escapement
