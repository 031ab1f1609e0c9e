// What printer and parser must agree on beyond the grammar. Private to printer.cpp and parser.cpp.
#pragma once

#include <algorithm>
#include <string_view>

#include "trace/trace.h"

namespace escapement {

inline constexpr std::string_view kDeviceNames[] = {"cpu", "cuda", "other"};

// The storage that a value has unless its text says `#number`: its root's, or the next unused number.
class StorageNumbers {
 public:
  uint32_t next() const { return next_; }
  void used(Storage storage) { next_ = std::max(next_, storage.index + 1); }

 private:
  uint32_t next_ = 0;
};

// The i-th operand mentioned by the arguments is operand i, and all are mentioned: then the arguments name values directly.
inline bool operands_in_order(const Instr& instr) {
  int32_t next = 0;
  for (const CallArg& arg : instr.attrs.args)
    for (int32_t operand : arg.operands)
      if (operand != -1 && operand != next++) return false;
  return next == static_cast<int32_t>(instr.operands.size());
}

inline bool printed_as_call(const Instr& instr) {
  return instr.op == Op::call || !instr.attrs.target.empty() || !instr.attrs.args.empty();
}

}  // namespace escapement
