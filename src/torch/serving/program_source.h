// ProgramSource: what a module is made of, whichever file it came from: the program, its tensors, and versions if the file
// has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exported/exported_program.h"
#include "jit/run/object_code.h"
#include "torch/record/recorder.h"

namespace escapement {

struct ProgramSource {
  ExportedProgram program;
  std::string json;                 // that `program` was read from
  std::vector<at::Tensor> weights;  // of each input that is not the user's, in order
  std::vector<Recording> versions;
  ObjectCode objects;
};

// A package or an archive of torch.export. UserError names the file and the cause.
ProgramSource read_source(const std::string& path, bool trusted);
// The bytes of one, which nothing of the result refers to. `shown`: in errors.
ProgramSource read_source(std::span<const std::byte> bytes, const std::string& shown, bool trusted);

}  // namespace escapement
