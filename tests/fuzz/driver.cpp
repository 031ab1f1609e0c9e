// The entry points of libFuzzer for one target, named by ESCAPEMENT_FUZZ_TARGET at compile time. `PROGRAM --write-seeds DIR` leaves the
// seeds as files in a directory, which is then the first corpus.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "targets.h"

namespace {

const escapement::FuzzTarget& target() { return escapement::fuzz_target(ESCAPEMENT_FUZZ_TARGET); }

void write_seeds(const std::string& directory) {
  size_t number = 0;
  for (const std::string& seed : target().seeds()) {
    std::ofstream(directory + "/seed" + std::to_string(number++), std::ios::binary) << seed;
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  if (*count == 3 && std::strcmp((*arguments)[1], "--write-seeds") == 0) {
    write_seeds((*arguments)[2]);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target().run({reinterpret_cast<const char*>(data), size});
  return 0;
}
