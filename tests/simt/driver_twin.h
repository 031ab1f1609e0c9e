// The twin driver: a library with the Driver API's functions (src/jit/cuda/driver.def) over the host's memory, loaded in place of libcuda.so.1. A launch
// is handed to the SIMT twin of its kernel, when its stream is waited for. Work in different streams that nothing orders runs in random order.
//
// It is strict: what a caller does wrong is a complaint in words, kept until it is asked for. An argument block of another size than the PTX has, a
// block of threads that is too large, a context that is not current, handles and memory that were given back or belong to another device, and memory
// that two streams use, one of them writing, with no wait between.
#pragma once

#include <cstdint>

#include "jit/llvm/device/machine.h"

namespace escapement::testing {

struct TwinKernel {
  const char* name = nullptr;
  DeviceThread thread = nullptr;
  unsigned shared_bytes = 0;
  unsigned params = 0;        // the first words of its argument are so many addresses; the last two are those of failure word and scratch
  uint64_t written = 0;       // bit p: through parameter p
};

struct TwinControl {
  void (*reset)(int devices, uint64_t seed);    // forgets everything
  void (*offer)(TwinKernel kernel);             // a kernel that loaded PTX may have
  void (*fail_at)(int call, int status);        // of the calls from now on, from 1; the call does nothing and gives the status. 0: none
  int (*calls)();                               // since then
  const char* (*complaints)();                  // "": none
  int (*live)();                                // contexts, modules, streams and memory that nobody gave back
  void (*set_version)(int version);
  int (*queued)(const void* stream);            // pieces of work that wait in a stream; null: in the one without a handle
  void (*let_host_in)(int on);                  // to the devices' memory, which is closed to it otherwise; calls may be nested
};

}  // namespace escapement::testing

extern "C" const escapement::testing::TwinControl* escapement_twin_control();
