// Packages (docs/package.md): one file with a program, its weights, and what was recorded and compiled of it.
//
// A zip archive of stored entries:
//   escapement_package    the format's version
//   model.json            the program, as torch.export wrote it
//   package.json          what lies where: weights, versions, code
//   weights.safetensors   weights and constants
//   traces/N.txt          versions, as docs/ir.md has them
//   code/KEY.o            machine code, by what it was made from (jit/run/object_code.h)
#pragma once

#include <string>

#include "exported/zip.h"
#include "torch/serving/program_source.h"

namespace escapement {

inline constexpr const char* kPackageMark = "escapement_package";
inline constexpr const char* kPackageFormat = "2";

bool is_package(const ZipFile& zip);
// `trusted`: with its versions and their code, which can do anything that a program can. Else these are not read.
ProgramSource read_package(const ZipFile& zip, bool trusted);

std::string torch_version();             // that the trace's operators are of

}  // namespace escapement
