// What stands in for a GPU where device code runs on the host: one function per row of intrinsics.def, asked for the thread that runs, and one that
// hears of each access to memory that is not the thread's own. Names nothing of LLVM.
#pragma once

#include <cstdint>

namespace escapement {

struct DeviceMachine {
  using none = void;
  using i32 = uint32_t;
  using address = void*;
#define DEVICE_INTRINSIC(name, result, parameters, what) result(*name) parameters;
#include "jit/llvm/device/intrinsics.def"
#undef DEVICE_INTRINSIC
  void (*access)(const void* address, uint64_t bytes, uint32_t is_write);   // before it is made; need not return
};

// One thread of a kernel. `words` is its ArgumentBlock.
using DeviceThread = void (*)(const DeviceMachine* machine, const uint64_t* words);

}  // namespace escapement
