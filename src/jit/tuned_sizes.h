// Which sizes a kernel is launched with how often, and the code that was made for those that come often. Thread safe.
#pragma once

#include <memory>
#include <vector>

#include "jit/llvm/compile.h"
#include "jit/run/kernel_code.h"
#include "support/fork.h"

namespace escapement {

class TunedSizes {
 public:
  static constexpr size_t kTracked = 64;  // sizes counted at once; the rarest of them gives way to new ones
  static constexpr size_t kTuned = 8;     // that get code

  struct Noted {
    KernelFunction function = nullptr;    // code for these sizes, if there is
    bool wanted = false;                  // true once: the caller is to have it made
  };
  Noted note(Variant variant, const Geometry& sizes, int64_t launches, int64_t hot);
  void install(Variant variant, const Geometry& sizes, std::unique_ptr<CodeModule> code);

 private:
  struct Entry {
    Variant variant = Variant::fast;
    Geometry sizes;
    int64_t launches = 0;
    bool asked = false;
    std::unique_ptr<CodeModule> code;
  };
  Entry* find(Variant variant, const Geometry& sizes);
  Entry& entry(Variant variant, const Geometry& sizes);

  ForkMutex mutex_;   // no code is released under it: what was made stays
  std::vector<Entry> entries_;
  size_t asked_ = 0;
};

}  // namespace escapement
