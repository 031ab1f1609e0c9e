// The SIMT twin: runs a device kernel's threads on the host, one fiber each, in a random order between the places where they wait for one another.
//
// It is the slow twin of a GPU, and strict: it stops at the first access outside of the memory that was named (or not aligned to its size), at the
// first two accesses of one element by different threads, one of them a write, with no barrier between them, at a read of block memory that nobody
// wrote, and where threads wait at different places or some wait and others have ended. A barrier orders the accesses of a block, a warp barrier those
// of a warp; a shuffle orders none. Blocks run one after another, in random order; between blocks nothing is ordered.
#pragma once

#include <setjmp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "jit/llvm/device/machine.h"

namespace escapement::testing {

struct Grid {
  uint32_t blocks = 1, threads = 32;   // threads: of a block, whole warps
};

class SimtMachine {
 public:
  explicit SimtMachine(uint64_t seed);
  ~SimtMachine();

  // Memory that kernels may touch, of elements of so many bytes. `unordered`: threads may write it without regard to one another.
  void allow(const void* begin, size_t bytes, size_t element, bool unordered = false);
  // Empty: all went well. Else what went wrong first, in words.
  std::string run(DeviceThread kernel, unsigned shared_bytes, Grid grid, const uint64_t* words);

 private:
  friend struct Machine;   // the functions that kernels call

  struct Access {
    uint32_t thread = 0, block_epoch = 0, warp_epoch = 0;   // thread: in the grid, from 1 on; 0: none
  };
  struct Cell {
    Access writer, readers[2];   // the last ones; of readers two different ones
  };
  struct Memory {
    const char* begin;
    size_t bytes, element;
    bool unordered, own;         // own: of the block
    std::vector<Cell> cells;
  };
  struct Fiber;

  void run_block(uint32_t number);
  void start(uint32_t thread);
  void resume(uint32_t thread);
  uint32_t choose();
  void explain_deadlock();
  void release_barrier();
  void release_warp(uint32_t warp);
  std::string waiting(uint32_t thread) const;
  // of the thread that runs
  void wait_for_block(const void* place);
  uint32_t wait_for_warp(int kind, uint32_t value, uint32_t source, const void* place);
  void touch(const void* address, uint64_t bytes, bool is_write);
  void touch(Memory& memory, size_t cell, bool is_write);
  bool ordered(const Access& before) const;
  void fail(std::string text);   // does not return
  void leave();                  // to the scheduler
  static void change(jmp_buf from, jmp_buf to);
  static void body();
  static std::vector<std::unique_ptr<Fiber>>& spare_fibers();

  std::mt19937_64 random_;
  std::vector<Memory> memories_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<uint32_t> ready_;
  jmp_buf scheduler_;
  std::string fault_;

  // what runs
  DeviceThread kernel_ = nullptr;
  const uint64_t* words_ = nullptr;
  Grid grid_;
  uint32_t block_ = 0, thread_ = 0;
  uint32_t at_barrier_ = 0, block_epoch_ = 0, next_warp_epoch_ = 0;
  std::vector<uint32_t> at_warp_, warp_epoch_;
  std::vector<uint64_t> shared_;
  int order_ = 0;                // of threads: any, ascending, descending
};

}  // namespace escapement::testing
