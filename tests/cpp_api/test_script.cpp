// TorchScript modules through escapement/script.h: programs at many sizes against the module's own calls, how many recordings they take, and
// what is noticed of the module between calls.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <escapement/script.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/runtime/jit_exception.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "report.h"

namespace {

using at::Tensor;
using escapement::Script;
using torch::jit::Module;

constexpr int64_t kSizes[][2] = {{3, 4}, {5, 7}, {1, 6}, {4, 1}, {1, 1}, {2, 9}, {0, 3}, {6, 2}};

// A module of these methods, with a weight of eight columns, a counter and a part of its own.
Module module_of(const std::string& source) {
  Module inner("inner");
  inner.register_parameter("scale", at::arange(8, at::kFloat) / 8, false);
  inner.define("def forward(self, x):\n  return x * self.scale\n");
  Module module("outer");
  module.register_parameter("weight", at::linspace(-1, 1, 64).view({8, 8}), false);
  module.register_buffer("shift", at::ones({8}));
  module.register_attribute("count", c10::IntType::get(), int64_t{2});
  module.register_attribute("training", c10::BoolType::get(), false);
  module.register_module("inner", inner);
  module.define(source);
  module.eval();
  return module;
}

Tensor image(int64_t a, int64_t b) { return at::sin(at::arange(a * b * 8, at::kFloat) * 1.7).view({a, b, 8}); }

struct Program {
  const char* name;
  const char* source;   // of forward(self, x: Tensor) -> Tensor; x is (a, b, 8)
  int recordings;       // at all of kSizes
  size_t answers = 0;   // about sizes that the program got, in all recordings: a branch, a number
};

// What TorchScript programs do with sizes, containers, branches and parts of themselves.
const Program kPrograms[] = {
    {"linear", "def forward(self, x):\n  return torch.relu(torch.matmul(x, self.weight) + self.shift)\n", 1},
    {"part", "def forward(self, x):\n  return self.inner.forward(x) + self.inner.forward(x * 2)\n", 1},
    {"heads", "def forward(self, x):\n  b, n, d = x.shape\n  q = x.view(b, n, 4, d // 4).transpose(1, 2)\n"
              "  return torch.matmul(torch.softmax(torch.matmul(q, q.transpose(-1, -2)), -1), q).transpose(1, 2).reshape(b, n, d)\n", 1},
    {"size of an axis", "def forward(self, x):\n  n = x.size(1)\n  return x.reshape(x.size(0) * n, 8) / float(n + 1)\n", 1},
    {"made sizes", "def forward(self, x):\n  m = torch.tril(torch.ones([x.size(1), x.size(1)]))\n  return torch.matmul(m, x)\n", 1},
    {"list of sizes", "def forward(self, x):\n  s = [x.size(0), x.size(1)]\n  s.append(2)\n  s.append(4)\n  return x.view(s).sum(-1)\n", 1},
    {"size of a list", "def forward(self, x):\n  s = x.size()\n  return x.new_zeros(s[1:]) + x.mean(0) * len(s)\n", 1},
    {"concatenated sizes", "def forward(self, x):\n  return x.view(x.size()[:-1] + [2, 4]).transpose(-1, -2).contiguous()\n", 1},
    {"arange", "def forward(self, x):\n  p = torch.arange(x.size(1), dtype=6)\n  return x * p.unsqueeze(-1)\n", 1},
    {"expand", "def forward(self, x):\n  return self.shift.unsqueeze(0).expand(x.size(0), -1) + x.sum(1)\n", 1},
    {"numel", "def forward(self, x):\n  return x.reshape(-1)[0:x.numel()] * 2 + x.numel()\n", 1},
    {"len", "def forward(self, x):\n  return x.sum(0) / max(len(x), 1)\n", 1},
    {"chunks", "def forward(self, x):\n  a, b = torch.chunk(x, 2, -1)\n  return a * torch.sigmoid(b)\n", 1},
    {"parts by size", "def forward(self, x):\n  a = torch.split(x, [2, 6], -1)\n  return torch.cat([a[1], a[0]], -1)\n", 1},
    {"tuple", "def forward(self, x):\n  t = (x + 1, x * 2)\n  a, b = t\n  return a * b + t[1]\n", 1},
    {"table", "def forward(self, x):\n  d = {'a': x + 1}\n  d['b'] = d['a'] * 2\n  return d['a'] + d['b']\n", 1},
    {"optional", "def forward(self, x):\n  m: Optional[Tensor] = None\n  if x.dim() == 3:\n    m = x.mean()\n  y = x\n  if m is not None:\n    y = x - m\n  return y\n", 1},
    {"written", "def forward(self, x):\n  y = x.clone()\n  y[:, 0:1] = 0.5\n  y.mul_(2)\n  return y + 1\n", 1},
    {"rounds", "def forward(self, x):\n  for i in range(3):\n    x = torch.tanh(x + i)\n  return x\n", 1},
    {"until", "def forward(self, x):\n  i = 0\n  while i < self.count:\n    x = x * 0.5 + i\n    i += 1\n  return x\n", 1},
    {"branch by dtype", "def forward(self, x):\n  if x.dtype == 6:\n    return x + 1\n  return x - 1\n", 1},
    {"two branches", "def forward(self, x):\n  if x.size(1) > 3:\n    return x * 2\n  return x - 1\n", 2, 2},
    {"a refusal", "def forward(self, x):\n  assert x.size(-1) == 8, 'columns'\n  assert x.dim() == 3, 'rank'\n  return x + 1\n", 1, 1},
    {"integers and floats", "def forward(self, x):\n  n = x.size(0)\n  a = n * 0.5 + x.size(1)\n  b = (n + 1) / 2\n  return x * a - b * float(n) + max(n, 2)\n", 1},
    {"truths as numbers", "def forward(self, x):\n  n = x.size(1)\n  return x * int(n > 3) + int(n > 3 and n < 8)\n", 3, 4},
    {"bits of sizes", "def forward(self, x):\n  return x * (x.size(2) & 3) + (x.size(2) | 1)\n", 1, 1},
    {"powers", "def forward(self, x):\n  return x * x.size(2) ** 2 + 2 ** x.size(2)\n", 1, 1},
    {"negative sizes", "def forward(self, x):\n  n = -x.size(1)\n  return x[:, n:] + x.size(1) % 3 - x.size(1) // 2\n", 1},
    {"parts of tuples", "def forward(self, x):\n  t = (x, x + 1, x.size(0), x * 2)\n  u = t[1:3]\n  return t[-1] + u[0] * u[1]\n", 1},
    {"kinds of values", "def forward(self, x):\n  y: Optional[Tensor] = x\n  if isinstance(y, Tensor):\n    return y + 1\n  return x\n", 1},
    {"sums of lists", "def forward(self, x):\n  s = x.size()\n  return x + sum(s) + max(s) - min(s)\n", 1},
    {"rounds over a size", "def forward(self, x):\n  for i in range(x.size(2)):\n    x = x + x[:, :, i:i + 1]\n  return x\n", 1, 1},
    {"a warning", "def forward(self, x):\n  torch.warn('once')\n  return x + 1\n", 1},
    {"functions", "def twice(self, x: Tensor, by: float = 2.0):\n  return x * by\ndef forward(self, x):\n  return self.twice(self.twice(x), 3.0)\n", 1},
    {"interpolated", "def forward(self, x):\n  y = x.transpose(1, 2)\n  return torch.cat([y, y], 2)[:, :, 0:x.size(1)].transpose(1, 2)\n", 1},
    {"normalised", "def forward(self, x):\n  return torch.layer_norm(x, [8], self.shift, None, 1e-5)\n", 1},
    {"a number as a tensor", "def forward(self, x):\n  return x / torch.sqrt(torch.tensor(float(x.size(2) * (x.size(1) + 1))))\n", 1},
};

Tensor called(const Module& module, const Tensor& x) { return Module(module).forward({x}).toTensor(); }

class EveryProgram : public testing::TestWithParam<Program> {};

TEST_P(EveryProgram, IsTheModulesOwnAtEverySize) {
  const at::NoGradGuard no_grad;
  const Module module = module_of(GetParam().source);
  ASSERT_EQ(Script(module).refused(), "");
  const auto f = escapement::jit<Tensor(Tensor)>(module);
  const int64_t launches = escapement::counter("launches"), library_calls = escapement::counter("library_calls");
  for (int round = 0; round < 2; ++round) {
    for (const auto& [a, b] : kSizes) {
      const Tensor x = image(a, b), expected = called(module, x), seen = f(x);
      ASSERT_EQ(seen.sizes(), expected.sizes()) << a << ", " << b;
      EXPECT_TRUE(at::allclose(seen, expected, 1e-5, 1e-6, /*equal_nan=*/true)) << a << ", " << b;
    }
  }
  EXPECT_EQ(sum_of(f.explain(), "recordings"), GetParam().recordings) << f.explain();
  EXPECT_EQ(f.escapes().size(), GetParam().answers) << f.explain();
  EXPECT_GT(escapement::counter("launches") + escapement::counter("library_calls"), launches + library_calls);
  EXPECT_EQ(f.metrics().hits, static_cast<int64_t>(2 * std::size(kSizes)) - GetParam().recordings);
}

TEST_P(EveryProgram, RunsInReplayMode) {
  const at::NoGradGuard no_grad;
  const Module module = module_of(GetParam().source);
  const auto f = escapement::jit<Tensor(Tensor)>(module, {.mode = escapement::Mode::replay});
  for (int round = 0; round < 2; ++round) {
    for (const auto& [a, b] : kSizes) {
      const Tensor x = image(a, b), expected = called(module, x), seen = f(x);
      ASSERT_EQ(seen.sizes(), expected.sizes()) << a << ", " << b;
      EXPECT_TRUE(at::allclose(seen, expected, 1e-5, 1e-6, /*equal_nan=*/true)) << a << ", " << b;
    }
  }
  EXPECT_GT(f.metrics().replays, 0) << f.explain();
}

INSTANTIATE_TEST_SUITE_P(Script, EveryProgram, testing::ValuesIn(kPrograms), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

// --- traced programs compute sizes with tensors

TEST(TracedScript, TensorsThatHoldSizesStaySymbolic) {
  const at::NoGradGuard no_grad;
  const std::string text = R"(graph(%self, %x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %minus : int = prim::Constant[value=-1]()
  %n : int = aten::size(%x, %zero)
  %a : Tensor = prim::NumToTensor(%n)
  %m : int = aten::size(%x, %one)
  %b : Tensor = prim::NumToTensor(%m)
  %ab : Tensor = aten::mul(%a, %b)
  %abb : Tensor = aten::add(%ab, %b, %one)
  %less : Tensor = aten::sub(%abb, %b, %one)
  %rows : int = aten::Int(%less)
  %sizes : int[] = prim::ListConstruct(%rows, %minus)
  %y : Tensor = aten::view(%x, %sizes)
  %z : Tensor = aten::mul(%y, %abb)
  return (%z))";
  Module module = module_of("def other(self, x):\n  return x\n");
  const auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(text, graph.get());
  graph->inputs()[0]->setType(module.type());
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(c10::QualifiedName(*module.type()->name(), "forward"), graph));
  const auto f = escapement::jit<Tensor(Tensor)>(module);
  for (const auto& [a, b] : kSizes) {
    if (a == 0) continue;
    const Tensor x = image(a, b);
    EXPECT_TRUE(at::equal(f(x), called(module, x))) << a << ", " << b;
  }
  EXPECT_EQ(f.metrics().recordings, 1) << f.explain();
}

