// Every program of programs.h against LibTorch eager, over sizes 0, 1, primes, large and random ones; how often it was
// recorded, that calls after that are served by compiled kernels, and which of its lines are reported. Both modes run all
// programs.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "programs.h"
#include "report.h"

namespace programs {

std::vector<Program>& table() {
  static std::vector<Program> all;
  return all;
}

std::set<int>& marked_lines() {
  static std::set<int> lines;
  return lines;
}

namespace {

// What a call did: its results, what its inputs were afterwards, or the message of its exception.
struct Outcome {
  Flat results, inputs;
  std::string error;
};

Flat copies(const Flat& tensors) {
  // Shared memory, strides and identity are part of a program's inputs.
  std::map<const void*, at::Tensor> storages;
  std::map<const void*, at::Tensor> same;
  Flat result;
  for (const at::Tensor& t : tensors) {
    at::Tensor& whole = storages[t.storage().unsafeGetStorageImpl()];
    if (!whole.defined()) {
      const int64_t elements = static_cast<int64_t>(t.storage().nbytes() / t.element_size());
      whole = at::empty({0}, t.options()).set_(t.storage(), 0, {elements}, {1}).clone();
    }
    at::Tensor& copy = same[t.unsafeGetTensorImpl()];
    if (!copy.defined()) copy = whole.as_strided(t.sizes(), t.strides(), t.storage_offset());
    result.push_back(copy);
  }
  return result;
}

template <class Call>
Outcome outcome(const Call& call, const Flat& inputs) {
  Outcome found;
  found.inputs = copies(inputs);
  at::manual_seed(7);
  try {
    found.results = call(found.inputs);
  } catch (const c10::Error&) {
    found.error = "c10::Error";
  } catch (const std::exception& error) {
    found.error = error.what();
  }
  return found;
}

void expect_equal(const Flat& found, const Flat& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), wanted[i].defined()) << i;
    if (!found[i].defined()) continue;
    ASSERT_EQ(found[i].sizes(), wanted[i].sizes()) << i;
    ASSERT_EQ(found[i].scalar_type(), wanted[i].scalar_type()) << i;
    if (found[i].numel() > 1) {
      EXPECT_EQ(found[i].is_contiguous(), wanted[i].is_contiguous()) << i;
    }
    EXPECT_TRUE(at::allclose(found[i], wanted[i], tolerance, tolerance, /*equal_nan=*/true)) << i << " of sizes " << found[i].sizes();
  }
}

std::vector<Shape> shapes() {
  std::vector<Shape> all{{3, 5}, {7, 11}, {1, 1}, {13, 1}, {1, 17}, {0, 4}, {4, 0}, {257, 31}, {2, 1023}};
  std::mt19937 random(5);
  for (int i = 0; i < 6; ++i) all.push_back({static_cast<int64_t>(random() % 40), static_cast<int64_t>(random() % 40)});
  return all;
}

std::set<int> lines_of(const std::vector<escapement::Escape>& escapes, const std::string& file) {
  std::set<int> lines;
  const std::string name = file.substr(file.rfind('/') + 1) + ":";
  for (const escapement::Escape& escape : escapes) {
    const size_t at = escape.where.find(name);
    EXPECT_NE(at, std::string::npos) << escape.relation << " (" << escape.because << ") at '" << escape.where << "', not in " << name;
    if (at != std::string::npos) lines.insert(std::stoi(escape.where.substr(at + name.size())));
  }
  return lines;
}

class Programs : public testing::TestWithParam<std::tuple<size_t, const char*>> {
 protected:
  const Program& program() const { return table()[std::get<0>(GetParam())]; }
  std::string mode() const { return std::get<1>(GetParam()); }
};

TEST_P(Programs, EqualEager) {
  const at::NoGradGuard no_grad;
  at::manual_seed(1);
  marked_lines().clear();
  const Program& p = program();
  const Compiled compiled = p.compile({{"mode", mode()}});
  int64_t seed = 100;
  for (const Shape shape : shapes()) {
    SCOPED_TRACE(p.name + " at " + std::to_string(shape.rows) + " x " + std::to_string(shape.columns));
    at::manual_seed(++seed);
    const Flat inputs = p.inputs(shape);
    const Outcome wanted = outcome(p.eager, inputs);
    for (int time = 0; time < 2; ++time) {
      const Outcome found = outcome(compiled.call, inputs);
      EXPECT_EQ(found.error, wanted.error);
      expect_equal(found.results, wanted.results, p.tolerance);
      expect_equal(found.inputs, wanted.inputs, p.tolerance);
    }
  }
  if (mode() != "call") return;
  EXPECT_EQ(sum_of(compiled.explain(), "recordings"), p.recordings) << compiled.explain();
  EXPECT_EQ(lines_of(compiled.escapes(), p.file), marked_lines());
}

bool only_hands_out_what_is_there(const std::string& name) {
  return name == "view_of_the_argument" || name == "the_same_tensor_comes_back" || name == "symbolic_result";
}

// The shape of the first call comes again: no recording, no eager call; kernels or prepared library calls run.
class CallMode : public Programs {};

TEST_P(CallMode, Serves) {
  const at::NoGradGuard no_grad;
  const Program& p = program();
  const Compiled compiled = p.compile({{"mode", mode()}});
  if (p.name == "branch_on_a_value") GTEST_SKIP() << "holds the number that eager's sum had, which ours differs from by a rounding";
  const Flat inputs = p.inputs({7, 9});
  (void)compiled.call(copies(inputs));
  const int64_t recordings = escapement::counter("recordings"), eager = escapement::counter("eager_calls");
  const int64_t hits = escapement::counter("hits");
  const auto work = [] { return escapement::counter("launches") + escapement::counter("library_calls"); };
  const int64_t before = work();
  for (int time = 0; time < 3; ++time) (void)compiled.call(copies(inputs));
  EXPECT_EQ(escapement::counter("recordings"), recordings);
  EXPECT_EQ(escapement::counter("eager_calls"), eager);
  EXPECT_EQ(escapement::counter("hits"), hits + 3);
  if (!only_hands_out_what_is_there(p.name)) {
    EXPECT_GE(work(), before + 3);
  }
}

std::vector<size_t> numbers() {
  std::vector<size_t> all(table().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

std::string name_of(const testing::TestParamInfo<std::tuple<size_t, const char*>>& row) {
  return table()[std::get<0>(row.param)].name + "_" + std::get<1>(row.param);
}

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::Combine(testing::ValuesIn(numbers()), testing::Values("call", "replay")), name_of);
INSTANTIATE_TEST_SUITE_P(All, CallMode, testing::Combine(testing::ValuesIn(numbers()), testing::Values("call")), name_of);

TEST(Table, HasFortyPrograms) { EXPECT_GE(table().size(), 40u); }

}  // namespace
}  // namespace programs
