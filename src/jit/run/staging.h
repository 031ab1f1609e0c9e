// Staged launches: operands whose elements do not lie as the fast variant of a row or column kernel expects are copied, a piece at a time,
// into a block where they do, and back if they are written. The piece stays in the cache, so memory is still walked once, and in the order
// in which it lies; the kernel is the fast one, so no bit of the results depends on it. Where a parameter of a row repeats along the innermost axis and changes
// along another, that is in its way: then the general variant runs, on copies of which it takes vectors (jit/llvm/row_layout.h).
//
//   rows      some rows, each whole: the copy of one row is `pitch` bytes from that of the next
//   columns   some columns of one outer point, each whole; few columns that go on in the next outer point are one axis with those
//   stretches  of one long row that only one stage walks: the partial variant runs over some stretches at a time
#pragma once

#include <vector>

#include "jit/run/kernel_code.h"
#include "jit/run/strided_copy.h"

namespace escapement {

struct Launch;
struct LaunchRecipe;

struct Staging {
  enum class Pieces : uint8_t { none, rows, columns, stretches } pieces = Pieces::none;
  struct Operand {
    uint32_t param = 0;
    int64_t element = 0;              // bytes
    bool read = false, written = false, shared = false;   // shared: all rows are the same one
    std::vector<CopyAxis> outer;      // columns, stretches: the axes of the points around a piece
    std::vector<CopyAxis> points;     // the axes that a piece is a range of
    std::vector<CopyAxis> each;       // and those of which it has all
    int64_t pitch = 0, offset = 0;    // of its block
  };
  std::vector<Operand> operands;
  int64_t block = 0;                  // rows, columns or stretches of a piece
  int64_t bytes = 0;                  // of all blocks
  explicit operator bool() const { return pieces != Pieces::none; }
};

// How a nest uses a parameter, as far as copies of it are concerned.
struct OperandUse {
  bool gathered = false, in_rows = false;   // read at positions; used by a stage of rows
  bool read = false, written = false;       // what was there before is needed; something is stored
};
std::vector<OperandUse> uses_of(const LoopNest& nest);

// Bytes. What fits the caches of any processor of the last ten years; tests have smaller ones, so that there are many pieces.
struct StagingLimits {
  int64_t piece = 96 << 10;        // the second cache, with room for what passes through it
  int64_t largest = 32 << 20;      // a piece that has to be larger: rows that lie side by side are copied together
  int64_t stretches = 16 << 10;     // the first cache
  int64_t long_row = 64 << 10;     // from which on stretches are better than whole rows
};

// For a launch that is not fast, `launch.geometry` being as the recipe gives it: sets variant, staging and geometry if it can be staged.
void plan_staging(const LaunchRecipe& recipe, Launch& launch, const StagingLimits& limits = {});

// Runs the kernel over a part of the launch's ranges, piece by piece. Stretches: the inner range is of stretches.
void run_staged(const LaunchRecipe& recipe, const Launch& launch, Variant variant, const KernelArgs& args, int64_t outer_begin,
                int64_t outer_end, int64_t inner_begin, int64_t inner_end);

}  // namespace escapement