// --- what a method is called with

TEST(ScriptCalls, ArgumentsAndResultsOfEveryKind) {
  const at::NoGradGuard no_grad;
  Module module = module_of(R"(
def forward(self, x: Tensor, parts: List[Tensor], times: int, by: float, on: bool, mask: Optional[Tensor] = None, bias: float = 0.5) -> Tuple[Tensor, List[Tensor], int]:
  y = torch.cat(parts, 0) * times + by
  if on:
    y = y + 1
  if mask is not None:
    y = y * mask
  return y + x + bias, [y, x], x.size(0) * times
)");
  using Result = std::tuple<Tensor, std::vector<Tensor>, c10::SymInt>;
  const auto f = escapement::jit<Result(Tensor, std::vector<Tensor>, c10::SymInt, double, bool, std::optional<Tensor>)>(module);
  for (const int64_t n : {2, 3, 1, 5}) {
    for (const bool on : {true, false}) {
      const Tensor x = image(2 * n, 2), half = image(n, 2);
      const auto [y, list, count] = f(x, {half, half}, n, 1.5, on, x);
      const auto expected = module.forward({x, std::vector<Tensor>{half, half}, n, 1.5, on, x}).toTuple();
      EXPECT_TRUE(at::allclose(y, expected->elements()[0].toTensor()));
      EXPECT_TRUE(at::allclose(list[0], expected->elements()[1].toTensorVector()[0]));
      EXPECT_TRUE(list[1].is_same(x));
      EXPECT_EQ(count, expected->elements()[2].toInt());
    }
  }
  EXPECT_EQ(f.metrics().recordings, 2) << f.explain();
}

