// The generator behind torch's CPU random numbers, MT19937, a block of 624 words at a time: the recurrence has no dependence closer than 227
// words, so that vectors compute it, where a generator asked word by word does not. The words are those that torch's own would give.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace escapement {

class MersenneTwister {
 public:
  static constexpr size_t kWords = 624;
  using State = std::array<uint32_t, kWords>;

  // `used`: words of this state that have been handed out already, at most all.
  MersenneTwister(const State& state, size_t used) : state_(state), used_(used) {}

  void fill(std::span<uint32_t> words);   // the next ones

  const State& state() const { return state_; }
  size_t used() const { return used_; }

 private:
  State state_;
  size_t used_;
};

// For each pair of words, which are the 64 bits of one draw, the first one above: whether the draw's last 53 bits, as a fraction, are below `keep`
// in [0, 1]. That is how ATen draws from a Bernoulli distribution.
void compare_draws(std::span<const uint32_t> words, double keep, bool* below);

}  // namespace escapement
