// Runs loop nests as machine code and in the loop interpreter, on guarded memory, and compares every byte.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "jit/llvm/compile.h"
#include "jit/run/kernel_code.h"
#include "kernels/loops.h"

namespace escapement::testing {

// Memory with an inaccessible page right before or right after it: a read or write outside faults.
class GuardedBuffer {
 public:
  enum class Guard { before, after };
  GuardedBuffer(size_t bytes, Guard guard);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  char* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  char *mapping_ = nullptr, *data_ = nullptr;
  size_t mapped_ = 0, bytes_ = 0;
};

enum class Values { tame, wild, positions };  // wild: NaN, infinities, denormals, random patterns; positions: small non-negative integers

struct Operand {
  std::vector<int64_t> strides;   // elements, per axis
  int64_t gather_stride = 0;      // elements
  int64_t gather_extent = 0;      // 0: not gathered; -1: gathered, and there is no memory
  Values values = Values::tame;
  int over = -1;                  // an operand before this one, in whose memory it lies; -1: in its own
};

struct Launch {
  std::vector<int64_t> extents;
  std::vector<Operand> operands;
  std::vector<uint64_t> scalars;
};

struct Pieces {
  int64_t outer = 1, inner = 1;   // the range is cut into so many pieces
};

// Compiles `variant`, runs both on equal memory, expects equal bytes (NaN equals NaN) and equal failure.
void expect_equal(const LoopNest& nest, Variant variant, const Launch& launch, Pieces pieces = {}, uint64_t seed = 1);
// The same with code for the launch's sizes.
void expect_equal_sized(const LoopNest& nest, Variant variant, const Launch& launch, Pieces pieces = {}, uint64_t seed = 1);
// The same for partial followed by finish.
void expect_equal_split(const LoopNest& nest, const Launch& launch, uint64_t seed = 1);

// Row-major strides over the axes that the operand has (mask); 0 on the others.
std::vector<int64_t> row_major(const std::vector<int64_t>& extents, const std::vector<bool>& has);
std::vector<int64_t> row_major(const std::vector<int64_t>& extents);

// --- building nests
LoopInput load_of(uint32_t param);
LoopInput row_input(uint32_t row_value);
LoopInput index_of(uint32_t axis);

}  // namespace escapement::testing
