// escapement::jit and programs that change torch's own state: seeds, default dtype, modes, flags. Each call leaves the state and gives
// the results that the function itself does.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <functional>

#include <escapement/jit.h>

#include "report.h"

namespace {

using at::Tensor;
using escapement::jit;

struct Change {
  const char* name;
  Tensor (*run)(Tensor);
};

Tensor draw(const Tensor& x) { return x + at::rand(x.sizes()); }

// What a test puts back.
void put_back() {
  at::manual_seed(1);
  torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
  at::globalContext().setDeterministicAlgorithms(false, false);
  at::globalContext().setUserEnabledMkldnn(true);
  at::globalContext().setFlushDenormal(false);
  at::GradMode::set_enabled(true);
}

std::string state() {
  const Tensor bytes = at::detail::getDefaultCPUGenerator().get_state();
  std::string text(static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel()));
  text += std::to_string(static_cast<int>(c10::get_default_dtype_as_scalartype())) + ' ';
  text += std::to_string(at::globalContext().deterministicAlgorithms()) + std::to_string(at::globalContext().userEnabledMkldnn());
  volatile float tiny = 1e-39F;
  return text + std::to_string(tiny * 1.0F == 0) + std::to_string(at::GradMode::is_enabled());
}

const Change kChanges[] = {
    {"seed", [](Tensor x) { at::manual_seed(7); return draw(x); }},
    {"seed at the end", [](Tensor x) { Tensor y = draw(x); at::manual_seed(7); return y; }},
    {"seed without a draw", [](Tensor x) { at::manual_seed(7); return x + 1; }},
    {"set the state", [](Tensor x) {
       auto generator = at::detail::getDefaultCPUGenerator();
       const Tensor state = generator.get_state();
       Tensor y = draw(x);
       generator.set_state(state);
       return y;
     }},
    {"a generator of its own", [](Tensor x) { return x + at::rand(x.sizes(), at::detail::createCPUGenerator(3)); }},
    {"default dtype", [](Tensor x) { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); return x + at::rand({1}); }},
    {"deterministic algorithms", [](Tensor x) { at::globalContext().setDeterministicAlgorithms(true, false); return x + 1; }},
    {"a backend", [](Tensor x) { at::globalContext().setUserEnabledMkldnn(false); return x + 1; }},
    {"denormals", [](Tensor x) { at::globalContext().setFlushDenormal(true); return x * 1e-39; }},
    {"gradients", [](Tensor x) { at::GradMode::set_enabled(false); return x + 1; }},
};

class World : public testing::TestWithParam<Change> {
 protected:
  void TearDown() override { put_back(); }
};

TEST_P(World, IsEagersAfterEveryCall) {
  const auto f = jit(GetParam().run);
  constexpr std::array<int64_t, 6> sizes{3, 21, 3, 0, 1, 5};
  for (const int64_t size : sizes) {
    const Tensor x = at::arange(size, at::kFloat);
    put_back();
    const Tensor wanted = GetParam().run(x);
    const std::string left = state();
    put_back();
    const Tensor found = f(x);
    EXPECT_EQ(state(), left) << size;
    EXPECT_EQ(found.scalar_type(), wanted.scalar_type());
    EXPECT_TRUE(at::equal(found, wanted)) << size << "\n" << found << "\n" << wanted;
  }
  const std::string report = f.explain();   // no recording serves, and the report says of each call why
  EXPECT_NE(report.find("\"versions\":[]"), std::string::npos) << report;
  EXPECT_EQ(sum_of(report, "state_changed"), static_cast<int64_t>(sizes.size())) << report;
}

INSTANTIATE_TEST_SUITE_P(Of, World, testing::ValuesIn(kChanges), [](const auto& row) {
  std::string name = row.param.name;
  std::replace_if(name.begin(), name.end(), [](char c) { return std::isalpha(c) == 0; }, '_');
  return name;
});

// Which devices are in use is told beside the flags of the process, and is none of them.
TEST(Devices, OfOthersAreNoReasonToRecordAgain) {
  const auto f = jit([](Tensor x) { return (x + 1) * 2; });
  for (const int64_t size : {3, 0, 1, 7}) f(at::ones({size}));
  ASSERT_EQ(sum_of(f.explain(), "recordings"), 1);
  at::globalContext().lazyInitDevice(at::kMTIA);   // there is none, which is no error
  for (const int64_t size : {3, 0, 1, 7}) EXPECT_TRUE(at::equal(f(at::ones({size})), at::full({size}, 4)));
  EXPECT_EQ(sum_of(f.explain(), "recordings"), 1);
}

TEST(Generators, AsArgumentsAreRecorded) {
  auto generator = at::detail::createCPUGenerator(3);
  const auto f = jit([generator](Tensor x) { return x + at::rand(x.sizes(), generator); });
  for (const int64_t size : {3, 21, 3, 0, 1, 5}) {
    const Tensor x = at::zeros({size});
    generator.set_current_seed(5);
    const Tensor wanted = at::rand({size}, generator);
    const Tensor left = generator.get_state();
    generator.set_current_seed(5);
    EXPECT_TRUE(at::equal(f(x), wanted)) << size;
    EXPECT_TRUE(at::equal(generator.get_state(), left)) << size;
  }
}

}  // namespace
