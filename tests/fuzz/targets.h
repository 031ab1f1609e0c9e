// One fuzz target for each reader of text or files that we did not write. A target feeds bytes to its reader; a UserError is the
// right answer to bad ones, anything else that leaves it (another exception, a crash, a sanitizer's report) is a bug.
//
// Two drivers: libFuzzer (driver.cpp, built with clang where -Dfuzz=enabled; tests/fuzz/README.md) and unit/test_fuzz.cpp, which
// changes the seeds at random in every test run.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace escapement {

struct FuzzTarget {
  const char* name;
  void (*run)(std::string_view bytes);
  std::vector<std::string> (*seeds)();   // inputs that the reader accepts, to start from
};

std::span<const FuzzTarget> fuzz_targets();
const FuzzTarget& fuzz_target(std::string_view name);

}  // namespace escapement
