// What the language bindings may ask of the engine, apart from running programs. Values only: no type of the inner folders
// crosses the boundary of the shared library.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "escapement/export.h"

namespace escapement {

class UndoLog;

struct OptionFacts {
  std::string name, type, default_value, doc;
};
struct OpFacts {
  std::string name, kind, tier, aten;
};

ESCAPEMENT_API std::vector<OptionFacts> option_facts();
ESCAPEMENT_API std::vector<OpFacts> op_facts();
ESCAPEMENT_API std::vector<std::pair<std::string, int64_t>> counter_facts();
ESCAPEMENT_API void reset_engine();
ESCAPEMENT_API bool is_recording();   // this thread, under the recorder
ESCAPEMENT_API bool has_written();    // whether its recording has written to memory that the program did not make, under whatever name
ESCAPEMENT_API void keep_undo();      // its recording, from now on
ESCAPEMENT_API void says_otherwise();  // what its recording notes from here on is not what the program calls where nothing is recorded: it cannot be left out when that runs again
ESCAPEMENT_API UndoLog take_undo();   // what its recording wrote over since `keep_undo`; what cannot be put back makes it impossible
ESCAPEMENT_API std::vector<std::pair<std::string, std::string>> target_facts();  // cpu, vector_bits, llvm: for `doctor`

}  // namespace escapement
