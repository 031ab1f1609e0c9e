// Machine code of a guard program (guard_program.h), and who makes it.
#pragma once

#include <cstdint>
#include <memory>

namespace escapement {

class GuardProgram;

struct GuardCode {
  bool (*function)(int64_t* table) = nullptr;  // null: there is none
  std::shared_ptr<const void> owner;
};
using GuardCompiler = GuardCode (*)(const GuardProgram& program);

}  // namespace escapement
