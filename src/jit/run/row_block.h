// Blocks of short rows, transposed: what the block variant of row kernels (jit/llvm/emit_block.cpp) calls at the edges of a
// block, and the tile variant of maps (emit_tile.cpp) for parameters that lie transposed: their "rows" are the lines along
// the other axis.
//
// A block holds kBlockRows rows of up to kBlockLength elements, element j of row r at [j * kBlockRows + r], so that vectors run
// across the rows. One precompiled routine per element size serves every kernel: shuffles cost nothing to compile there.
#pragma once

#include <cstdint>

namespace escapement {

inline constexpr int64_t kBlockRows = 32;    // a multiple of every number of vector lanes
inline constexpr int64_t kTileLines = 32;    // elements of such a "row" in a tile
inline constexpr int64_t kBlockLength = 48;  // elements of the longest row; no more than one stretch of the canonical order

// rows: address of the first of `count` (1 to kBlockRows) rows, `stride` bytes apart, of `length` elements, `pitch` bytes apart.
using GatherRows = void (*)(void* block, const void* rows, int64_t stride, int64_t count, int64_t length, int64_t pitch);   // rows past count: the last
using ScatterRows = void (*)(void* rows, const void* block, int64_t stride, int64_t count, int64_t length, int64_t pitch);  // rows past count: dropped

// element: 1, 2, 4 or 8 bytes.
GatherRows gather_rows(int64_t element);
ScatterRows scatter_rows(int64_t element);

}  // namespace escapement