TEST(ScriptCalls, AnotherMethodAndWhatIsNone) {
  const at::NoGradGuard no_grad;
  const Module module = module_of("def forward(self, x):\n  return x\ndef encode(self, x):\n  return x + self.shift\n");
  const auto f = escapement::jit<Tensor(Tensor)>(Script(module, "encode"));
  EXPECT_TRUE(at::equal(f(image(2, 3)), image(2, 3) + 1));
  EXPECT_THROW(Script(module, "decode"), std::runtime_error);
}

TEST(ScriptCalls, AResultOfAnotherType) {
  const at::NoGradGuard no_grad;
  const Module module = module_of("def forward(self, x):\n  return {'y': x + 1}\n");
  const auto list = escapement::jit<std::vector<Tensor>(Tensor)>(module);
  const auto number = escapement::jit<int64_t(Tensor)>(module);
  for (const auto& call : {std::function<void()>([&] { list(image(2, 3)); }), std::function<void()>([&] { number(image(2, 3)); })}) {
    try {
      call();
      ADD_FAILURE() << "it raises nothing";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("Dict[str, Tensor]"), std::string::npos) << error.what();
    }
  }
}

TEST(ScriptCalls, WhatTheMethodRaises) {
  const at::NoGradGuard no_grad;
  const Module module = module_of("def forward(self, x):\n  assert x.size(0) < 4, 'too many rows, {} and {}'.format(x.size(0), str(x.size(1)))\n  return x + 1\n");
  const auto f = escapement::jit<Tensor(Tensor)>(module);
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(at::equal(f(image(2, 3)), image(2, 3) + 1));
    try {
      f(image(5, 3));
      ADD_FAILURE() << "it raises nothing";
    } catch (const torch::jit::JITException& error) {
      EXPECT_NE(std::string(error.what()).find("RuntimeError: AssertionError: too many rows, 5 and 3"), std::string::npos) << error.what();
    }
  }
  EXPECT_ANY_THROW(f(Tensor()));
}

