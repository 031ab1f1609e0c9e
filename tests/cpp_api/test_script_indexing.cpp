// TorchScript's brackets, whose lists of indices are of another type object than the dispatcher's: masks, positions and writes through them at many
// sizes against the module's own calls; arguments that a method does not take; what a failing operator throws.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <escapement/jit.h>
#include <escapement/script.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report.h"

namespace {

using at::Tensor;
using torch::jit::Module;

Module module_of(const std::string& body) {
  Module module("M");
  module.define("def forward(self, b, s, i):\n" + body);
  return module;
}

struct Brackets {
  const char* name;
  const char* body;   // of forward(self, b, s, i): (n, 4) floats, n floats, n positions
  int recordings = 1;
};

const Brackets kBrackets[] = {
    {"rows by a mask", "  return b[s > 0.5]\n"},
    {"rows by positions", "  return b[i]\n"},
    {"columns by positions", "  return b[:, torch.tensor([0, 2])]\n"},
    {"positions and a slice", "  return b[i, 0:2]\n"},
    {"positions and a number", "  return b[i, 1]\n"},
    {"two positions", "  return b[i, i % 4]\n"},
    {"a mask and a slice", "  return b[s > 0.5, 1:3]\n"},
    {"positions that where found", "  return b[torch.where(s > 0.5)[0]]\n"},
    {"a mask of elements", "  return b[b > 0.5]\n"},
    {"a row written by a mask", "  c = b.clone()\n  c[s > 0.5] = torch.zeros(4)\n  return c\n"},
    {"a number written by a mask", "  c = b.clone()\n  c[s > 0.5] = 0.0\n  return c\n"},
    {"elements written by a mask", "  c = b.clone()\n  c[b > 0.5] = -1.0\n  return c\n"},
    {"rows written at positions", "  c = b.clone()\n  c[i] = torch.ones(4)\n  return c\n"},
    {"a column written at positions", "  c = b.clone()\n  c[i, 0] = s\n  return c\n"},
    {"a slice written", "  c = b.clone()\n  c[:, 0] = s\n  return c\n"},
    {"added at positions", "  c = b.clone()\n  c[i] += 1.0\n  return c\n"},
    {"index_put", "  return torch.index_put(b, [s > 0.5], torch.tensor(2.0))\n"},
    {"columns at positions", "  return b[:, i % 4]\n"},
};

Tensor positions(int64_t n) { return at::arange(n).flip(0); }

class EveryBracket : public testing::TestWithParam<Brackets> {};

TEST_P(EveryBracket, IsTheModulesOwnAtEverySize) {
  const at::NoGradGuard no_grad;
  const Module module = module_of(GetParam().body);
  const auto f = escapement::jit<Tensor(Tensor, Tensor, Tensor)>(module);
  for (int round = 0; round < 2; ++round) {
    for (const int64_t n : {5, 7, 1, 9, 2, 6}) {
      const Tensor b = at::rand({n, 4}), s = at::rand({n}), i = positions(n), before = b.clone();
      const Tensor expected = Module(module).forward({b, s, i}).toTensor(), seen = f(b, s, i);
      ASSERT_EQ(seen.sizes(), expected.sizes()) << n;
      EXPECT_TRUE(at::equal(seen, expected)) << n;
      EXPECT_TRUE(at::equal(b, before)) << n;
    }
  }
  EXPECT_LE(sum_of(f.explain(), "recordings"), GetParam().recordings) << f.explain();
  EXPECT_EQ(escapement::Script(module).refused(), "");
}

INSTANTIATE_TEST_SUITE_P(Script, EveryBracket, testing::ValuesIn(kBrackets), [](const auto& info) {
  std::string name;
  for (const char c : std::string(info.param.name))
    if (c != ' ') name += c;
  return name;
});

// --- the same through a function of C++ that calls the module

TEST(ScriptIndexing, InsideOfAFunction) {
  const at::NoGradGuard no_grad;
  const Module module = module_of("  c = b.clone()\n  c[s > 0.5] = 0.0\n  return c[i]\n");
  const auto f = escapement::jit([module](Tensor b, Tensor s, Tensor i) { return Module(module).forward({b, s, i}).toTensor() + 1; });
  for (const int64_t n : {5, 7, 1, 9}) {
    const Tensor b = at::rand({n, 4}), s = at::rand({n}), i = positions(n);
    EXPECT_TRUE(at::equal(f(b, s, i), Module(module).forward({b, s, i}).toTensor() + 1)) << n;
  }
}

// --- arguments

template <class... As>
void refuses_as_the_method(const char* type, const char* body, As... arguments) {
  Module module("M");
  module.define(std::string("def forward(self, a, n: ") + type + "):\n  " + body + "\n");
  const Tensor x = at::ones({3, 3});
  EXPECT_THROW(module.forward({x, arguments...}), c10::Error) << type;
  const auto f = escapement::jit<Tensor(Tensor, As...)>(module);
  for (int call = 0; call < 3; ++call) EXPECT_THROW(f(x, arguments...), c10::Error) << type << ": " << body << ", call " << call;
}

TEST(ScriptArguments, OfAnotherTypeAreRefused) {
  const at::NoGradGuard no_grad;
  refuses_as_the_method("int", "return a * n", 1.5);
  refuses_as_the_method("float", "return a * n", int64_t{2});
  refuses_as_the_method("int", "return a * n", true);
  refuses_as_the_method("bool", "return a if n else a * 2", int64_t{2});
  refuses_as_the_method("Tensor", "return a * n", int64_t{2});
  refuses_as_the_method("Tensor", "return a + n.sum()", 2.5);
  refuses_as_the_method("Optional[int]", "return a if n is None else a * 2", 1.5);
  refuses_as_the_method("int", "return a * n", at::ones({3}));
}

TEST(ScriptArguments, OfTheDeclaredTypesAreTaken) {
  const at::NoGradGuard no_grad;
  Module module("M");
  module.define("def forward(self, a, n: int, f: float, b: bool, o: Optional[int]):\n  y = a * n + f\n  return y if b else y * 2\n");
  const auto f = escapement::jit<Tensor(Tensor, int64_t, double, bool, std::optional<int64_t>)>(module);
  for (const int64_t n : {2, 3, 5}) {
    const Tensor x = at::rand({n, 3});
    const c10::IValue none;
    EXPECT_TRUE(at::equal(f(x, n, 0.5, n % 2 == 0, std::nullopt), module.forward({x, n, 0.5, n % 2 == 0, none}).toTensor()));
    EXPECT_TRUE(at::equal(f(x, n, 0.5, n % 2 == 0, n), module.forward({x, n, 0.5, n % 2 == 0, n}).toTensor()));
  }
}

// --- exceptions

TEST(ScriptExceptions, AreTheInterpretersOwn) {
  const at::NoGradGuard no_grad;
  Module module("M");
  module.define("def forward(self, a):\n  return a.mm(a) + 1\n");
  EXPECT_THROW(module.forward({at::ones({2, 3})}), std::runtime_error);
  const auto f = escapement::jit<Tensor(Tensor)>(module);
  EXPECT_THROW(f(at::ones({2, 3})), std::runtime_error);   // while it is recorded
  EXPECT_TRUE(at::equal(f(at::ones({3, 3})), module.forward({at::ones({3, 3})}).toTensor()));
  EXPECT_THROW(f(at::ones({2, 3})), std::runtime_error);   // and where it was
  EXPECT_TRUE(at::equal(f(at::ones({4, 4})), module.forward({at::ones({4, 4})}).toTensor()));
}

// --- what a prepared result may not say

TEST(LibraryCalls, AVectorByAMatrixWarnsOfNothing) {
  const at::NoGradGuard no_grad;
  const auto f = escapement::jit([](Tensor v, Tensor m) { return at::matmul(v, m) * 2; });
  testing::internal::CaptureStderr();
  for (const int64_t n : {4, 5, 1, 7, 4}) {
    const Tensor v = at::rand({n}), m = at::rand({n, n + 1});
    EXPECT_TRUE(at::allclose(f(v, m), at::matmul(v, m) * 2));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("resized"), std::string::npos);
}

}  // namespace
