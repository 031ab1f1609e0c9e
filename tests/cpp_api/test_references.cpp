// Parameters through which a function binds its caller's variables anew: references, pointers, reference_wrapper, of all kinds of
// values. Each program runs on variables of its own as C++ and through escapement::jit, several times; the variables must be equal after
// each call, in both modes, and in call mode one recording must have served.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <escapement/jit.h>
#include <gtest/gtest.h>

#include <map>

#include "programs.h"
#include "report.h"

namespace {

using at::Tensor;
using programs::Flat;

void expect_same(const Flat& found, const Flat& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(found[i].defined(), wanted[i].defined()) << i;
    if (!wanted[i].defined()) continue;
    ASSERT_EQ(found[i].sizes(), wanted[i].sizes()) << i;
    EXPECT_TRUE(at::allclose(found[i], wanted[i])) << i;
  }
}

// `start`: the variables; `call(f, variables, n)`: one call at size n.
template <class F, class Variables, class Call>
void check(F fn, Variables start, Call call, int recordings) {
  const at::NoGradGuard no_grad;
  for (const std::string mode : {"call", "replay"}) {
    SCOPED_TRACE(mode);
    const auto compiled = escapement::jit(fn, {{"mode", mode}});
    Variables plain = start, ours = start;
    for (const int64_t n : {4, 5, 1, 0, 7, 13, 4}) {
      SCOPED_TRACE(n);
      call(fn, plain, n);
      call(compiled, ours, n);
      expect_same(programs::flat(ours), programs::flat(plain));
    }
    if (mode == "call") {
      EXPECT_EQ(sum_of(compiled.explain(), "recordings"), recordings) << compiled.explain();
    }
  }
}

Tensor rows(int64_t n) { return at::arange(n, at::kFloat) + 1; }

TEST(References, ATensorIsBoundAnew) {
  check([](Tensor& state, const Tensor& x) { state = state * 0.5 + x.sum(); }, std::tuple(at::ones({2})),
        [](const auto& f, auto& v, int64_t n) { f(std::get<0>(v), rows(n)); }, 1);
}

TEST(References, OfAnotherSizeAtEachCall) {
  check([](Tensor& state, const Tensor& x) { state = at::cat({state, x}); }, std::tuple(at::ones({2})),
        [](const auto& f, auto& v, int64_t n) { f(std::get<0>(v), rows(n)); }, 1);
}

TEST(References, TwoAreSwapped) {
  const at::NoGradGuard no_grad;
  const auto f = escapement::jit([](Tensor& a, Tensor& b) { std::swap(a, b); });
  for (int i = 0; i < 3; ++i) {
    const Tensor one = at::ones({2}), other = at::zeros({3, 1});
    Tensor a = one, b = other;
    f(a, b);
    EXPECT_TRUE(a.is_same(other) && b.is_same(one));
  }
}

TEST(References, AnUntouchedOneStaysTheSameTensor) {
  const at::NoGradGuard no_grad;
  const auto f = escapement::jit([](Tensor& a) -> Tensor& { return a.add_(1); });
  Tensor a = at::zeros({2});
  const Tensor before = a;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(f(a).is_same(before));
    EXPECT_TRUE(a.is_same(before));
  }
  EXPECT_TRUE(at::equal(a, at::full({2}, 3)));
}

TEST(References, AVectorGrowsAndIsCleared) {
  check(
      [](std::vector<Tensor>& list, const Tensor& x) {
        list.push_back(x * 2);
        if (list.size() == 3) list.clear();
        if (list.size() == 2) std::swap(list[0], list[1]);
      },
      std::tuple(std::vector<Tensor>{}), [](const auto& f, auto& v, int64_t n) { f(std::get<0>(v), rows(n)); }, 3);
}

TEST(References, AnOptionalComesAndGoes) {
  check([](std::optional<Tensor>& state, const Tensor& x) { state ? state.reset() : void(state = x + 1); }, std::tuple(std::optional<Tensor>()),
        [](const auto& f, auto& v, int64_t n) { f(std::get<0>(v), rows(n)); }, 2);
}

TEST(References, UndefinedBecomesDefinedAndBack) {
  check([](Tensor& state, const Tensor& x) { state = state.defined() ? Tensor() : x + 1; }, std::tuple(Tensor()),
        [](const auto& f, auto& v, int64_t n) { f(std::get<0>(v), rows(n)); }, 2);
}

TEST(References, NumbersAndTuples) {
  check(
      [](std::tuple<Tensor, Tensor>& pair, int64_t& count, bool& odd, c10::SymInt& symbol) {
        pair = {std::get<1>(pair) + 1, std::get<0>(pair)};
        count = 7;
        odd = !odd;
        symbol = symbol + 3;
      },
      std::tuple(std::tuple(at::ones({3}), at::zeros({3})), int64_t{7}, false, c10::SymInt(2)),
      [](const auto& f, auto& v, int64_t) { f(std::get<0>(v), std::get<1>(v), std::get<2>(v), std::get<3>(v)); }, 2);
}