// What an operator throws is in a recording what the interpreter makes of it.
TEST(ScriptCalls, ErrorsOfOperatorsAreTheInterpreters) {
  const at::NoGradGuard no_grad;
  for (const auto& [source, what] : {std::pair{"def forward(self, x):\n  l = [1, 2]\n  return x * l[x.size(0)]\n", "list index out of range"},
                                     {"def forward(self, x):\n  return x * (10 // x.size(1))\n", "division by 0"},
                                     {"def forward(self, x):\n  d = {1: 2}\n  return x * d[x.size(0)]\n", "KeyError"}}) {
    const Module module = module_of(source);
    const auto said = [&](auto call) {
      try {
        call();
      } catch (const std::exception& error) {
        return std::string(typeid(error).name()) + (std::string(error.what()).find(what) != std::string::npos ? what : error.what());
      }
      return std::string();
    };
    const auto f = escapement::jit<Tensor(Tensor)>(module);
    for (int call = 0; call < 3; ++call) {
      EXPECT_EQ(said([&] { f(image(5, 0)); }), said([&] { called(module, image(5, 0)); })) << what;
      EXPECT_EQ(said([&] { f(image(1, 1)); }), "") << what;
    }
  }
}

// What a builtin of TorchScript's looks at are numbers: symbols in a list were unequal to numbers, named s0 in texts, and no keys.
struct Answer {
  const char* name;
  const char* source;   // of forward(self, x: Tensor, h: Tensor)
};

