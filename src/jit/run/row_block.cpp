// See row_block.h.
#include "jit/run/row_block.h"

#include <algorithm>
#include <cstring>

#include "jit/run/square.h"
#include "support/error.h"

namespace escapement {
namespace {

constexpr int64_t kRows = kBlockRows;

// f(row, element) of the corner of every square among `count` rows; the last square of a row overlaps the one before it. Returns how
// many rows the squares cover: the others are fewer than a square, or too short for one.
template <class T, class F>
int64_t each_square(int64_t count, int64_t length, F f) {
  constexpr int64_t N = static_cast<int64_t>(Square<T>::N);
  const int64_t covered = length < N ? 0 : count / N * N;
  for (int64_t r = 0; r < covered; r += N) {
    for (int64_t j = 0; j < length; j += N) f(r, std::min(j, length - N));
  }
  return covered;
}

// Where there are fewer rows, the last one again, element by element.
template <class T>
void repeat_last_row(char* to, int64_t count, int64_t length) {
  for (int64_t j = 0; j < length; ++j, to += kRows * static_cast<int64_t>(sizeof(T))) {
    T* const element = reinterpret_cast<T*>(to);
    std::fill(element + count, element + kRows, element[count - 1]);
  }
}

// Elements anywhere: one of all rows, then the next.
template <class T>
void gather_apart(char* to, const char* from, int64_t stride, int64_t count, int64_t length, int64_t apart) {
  constexpr int64_t size = sizeof(T), pitch = kRows * size;
  for (int64_t j = 0; j < length; ++j) {
    char* const line = to + j * pitch;
    const char* const first = from + j * apart;
    if (stride == size) std::memcpy(line, first, static_cast<size_t>(count * size));
    else for (int64_t r = 0; r < count; ++r) std::memcpy(line + r * size, first + r * stride, sizeof(T));
  }
  repeat_last_row<T>(to, count, length);
}

template <class T>
void scatter_apart(char* to, const char* from, int64_t stride, int64_t count, int64_t length, int64_t apart) {
  constexpr int64_t size = sizeof(T), pitch = kRows * size;
  for (int64_t j = 0; j < length; ++j, to += apart, from += pitch) {
    if (stride == size) std::memcpy(to, from, static_cast<size_t>(count * size));
    else for (int64_t r = 0; r < count; ++r) std::memcpy(to + r * stride, from + r * size, sizeof(T));
  }
}

template <class T>
void gather(void* block, const void* first, int64_t stride, int64_t count, int64_t length, int64_t apart) {
  constexpr int64_t size = sizeof(T), pitch = kRows * size;
  char* const to = static_cast<char*>(block);
  const char* const from = static_cast<const char*>(first);
  if (apart != size) return gather_apart<T>(to, from, stride, count, length, apart);
  const int64_t in_squares = each_square<T>(count, length, [&](int64_t r, int64_t j) {
    Square<T>::transpose(to + j * pitch + r * size, pitch, from + r * stride + j * size, stride);
  });
  if (in_squares == 0 && count == kRows) {
    for (int64_t j = 0; j < length; ++j) {
      for (int64_t r = 0; r < kRows; ++r) std::memcpy(to + j * pitch + r * size, from + r * stride + j * size, sizeof(T));
    }
    return;
  }
  for (int64_t r = in_squares; r < count; ++r) {
    for (int64_t j = 0; j < length; ++j) std::memcpy(to + j * pitch + r * size, from + r * stride + j * size, sizeof(T));
  }
  repeat_last_row<T>(to, count, length);
}

template <class T>
void scatter(void* first, const void* block, int64_t stride, int64_t count, int64_t length, int64_t apart) {
  constexpr int64_t size = sizeof(T), pitch = kRows * size;
  char* const to = static_cast<char*>(first);
  const char* const from = static_cast<const char*>(block);
  if (apart != size) return scatter_apart<T>(to, from, stride, count, length, apart);
  const int64_t in_squares = each_square<T>(count, length, [&](int64_t r, int64_t j) {
    Square<T>::transpose(to + r * stride + j * size, stride, from + j * pitch + r * size, pitch);
  });
  for (int64_t r = in_squares; r < count; ++r) {
    for (int64_t j = 0; j < length; ++j) std::memcpy(to + r * stride + j * size, from + j * pitch + r * size, sizeof(T));
  }
}

}  // namespace

GatherRows gather_rows(int64_t element) {
  switch (element) {
    case 1: return gather<uint8_t>;
    case 2: return gather<uint16_t>;
    case 4: return gather<uint32_t>;
    case 8: return gather<uint64_t>;
    default: throw InternalError("no element has this size");
  }
}

ScatterRows scatter_rows(int64_t element) {
  switch (element) {
    case 1: return scatter<uint8_t>;
    case 2: return scatter<uint16_t>;
    case 4: return scatter<uint32_t>;
    case 8: return scatter<uint64_t>;
    default: throw InternalError("no element has this size");
  }
}

}  // namespace escapement
