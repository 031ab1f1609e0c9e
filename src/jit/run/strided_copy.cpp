// See strided_copy.h. The two innermost loops depend on where elements are adjacent: on both sides along one axis (runs), on each side along
// another (squares, transposed in registers), or on one side at most (one by one). The axes around them are walked as they come.
#include "jit/run/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "jit/run/square.h"
#include "support/error.h"

namespace escapement {
namespace {

struct Box {
  std::array<CopyAxis, kMostCopyAxes> axes;
  size_t count = 0;

  void add(CopyAxis axis) {
    if (axis.extent == 1) return;
    ESCAPEMENT_CHECK(count < kMostCopyAxes, "a copy has few axes");
    axes[count++] = axis;
  }
  // Axes that both sides step through like one become one.
  void merge() {
    for (size_t i = count; i-- > 1;) {
      CopyAxis &outer = axes[i - 1], &inner = axes[i];
      if (outer.to != inner.to * inner.extent || outer.from != inner.from * inner.extent) continue;
      outer = {outer.extent * inner.extent, inner.to, inner.from};
      std::move(axes.begin() + static_cast<std::ptrdiff_t>(i) + 1, axes.begin() + static_cast<std::ptrdiff_t>(count), axes.begin() + static_cast<std::ptrdiff_t>(i));
      --count;
    }
  }
  CopyAxis take(size_t i) {
    const CopyAxis axis = axes[i];
    std::move(axes.begin() + static_cast<std::ptrdiff_t>(i) + 1, axes.begin() + static_cast<std::ptrdiff_t>(count), axes.begin() + static_cast<std::ptrdiff_t>(i));
    --count;
    return axis;
  }
};

// --- inner loops

// Copies of short runs dominate: no call for them.
inline void copy_run(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 512) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  int64_t at = 0;
  for (; at + 32 <= bytes; at += 32) std::memcpy(to + at, from + at, 32);
  if (at == bytes) return;
  if (bytes >= 32) {
    std::memcpy(to + bytes - 32, from + bytes - 32, 32);
    return;
  }
  if (bytes >= 16) {
    std::memcpy(to, from, 16);
    at = bytes - 16;
    std::memcpy(to + at, from + at, 16);
    return;
  }
  for (; at + 4 <= bytes; at += 4) std::memcpy(to + at, from + at, 4);
  for (; at < bytes; ++at) to[at] = from[at];
}

// Every second element. Nothing behind the last one is read.
template <class T>
void copy_every_second(std::byte* to, const std::byte* from, int64_t count) {
  constexpr int64_t N = static_cast<int64_t>(Square<T>::N), size = sizeof(T);
  using Vector = typename Square<T>::Vector;
  int64_t i = 0;
  for (; i + N < count; i += N) {
    Vector low, high;
    std::memcpy(&low, from + 2 * i * size, 16);
    std::memcpy(&high, from + 2 * i * size + 16, 16);
    [&]<size_t... I>(std::index_sequence<I...>) { low = __builtin_shufflevector(low, high, (2 * I)...); }(typename Square<T>::Indices());
    std::memcpy(to + i * size, &low, 16);
  }
  for (; i < count; ++i) std::memcpy(to + i * size, from + 2 * i * size, sizeof(T));
}

template <class T>
void copy_one_by_one(std::byte* to, const std::byte* from, CopyAxis axis) {
  if (axis.from == 0 && axis.to == static_cast<int64_t>(sizeof(T))) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    std::fill_n(reinterpret_cast<T*>(to), axis.extent, value);
    return;
  }
  constexpr int64_t size = sizeof(T);
  if (axis.to == size && axis.from == 2 * size) return copy_every_second<T>(to, from, axis.extent);
  for (int64_t i = 0; i < axis.extent; ++i) std::memcpy(to + i * axis.to, from + i * axis.from, sizeof(T));
}

template <class T>
void copy_plane(std::byte* to, const std::byte* from, CopyAxis a, CopyAxis b) {
  for (int64_t i = 0; i < a.extent; ++i) copy_one_by_one<T>(to + i * a.to, from + i * a.from, b);
}

// `a` is adjacent in `to`, `b` in `from`. The last squares overlap those before them.
template <class T>
void transpose(std::byte* to, const std::byte* from, CopyAxis a, CopyAxis b) {
  constexpr int64_t N = static_cast<int64_t>(Square<T>::N), size = sizeof(T);
  if (a.extent < N || b.extent < N) return a.extent < b.extent ? copy_plane<T>(to, from, a, b) : copy_plane<T>(to, from, b, a);
  for (int64_t i = 0; i < a.extent; i += N) {
    const int64_t x = std::min(i, a.extent - N);
    for (int64_t j = 0; j < b.extent; j += N) {
      const int64_t y = std::min(j, b.extent - N);
      Square<T>::transpose(reinterpret_cast<char*>(to) + x * size + y * b.to, b.to, reinterpret_cast<const char*>(from) + x * a.from + y * size, a.from);
    }
  }
}

// --- the axes around them: memory is read as it lies

void in_order_of_reading(Box& box) {
  std::sort(box.axes.begin(), box.axes.begin() + static_cast<std::ptrdiff_t>(box.count), [](const CopyAxis& a, const CopyAxis& b) { return a.from > b.from; });
}

