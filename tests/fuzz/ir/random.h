// The random choices of the IR fuzzer: one seed, one case. Independent of the standard library's distributions, so that a seed
// means the same case everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace escapement::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) {}

  uint64_t bits() {  // splitmix64
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  size_t below(size_t bound) { return bound == 0 ? 0 : bits() % bound; }
  int64_t between(int64_t low, int64_t high) { return low + static_cast<int64_t>(below(static_cast<size_t>(high - low) + 1)); }
  bool one_in(size_t count) { return below(count) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& from) { return from[below(from.size())]; }
  template <class T>
  T pick(std::initializer_list<T> from) { return from.begin()[below(from.size())]; }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(i)]);
  }

 private:
  uint64_t state_;
};

// Sizes at which code goes wrong: nothing, one, primes, around vectors, tiles, blocks and stretches.
inline int64_t random_size(Random& random, size_t large_one_in = 20) {
  if (random.one_in(large_one_in)) return random.pick<int64_t>({127, 128, 129, 255, 257, 1023, 1024, 1025, 1031, 2047, 2049});
  if (random.one_in(6)) return random.pick<int64_t>({15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 97});
  return random.pick<int64_t>({0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11});
}

}  // namespace escapement::fuzz