const Answer kTruths[] = {
    {"lists that are equal", "def forward(self, x, h):\n  return h.size() == [1, x.size(0), 5]\n"},
    {"lists that differ", "def forward(self, x, h):\n  return [1, x.size(0), 5] != h.size()\n"},
    {"sizes of two tensors", "def forward(self, x, h):\n  return x.size() == h.size()\n"},
    {"a key of a literal", "def forward(self, x, h):\n  d = {x.size(0): 7}\n  return h.size(1) in d\n"},
    {"an item of a list", "def forward(self, x, h):\n  return x.size(0) in [1, 2, 4]\n"},
};
const Answer kTexts[] = {
    {"a text of sizes", "def forward(self, x, h):\n  return str(x.size()) + str(h.size()[1:])\n"},
    {"a text of a tuple", "def forward(self, x, h):\n  return str((x.size(0), 1)) + '{} {}'.format(x.size(), [h.size(1)])\n"},
    {"a text of nested lists", "def forward(self, x, h):\n  return str([x.size(), h.size()])\n"},
    {"a list of texts", "def forward(self, x, h):\n  return '-'.join([str(x.size(0)), str(x.numel())])\n"},
};
const Answer kNumbers[] = {
    {"a key", "def forward(self, x, h):\n  d: Dict[int, int] = {}\n  d[x.size(0)] = x.size(1)\n  return d[h.size(1)]\n"},
    {"where it stands", "def forward(self, x, h):\n  return [x.size(0), x.size(1), 7].index(7)\n"},
    {"counted", "def forward(self, x, h):\n  return x.size().count(2)\n"},
};
const Answer kLists[] = {
    {"sorted", "def forward(self, x, h):\n  s = [x.size(0), 3, x.size(1)]\n  s.sort()\n  return s\n"},
    {"sorted anew", "def forward(self, x, h):\n  return sorted([x.size(0), 3, x.size(1)])\n"},
    {"removed", "def forward(self, x, h):\n  s = [x.size(0), 9]\n  s.remove(h.size(1))\n  return s\n"},
    {"grown and cut", "def forward(self, x, h):\n  s = x.size() + [1]\n  s.append(h.size(1))\n  s.reverse()\n  return s[1:]\n"},
};

template <typename Result, size_t count>
void compare(const Answer (&rows)[count]) {
  const at::NoGradGuard no_grad;
  for (const Answer& row : rows) {
    const Module module = module_of(row.source);
    const auto f = escapement::jit<Result(Tensor, Tensor)>(module);
    for (const auto& [a, b] : kSizes) {
      const Tensor x = at::zeros({a, b}), h = at::zeros({1, a, 5});
      EXPECT_EQ(f(x, h), Module(module).forward({x, h}).template to<Result>()) << row.name << " at " << a << ", " << b;
    }
    EXPECT_EQ(f.metrics().eager_calls(), 0) << row.name;
  }
}

TEST(ScriptCalls, WhatBuiltinsSayOfSizes) {
  compare<bool>(kTruths);
  compare<std::string>(kTexts);
  compare<int64_t>(kNumbers);
  compare<std::vector<int64_t>>(kLists);
}

TEST(ScriptCalls, AnEscapeNamesTheProgramsLine) {
  const at::NoGradGuard no_grad;
  const auto f = escapement::jit<Tensor(Tensor)>(module_of("def forward(self, x):\n  y = x + 1\n  for i in range(x.size(1)):\n    y = y * 2\n  return y\n"));
  f(image(2, 3));
  ASSERT_EQ(f.escapes().size(), 1);
  EXPECT_NE(f.escapes()[0].where.find(":3"), std::string::npos) << f.escapes()[0].where;
}

// --- what is noticed of the module between calls

TEST(ScriptState, WhatIsAssignedToItIsSeen) {
  const at::NoGradGuard no_grad;
  Module module = module_of("def forward(self, x):\n  y = self.inner.forward(x) + self.shift\n  if self.training:\n    y = y * 2\n  return y * self.count\n");
  const auto f = escapement::jit<Tensor(Tensor)>(module);
  const auto holds = [&] {
    for (const auto& [a, b] : kSizes)
      if (!at::equal(f(image(a, b)), called(module, image(a, b)))) return false;
    return true;
  };
  EXPECT_TRUE(holds());
  module.setattr("shift", at::full({8}, 3.0));
  EXPECT_TRUE(holds());
  module.attr("shift").toTensor().add_(1);   // in place
  EXPECT_TRUE(holds());
  module.setattr("count", int64_t{5});
  EXPECT_TRUE(holds());
  module.train();
  EXPECT_TRUE(holds());
  module.eval();
  EXPECT_TRUE(holds());
  module.attr("inner").toModule().setattr("scale", at::ones({8}));
  EXPECT_TRUE(holds());
  EXPECT_GE(f.metrics().hits, 7 * static_cast<int64_t>(std::size(kSizes)) - 6) << f.explain();
}

