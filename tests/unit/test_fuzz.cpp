// The fuzz targets on their seeds, cut short and changed at random: a short form of what libFuzzer does for hours, in every test run.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "fuzz/targets.h"

namespace escapement {
namespace {

using Random = std::mt19937;

size_t below(size_t bound, Random& random) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random); }

void flip(std::string& text, Random& random) {
  char& byte = text[below(text.size(), random)];
  byte = static_cast<char>(byte ^ (1 << below(8, random)));
}

void overwrite(std::string& text, Random& random) {
  constexpr std::string_view kOdd("\0\xff\x7f\x80\"[]{}(),:%-019 \n", 20);
  text[below(text.size(), random)] = kOdd[below(kOdd.size(), random)];
}

void cut(std::string& text, Random& random) { text.erase(below(text.size(), random), 1 + below(16, random)); }

void repeat(std::string& text, Random& random) {
  const std::string part = text.substr(below(text.size(), random), 1 + below(32, random));
  text.insert(below(text.size(), random), part);
}

void exchange(std::string& text, Random& random) {
  const size_t length = 1 + below(8, random), from = below(text.size(), random), to = below(text.size(), random);
  const std::string part = text.substr(from, length);
  text.replace(to, part.size(), part);
}

std::string changed(std::string text, Random& random) {
  constexpr std::array kChanges{flip, overwrite, cut, repeat, exchange};
  for (size_t left = 1 + below(4, random); left > 0 && !text.empty(); --left) kChanges[below(kChanges.size(), random)](text, random);
  return text;
}

class Fuzz : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(Fuzz, SeedsCutShort) {
  for (const std::string& seed : GetParam().seeds()) {
    const size_t step = 1 + seed.size() / 500;
    for (size_t length = 0; length <= seed.size(); length += step) GetParam().run(std::string_view(seed).substr(0, length));
  }
}

TEST_P(Fuzz, SeedsChanged) {
  Random random(7);
  const std::vector<std::string> seeds = GetParam().seeds();
  for (int i = 0; i < 5000; ++i) GetParam().run(changed(seeds[below(seeds.size(), random)], random));
}

INSTANTIATE_TEST_SUITE_P(Readers, Fuzz, ::testing::ValuesIn(fuzz_targets().begin(), fuzz_targets().end()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace escapement
