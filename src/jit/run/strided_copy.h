// Copies between memory and blocks in which elements stand in another order: what staging.h puts before and behind a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace escapement {

// One axis of what is copied; bytes from one element to the next.
struct CopyAxis {
  int64_t extent = 1, to = 0, from = 0;
};

// All points of the axes, in any order. element: 1, 2, 4 or 8 bytes. What is written twice (to == 0) holds one of the elements.
void copy_strided(std::byte* to, const std::byte* from, std::span<const CopyAxis> axes, int64_t element);

// The points [begin, end) of row-major `points` (outermost first; at most kMostCopyAxes with those of `each`), and at each of them all of
// `each`. `to` and `from`: the addresses at point 0 of everything. A point's place in `to` is its number times `pitch`; CopyAxis::to of `points`
// is not used.
void copy_points(std::byte* to, const std::byte* from, std::span<const CopyAxis> points, int64_t begin, int64_t end, int64_t pitch,
                 std::span<const CopyAxis> each, int64_t element);
// The same the other way round: from where copy_points copies to.
void copy_points_back(const std::byte* block, std::byte* memory, std::span<const CopyAxis> points, int64_t begin, int64_t end, int64_t pitch,
                      std::span<const CopyAxis> each, int64_t element);

inline constexpr size_t kMostCopyAxes = 16;

}  // namespace escapement