// Equal as words, but not as values: kinds, devices, tensors at one address.
TEST(ScriptState, WhatIsAssignedIsOfAnotherKind) {
  const at::NoGradGuard no_grad;
  Module module = module_of("def forward(self, x):\n  return x\n");
  module.register_attribute("any", c10::AnyType::get(), c10::IValue());
  module.register_attribute("place", c10::DeviceObjType::get(), c10::Device(c10::kCPU));
  module.register_attribute("table", c10::TensorType::get(), at::ones({3}));
  module.define("def told(self, x):\n  v = self.any\n  n = self.table.size(0) * 100 + (1000 if self.place.type == 'meta' else 0)\n  if v is None:\n    return x + n\n"
                "  if isinstance(v, bool):\n    return x + n + 1\n  if isinstance(v, int):\n    return x + n + 2\n  if isinstance(v, float):\n    return x + n + 3\n"
                "  if isinstance(v, List[int]):\n    return x + n + 4\n  return x + n + 5\n");
  const auto f = escapement::jit<Tensor(Tensor)>(Script(module, "told"));
  const Tensor x = at::zeros({2, 2});
  const auto holds = [&] { return at::equal(f(x), module.get_method("told")({x}).toTensor()) && at::equal(f(x), module.get_method("told")({x}).toTensor()); };
  for (const c10::IValue& value : {c10::IValue(), c10::IValue(false), c10::IValue(int64_t{0}), c10::IValue(0.0), c10::IValue(c10::List<int64_t>())}) {
    module.setattr("any", value);
    EXPECT_TRUE(holds()) << value;
  }
  module.setattr("place", c10::Device(c10::kMeta));
  EXPECT_TRUE(holds());
  module.setattr("table", at::zeros({1}));
  module.setattr("table", at::ones({4}));
  EXPECT_TRUE(holds());
}

// What a method writes into its module would be lost on replay: TorchScript's interpreter runs it at every call.
TEST(ScriptState, AMethodThatWritesItsModuleRunsAtEveryCall) {
  const at::NoGradGuard no_grad;
  for (const auto mode : {escapement::Mode::call, escapement::Mode::replay}) {
    Module module = module_of("def forward(self, x):\n  self.count += 1\n  return x + self.count\n");
    EXPECT_NE(Script(module).refused().find("prim::SetAttr"), std::string::npos) << Script(module).refused();
    const auto f = escapement::jit<Tensor(Tensor)>(module, {.mode = mode});
    for (int64_t call = 1; call < 8; ++call) EXPECT_TRUE(at::equal(f(image(2, 2)), image(2, 2) + (2 + call))) << call;
    EXPECT_EQ(module.attr("count").toInt(), 9);
    EXPECT_EQ(f.metrics().hits, 0);
  }
}

TEST(ScriptState, AListOfTheModuleThatGrows) {
  const at::NoGradGuard no_grad;
  Module module = module_of("def forward(self, x):\n  return x\n");
  module.register_attribute("factors", c10::ListType::ofFloats(), c10::List<double>({1.0, 2.0}));
  module.define("def scaled(self, x):\n  for f in self.factors:\n    x = x * f\n  return x\n");
  const auto f = escapement::jit<Tensor(Tensor)>(Script(module, "scaled"));
  EXPECT_TRUE(at::equal(f(image(2, 2)), image(2, 2) * 2));
  module.attr("factors").toList().push_back(4.0);
  EXPECT_TRUE(at::equal(f(image(2, 2)), image(2, 2) * 8));
}

// What runs in TorchScript's interpreter while it is recorded compares its constants.
TEST(ScriptState, AModuleInsideOfALambda) {
  const at::NoGradGuard no_grad;
  Module module = module_of("def forward(self, x):\n  return torch.relu(torch.matmul(x, self.weight) + self.shift)\n");
  const auto f = escapement::jit([&](Tensor x) { return module.forward({x}).toTensor() * 2; });
  for (const auto& [a, b] : kSizes) EXPECT_TRUE(at::allclose(f(image(a, b)), called(module, image(a, b)) * 2));
  EXPECT_EQ(f.metrics().eager_calls(), 0) << f.explain();
}

TEST(Captures, TensorsOfTheProgramAreCompared) {
  const at::NoGradGuard no_grad;
  const Tensor table = at::arange(6, at::kFloat), other = at::arange(6, at::kFloat);
  const auto f = escapement::jit([&](Tensor x) { return at::equal(table, other) ? x + 1 : at::equal(x, table) ? x * 2 : x - 1; });
  EXPECT_TRUE(at::equal(f(table), table + 1));
  EXPECT_TRUE(at::equal(f(at::ones(3)), at::ones(3) + 1));
  other[2] = 9;
  EXPECT_TRUE(at::equal(f(table), table * 2));
  EXPECT_TRUE(at::equal(f(table + 1), table));
  other[2] = 2;
  EXPECT_TRUE(at::equal(f(table), table + 1));
  EXPECT_EQ(f.metrics().eager_calls(), 0) << f.explain();
}

}  // namespace