template <class F>
void each_point(const Box& box, size_t axis, std::byte* to, const std::byte* from, const F& f) {
  if (axis == box.count) return f(to, from);
  const CopyAxis& a = box.axes[axis];
  for (int64_t i = 0; i < a.extent; ++i) each_point(box, axis + 1, to + i * a.to, from + i * a.from, f);
}

template <class F>
void walk(Box& box, std::byte* to, const std::byte* from, const F& f) {
  in_order_of_reading(box);
  each_point(box, 0, to, from, f);
}

constexpr size_t kNone = SIZE_MAX;

size_t adjacent(const Box& box, int64_t CopyAxis::*side, int64_t element) {
  size_t found = kNone;
  for (size_t i = 0; i < box.count; ++i) {
    if (box.axes[i].*side == element && (found == kNone || box.axes[i].extent > box.axes[found].extent)) found = i;
  }
  return found;
}

template <class T>
void copy(std::byte* to, const std::byte* from, Box box) {
  constexpr int64_t size = sizeof(T);
  const size_t in_to = adjacent(box, &CopyAxis::to, size), in_from = adjacent(box, &CopyAxis::from, size);
  if (box.count == 0) {
    std::memcpy(to, from, sizeof(T));
  } else if (in_to != kNone && in_to == in_from) {
    const CopyAxis run = box.take(in_to);
    walk(box, to, from, [&](std::byte* t, const std::byte* f) { copy_run(t, f, run.extent * size); });
  } else if (in_to != kNone && in_from != kNone) {
    const CopyAxis a = box.axes[in_to], b = box.axes[in_from];
    box.take(std::max(in_to, in_from));
    box.take(std::min(in_to, in_from));
    walk(box, to, from, [&](std::byte* t, const std::byte* f) { transpose<T>(t, f, a, b); });
  } else {
    const CopyAxis line = box.take(in_from != kNone ? in_from : in_to != kNone ? in_to : box.count - 1);
    walk(box, to, from, [&](std::byte* t, const std::byte* f) { copy_one_by_one<T>(t, f, line); });
  }
}

void copy_box(std::byte* to, const std::byte* from, Box& box, int64_t element) {
  for (size_t i = 0; i < box.count; ++i) {
    if (box.axes[i].extent == 0) return;
  }
  box.merge();
  switch (element) {
    case 1: return copy<uint8_t>(to, from, box);
    case 2: return copy<uint16_t>(to, from, box);
    case 4: return copy<uint32_t>(to, from, box);
    case 8: return copy<uint64_t>(to, from, box);
    default: throw InternalError("no element has this size");
  }
}

int64_t points_of(std::span<const CopyAxis> axes) {
  int64_t points = 1;
  for (const CopyAxis& axis : axes) points *= axis.extent;
  return points;
}

// Row-major ranges are boxes: what is left of the first line, whole lines, the beginning of the last one. f(box, first point, its offset).
template <class F>
void each_box(std::span<const CopyAxis> points, int64_t begin, int64_t end, int64_t pitch, int64_t number, int64_t offset, const F& f) {
  if (begin >= end) return;
  Box box;
  if (points.empty()) return f(box, number, offset);
  const int64_t line = points_of(points.subspan(1)), stride = points[0].from;
  const auto part = [&](int64_t index, int64_t from, int64_t to) {
    each_box(points.subspan(1), from, to, pitch, number + index * line, offset + index * stride, f);
  };
  int64_t first = begin / line;
  const int64_t last = end / line;
  if (first == last) return part(first, begin - first * line, end - first * line);
  if (begin != first * line) {
    part(first, begin - first * line, line);
    ++first;
  }
  if (first < last) {
    box.add({last - first, line * pitch, stride});
    for (size_t i = 1; i < points.size(); ++i) box.add({points[i].extent, points_of(points.subspan(i + 1)) * pitch, points[i].from});
    f(box, number + first * line, offset + first * stride);
  }
  part(last, 0, end - last * line);
}

}  // namespace

void copy_strided(std::byte* to, const std::byte* from, std::span<const CopyAxis> axes, int64_t element) {
  Box box;
  for (const CopyAxis& axis : axes) box.add(axis);
  copy_box(to, from, box, element);
}

void copy_points(std::byte* to, const std::byte* from, std::span<const CopyAxis> points, int64_t begin, int64_t end, int64_t pitch,
                 std::span<const CopyAxis> each, int64_t element) {
  each_box(points, begin, end, pitch, 0, 0, [&](Box& box, int64_t number, int64_t offset) {
    for (const CopyAxis& axis : each) box.add(axis);
    copy_box(to + number * pitch, from + offset, box, element);
  });
}

void copy_points_back(const std::byte* block, std::byte* memory, std::span<const CopyAxis> points, int64_t begin, int64_t end, int64_t pitch,
                      std::span<const CopyAxis> each, int64_t element) {
  each_box(points, begin, end, pitch, 0, 0, [&](Box& box, int64_t number, int64_t offset) {
    for (const CopyAxis& axis : each) box.add(axis);
    for (size_t i = 0; i < box.count; ++i) std::swap(box.axes[i].to, box.axes[i].from);
    copy_box(memory + offset, block + number * pitch, box, element);
  });
}

}  // namespace escapement