TEST(References, ADoubleIsAConstantAndComesBack) {
  const at::NoGradGuard no_grad;
  const auto f = escapement::jit([](double& rate, const Tensor& x) { rate *= 0.5; return x * rate; });
  for (int i = 0; i < 6; ++i) {
    double rate = 8 >> (i % 3);
    EXPECT_TRUE(at::allclose(f(rate, at::ones({2})), at::full({2}, (8 >> (i % 3)) * 0.5)));
    EXPECT_EQ(rate, (8 >> (i % 3)) * 0.5);
  }
}

TEST(References, Pointers) {
  check([](Tensor* state, const Tensor* x) { if (state) *state = x ? *state + x->sum() : *state * 2; }, std::tuple(at::ones({3})),
        [](const auto& f, auto& v, int64_t n) {
          const Tensor x = rows(n);
          f(&std::get<0>(v), n % 2 ? &x : nullptr);
          f(nullptr, &x);
        },
        3);
}

TEST(References, ReferenceWrapper) {
  check([](std::reference_wrapper<Tensor> state, const Tensor& x) { state.get() = state.get() - x.sum(); }, std::tuple(at::ones({3})),
        [](const auto& f, auto& v, int64_t n) { f(std::ref(std::get<0>(v)), rows(n)); }, 1);
}

TEST(References, AnRvalueIsMovedFrom) {
  const at::NoGradGuard no_grad;
  const auto f = escapement::jit([](Tensor&& x) { const Tensor own = std::move(x); return own + 1; });
  for (int i = 0; i < 3; ++i) {
    Tensor x = at::ones({2});
    EXPECT_TRUE(at::equal(f(std::move(x)), at::full({2}, 2)));
    EXPECT_FALSE(x.defined());
  }
}

TEST(References, MembersAndElements) {
  const at::NoGradGuard no_grad;
  const auto f = escapement::jit([](Tensor& state) { state = state + 1; });
  struct { Tensor hidden; } cell{at::zeros({2})};
  std::map<std::string, Tensor> named{{"a", at::zeros({2})}};
  for (int i = 0; i < 3; ++i) f(cell.hidden), f(named["a"]);
  EXPECT_TRUE(at::equal(cell.hidden, at::full({2}, 3)));
  EXPECT_TRUE(at::equal(named["a"], at::full({2}, 3)));
}

// Two names of one variable: what is bound through one is seen through the other.
TEST(References, OneVariableUnderTwoNamesRunsPlainly) {
  const at::NoGradGuard no_grad;
  const auto plain = [](Tensor& a, const Tensor& b) { a = a * 2; a = a + b; };
  const auto f = escapement::jit(plain);
  Tensor x = at::ones({2}), y = at::ones({2});
  const int64_t before = escapement::counter("aliased_references");
  for (int i = 0; i < 3; ++i) plain(x, x), f(y, y);
  EXPECT_TRUE(at::equal(x, y));
  EXPECT_EQ(escapement::counter("aliased_references"), before + 3);
  Tensor same = y;   // another variable with the same tensor: the names are independent
  f(y, same);
  EXPECT_TRUE(at::equal(y, same * 3));
  EXPECT_EQ(escapement::counter("aliased_references"), before + 3);
}

TEST(References, AnElementOfAVectorIsAlsoANameOfIt) {
  const at::NoGradGuard no_grad;
  const auto plain = [](std::vector<Tensor>& list, Tensor& first) { first = first + 1; list[0] = list[0] * 2; };
  const auto f = escapement::jit(plain);
  std::vector<Tensor> a{at::ones({2})}, b{at::ones({2})};
  for (int i = 0; i < 3; ++i) plain(a, a[0]), f(b, b[0]);
  EXPECT_TRUE(at::equal(a[0], b[0]));
}

TEST(References, StrictNamesTheAlias) {
  const auto f = escapement::jit([](Tensor& a, const Tensor& b) { a = a + b; }, {{"strict", "true"}});
  Tensor x = at::ones({2});
  EXPECT_THROW(f(x, x), std::exception);
}

