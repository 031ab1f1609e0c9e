// What an exported program writes beside its results: which of its inputs, weights included, change in a call. Read from the operators' schemas,
// without a run; where it is not known whether a value shares memory with an input, it is taken to.
#pragma once

#include <set>

#include "exported/exported_program.h"

namespace escapement {

std::set<uint32_t> written_inputs(const ExportedProgram& program);   // by slot

}  // namespace escapement
