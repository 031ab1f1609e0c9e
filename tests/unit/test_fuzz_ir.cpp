// A fixed slice of the IR fuzzer (fuzz/ir/checks.h) in every test run: the kinds that need no code generation.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "fuzz/ir/checks.h"

namespace escapement::fuzz {
namespace {

struct Slice {
  const char* name;
  std::optional<Finding> (*check)(uint64_t seed, Counts& counts);
  uint64_t seeds, least;   // of cases that were compared
};

void PrintTo(const Slice& slice, std::ostream* stream) { *stream << slice.name; }

class FuzzIr : public ::testing::TestWithParam<Slice> {};

TEST_P(FuzzIr, FindsNothing) {
  Counts counts;
  for (uint64_t seed = 1; seed <= GetParam().seeds; ++seed) {
    const auto finding = GetParam().check(seed, counts);
    ASSERT_FALSE(finding) << "fuzz_ir --kinds " << GetParam().name << " --seed " << seed << " --seed-only: " << finding->what << "\n" << finding->text;
  }
  EXPECT_GE(counts.cases - counts.refused, GetParam().least);
}

INSTANTIATE_TEST_SUITE_P(Slices, FuzzIr, ::testing::Values(Slice{"traces", check_trace, 120, 5000}, Slice{"dims", check_dims, 1500, 100000},
                                                           Slice{"guards", check_guards, 1500, 100000}),
                         [](const auto& test) { return std::string(test.param.name); });

// What the fuzzer found, as the smallest text that showed it: fuzz/ir/found.
TEST(FuzzIrFound, StaysMended) {
  for (const char* name : {"arange_down_from_zero", "common_value_with_a_view", "born_size_of_dead_code", "gather_of_a_vector_at_one_position",
                           "epilogue_and_a_view", "squeeze_of_no_axes", "write_that_nobody_reads"}) {
    std::ifstream file(std::string(ESCAPEMENT_TESTS) + "/fuzz/ir/found/" + name + ".txt");
    ASSERT_TRUE(file) << name;
    std::stringstream text;
    text << file.rdbuf();
    for (uint64_t seed = 1; seed <= 5; ++seed) EXPECT_EQ(check_text(text.str(), seed, nullptr), "") << name;
  }
}

}  // namespace
}  // namespace escapement::fuzz