TEST(References, WhatWasBoundBeforeAnExceptionStays) {
  const at::NoGradGuard no_grad;
  const auto plain = [](Tensor& state, const Tensor& x) {
    state = state + 1;
    if (x.size(0) > 3) throw std::runtime_error("late");
    state = state * x.sum();
  };
  for (const std::string mode : {"call", "replay"}) {
    const auto f = escapement::jit(plain, {{"mode", mode}});
    for (const int64_t n : {2, 5, 3, 5, 7, 2}) {
      Tensor a = at::ones({3}), b = at::ones({3});
      std::string wanted, found;
      try { plain(a, rows(n)); } catch (const std::runtime_error& error) { wanted = error.what(); }
      try { f(b, rows(n)); } catch (const std::runtime_error& error) { found = error.what(); }
      EXPECT_EQ(found, wanted);
      EXPECT_TRUE(at::equal(a, b)) << mode << ' ' << n;
      EXPECT_TRUE(at::equal(b.clone().add_(1), a + 1));   // an ordinary tensor
    }
  }
}

// A library refuses some sizes; a version serves the others, and no version knows how far the function gets.
TEST(References, WhatWasBoundBeforeALibraryRefusesStays) {
  const at::NoGradGuard no_grad;
  const auto plain = [](Tensor& state, const Tensor& x) {
    state = state + 1;
    const Tensor y = at::conv1d(x.unsqueeze(0), at::ones({1, 1, 2}));
    state = state * y.sum();
  };
  for (const std::string mode : {"call", "replay"}) {
    const auto f = escapement::jit(plain, {{"mode", mode}});
    for (const int64_t n : {4, 1, 5, 0, 7, 13, 1, 2}) {
      Tensor a = at::ones({3}), b = at::ones({3});
      const auto refuses = [n](const auto& function, Tensor& variable) {
        try { function(variable, rows(n).unsqueeze(0)); } catch (const c10::Error&) { return true; }
        return false;
      };
      EXPECT_EQ(refuses(f, b), n < 2 && refuses(plain, a)) << mode << ' ' << n;
      if (n >= 2) plain(a, rows(n).unsqueeze(0));
      EXPECT_TRUE(at::equal(a, b)) << mode << ' ' << n;
    }
    if (mode == "call") {
      EXPECT_EQ(sum_of(f.explain(), "recordings"), 1) << f.explain();
    }
  }
}

// As above, but that something has been changed: nobody could run the function once more.
TEST(References, WhatWasBoundBeforeALibraryRefusesBehindAWriteStays) {
  const at::NoGradGuard no_grad;
  const auto plain = [](Tensor& state, Tensor x) {
    x.add_(1);
    state = state + 1;
    state = state * at::conv1d(x.unsqueeze(0), at::ones({1, 1, 2})).sum();
  };
  const auto f = escapement::jit(plain);
  for (const int64_t n : {4, 1, 5, 0, 7, 13, 1, 2}) {
    Tensor a = at::ones({3}), b = at::ones({3}), x = rows(n).unsqueeze(0), y = rows(n).unsqueeze(0);
    if (n < 2) {
      EXPECT_THROW(plain(a, x), c10::Error);
      EXPECT_THROW(f(b, y), c10::Error);
    } else {
      plain(a, x), f(b, y);
    }
    EXPECT_TRUE(at::equal(a, b)) << n;
    EXPECT_TRUE(at::equal(x, y)) << n;
  }
  EXPECT_GT(sum_of(f.explain(), "data_dependent_guard"), 0) << f.explain();
}

TEST(References, AWriteBeforeALibraryRefusesIsMadeOnce) {
  const at::NoGradGuard no_grad;
  const auto plain = [](Tensor x) { return x.add_(1), at::conv1d(x.unsqueeze(0), at::ones({1, 1, 2})); };
  const auto f = escapement::jit<Tensor(Tensor)>(plain);
  for (const int64_t n : {4, 1, 5, 0, 7, 13, 1, 2}) {
    Tensor x = rows(n).unsqueeze(0);
    const auto version = x._version();
    if (n < 2) {
      EXPECT_THROW(f(x), c10::Error);
    } else {
      EXPECT_TRUE(at::equal(f(x), plain(rows(n).unsqueeze(0))));
    }
    EXPECT_TRUE(at::equal(x, rows(n).unsqueeze(0) + 1)) << n;
    EXPECT_GT(x._version(), version) << n;
  }
  EXPECT_EQ(sum_of(f.explain(), "recordings"), 1) << f.explain();
}

TEST(References, InsideAnotherFunction) {
  const at::NoGradGuard no_grad;
  const auto step = [](Tensor& state, const Tensor& x) { state = state * 0.5 + x; };
  const auto inner = std::make_shared<escapement::Jitted<void(Tensor&, const Tensor&)>>(escapement::jit(step));
  check([inner](Tensor& state, Tensor x) { (*inner)(state, x.sum()); (*inner)(state, state); }, std::tuple(at::ones({3})),
        [&](const auto& f, auto& v, int64_t n) { f(std::get<0>(v), rows(n)); }, 1);
}

}  // namespace
