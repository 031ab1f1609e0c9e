// Squares of N x N elements, N of them in 16 bytes, transposed in registers by log2(N) rounds of interleaving.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace escapement {

// f(0) ... f(N - 1), the numbers as constants: rows stay in registers.
template <size_t N, class F>
inline void unrolled(F f) {
  [&]<size_t... I>(std::index_sequence<I...>) { (f(std::integral_constant<size_t, I>()), ...); }(std::make_index_sequence<N>());
}

template <class T>
struct Square {
  static constexpr size_t N = 16 / sizeof(T);
  typedef T Vector __attribute__((vector_size(16)));
  using Indices = std::make_index_sequence<N>;

  template <size_t... I>
  static Vector low(Vector a, Vector b, std::index_sequence<I...>) { return __builtin_shufflevector(a, b, (I / 2 + I % 2 * N)...); }
  template <size_t... I>
  static Vector high(Vector a, Vector b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, (I / 2 + N / 2 + I % 2 * N)...);
  }

  // `from` and `to`: N rows each, so many bytes apart.
  static void transpose(char* to, int64_t to_stride, const char* from, int64_t from_stride) {
    Vector rows[N], mixed[N];
    unrolled<N>([&](auto i) { std::memcpy(&rows[i], from + static_cast<int64_t>(i()) * from_stride, 16); });
    unrolled<std::countr_zero(size_t{N})>([&](auto) {
      unrolled<N / 2>([&](auto i) {
        mixed[2 * i] = low(rows[i], rows[i + N / 2], Indices());
        mixed[2 * i + 1] = high(rows[i], rows[i + N / 2], Indices());
      });
      unrolled<N>([&](auto i) { rows[i] = mixed[i]; });
    });
    unrolled<N>([&](auto i) { std::memcpy(to + static_cast<int64_t>(i()) * to_stride, &rows[i], 16); });
  }
};

}  // namespace escapement
