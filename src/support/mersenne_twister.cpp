// See mersenne_twister.h. Matsumoto and Nishimura, "Mersenne Twister" (1998), gives the recurrence and its constants.
#include "support/mersenne_twister.h"

#include <algorithm>
#include <cmath>

// The same loop for several processors, chosen when the library is loaded.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ESCAPEMENT_FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), optimize("O3")))
#else
#define ESCAPEMENT_FOR_EACH_PROCESSOR
#endif

namespace escapement {
namespace {

constexpr size_t kWords = MersenneTwister::kWords, kMiddle = 397;

inline uint32_t twisted(uint32_t word, uint32_t next, uint32_t middle) {
  const uint32_t mixed = (word & 0x80000000u) | (next & 0x7fffffffu);
  return middle ^ (mixed >> 1) ^ ((0u - (next & 1u)) & 0x9908b0dfu);
}

ESCAPEMENT_FOR_EACH_PROCESSOR
void next_block(uint32_t* state) {
  constexpr size_t kFirst = kWords - kMiddle;   // what the words behind these need has been renewed by then
  for (size_t i = 0; i < kFirst; ++i) state[i] = twisted(state[i], state[i + 1], state[i + kMiddle]);
  for (size_t i = kFirst; i < kWords - 1; ++i) state[i] = twisted(state[i], state[i + 1], state[i - kFirst]);
  state[kWords - 1] = twisted(state[kWords - 1], state[0], state[kMiddle - 1]);
}

ESCAPEMENT_FOR_EACH_PROCESSOR
void temper(const uint32_t* state, uint32_t* words, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t word = state[i];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    words[i] = word ^ (word >> 18);
  }
}

ESCAPEMENT_FOR_EACH_PROCESSOR
void compare(const uint32_t* words, size_t pairs, uint32_t high_limit, uint32_t low_limit, bool* below) {
  for (size_t i = 0; i < pairs; ++i) {
    const uint32_t high = words[2 * i] & 0x1fffffu, low = words[2 * i + 1];
    below[i] = static_cast<bool>((high < high_limit) | ((high == high_limit) & (low < low_limit)));
  }
}

}  // namespace

void MersenneTwister::fill(std::span<uint32_t> words) {
  while (!words.empty()) {
    if (used_ == kWords) next_block(state_.data()), used_ = 0;
    const size_t count = std::min(kWords - used_, words.size());
    temper(state_.data() + used_, words.data(), count);
    used_ += count;
    words = words.subspan(count);
  }
}

// A fraction of 53 bits is below a number where its numerator is below that number's, rounded up: scaling by 2^53 is exact.
void compare_draws(std::span<const uint32_t> words, double keep, bool* below) {
  const auto limit = static_cast<uint64_t>(std::ceil(std::ldexp(keep, 53)));
  compare(words.data(), words.size() / 2, static_cast<uint32_t>(limit >> 32), static_cast<uint32_t>(limit), below);
}

}  // namespace escapement
