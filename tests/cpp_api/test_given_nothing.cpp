// What there is nothing behind (a null function, an empty std::function, no module) is refused when it is given, and a tensor with a tangent is no
// business of compiled code.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/torch.h>

#include <functional>

#include <escapement/jit.h>

namespace {

struct Doubled : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x * 2; }
};

at::Tensor sine(at::Tensor x) { return at::sin(x) * 2; }

template <class F>
std::string refused(F f) {
  try {
    escapement::jit(std::move(f));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(GivenNothing, IsRefused) {
  at::Tensor (*pointer)(at::Tensor) = nullptr;
  EXPECT_NE(refused(pointer).find("the function is null"), std::string::npos);
  EXPECT_NE(refused(std::function<at::Tensor(at::Tensor)>()).find("the function is null"), std::string::npos);
  EXPECT_NE(refused(std::shared_ptr<Doubled>()).find("the module is null"), std::string::npos);
  EXPECT_NE(refused(torch::nn::Linear(nullptr)), "");
}

TEST(GivenNothing, WhatIsSetIsCalled) {
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(at::equal(escapement::jit(&sine)(x), sine(x)));
  EXPECT_TRUE(at::equal(escapement::jit(std::function<at::Tensor(at::Tensor)>(sine))(x), sine(x)));
  EXPECT_TRUE(at::equal(escapement::jit(std::make_shared<Doubled>())(x), x * 2));
}

TEST(Tangents, AreEagers) {
  const c10::InferenceMode off(false);
  const auto compiled = escapement::jit(&sine);
  const at::Tensor x = at::arange(1.0, 4.0), tangent = at::ones({3});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(at::allclose(compiled(x), sine(x)));
    const uint64_t level = torch::autograd::ForwardADLevel::get_next_idx();
    const at::Tensor found = std::get<1>(at::_unpack_dual(compiled(at::_make_dual(x, tangent, static_cast<int64_t>(level))), static_cast<int64_t>(level)));
    EXPECT_TRUE(found.defined() && at::allclose(found, at::cos(x) * 2));
    torch::autograd::ForwardADLevel::release_idx(level);
  }
}

}  // namespace
