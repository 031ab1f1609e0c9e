// Functions that catch what their operators raise. Each row runs as C++ and through escapement::jit, at sizes at which the operator raises
// and at sizes at which it does not: result, argument and random generator must be equal after each call, and nobody sees an exception
// that the function catches.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <escapement/jit.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "report.h"

namespace {

using at::Tensor;
using Function = std::function<Tensor(Tensor, Tensor)>;

// `y` holds positions; those from 4 on are outside of the table.
Tensor looked_up(const Tensor& y) { return at::arange(4, at::kFloat).index_select(0, y); }

Tensor twice(const Tensor& x) { return x * 2; }

__attribute__((noinline)) Tensor caught_by_callee(const Tensor& y) {
  try {
    return looked_up(y);
  } catch (...) {
    return at::zeros({1});
  }
}

__attribute__((noinline)) Tensor raised_by_callee(const Tensor& y) { return looked_up(y) + 1; }

struct Row {
  const char* name;
  Function function;
};

const Row kCatching[] = {
    {"c10::Error behind a write",
     [](Tensor x, Tensor y) {
       x.add_(1);
       try {
         return looked_up(y);
       } catch (const c10::Error&) {
         return x - 1;
       }
     }},
    {"std::exception behind a draw",
     [](Tensor x, Tensor y) {
       const Tensor noise = at::rand({2});
       try {
         return looked_up(y) + noise.sum();
       } catch (const std::exception&) {
         return x * noise.sum();
       }
     }},
    {"anything, in a callee",
     [](Tensor x, Tensor y) {
       x.mul_(2);
       return caught_by_callee(y).sum() + x;
     }},
    {"raised by a callee",
     [](Tensor x, Tensor y) {
       x.mul_(2);
       try {
         return raised_by_callee(y).sum() + x;
       } catch (const c10::Error&) {
         x.add_(3);
       }
       return twice(x);
     }},
    {"another type first",
     [](Tensor x, Tensor y) {
       x.mul_(2);
       try {
         return looked_up(y);
       } catch (const std::bad_alloc&) {
         return x;
       } catch (const c10::Error&) {
         return x + 7;
       }
     }},
    {"raised anew",
     [](Tensor x, Tensor y) {
       x.mul_(2);
       try {
         try {
           return looked_up(y);
         } catch (...) {
           x.add_(1);
           throw;
         }
       } catch (const c10::Error&) {
         return x + 7;
       }
     }},
    {"behind a write inside of the try",
     [](Tensor x, Tensor y) {
       try {
         x.sub_(1);
         return looked_up(y);
       } catch (const c10::Error&) {
         return twice(x);
       }
     }},
    {"in a loop",
     [](Tensor x, Tensor y) {
       int failures = 0;
       for (int64_t i = 0; i < 3; ++i) {
         x.add_(1);
         try {
           x = x + looked_up(y + i).sum();
         } catch (const c10::Error&) {
           ++failures;
         }
       }
       return x + failures;
     }},
};

// The exception leaves the function: with destructors on its way, and through handlers that do not stand around the operator.
const Row kRaising[] = {
    {"destructors",
     [](Tensor x, Tensor y) {
       const Tensor kept = x.add_(1);
       const std::vector<Tensor> others{kept, y};
       return looked_up(y).sum() + others[0];
     }},
    {"a try before it",
     [](Tensor x, Tensor y) {
       try {
         x = twice(x);
       } catch (const c10::Error&) {
         return y;
       }
       x.add_(1);
       return looked_up(y).sum() + x;
     }},
};

struct Outcome {
  Tensor result, argument, draw;
  bool raised = false;
};

Outcome run(const Function& function, int64_t n, int64_t position) {
  Outcome outcome;
  at::manual_seed(3);
  outcome.argument = at::arange(n, at::kFloat);
  try {
    outcome.result = function(outcome.argument, at::full({2}, position, at::kLong));
  } catch (const c10::Error&) {
    outcome.raised = true;
  }
  outcome.draw = at::rand({1});
  return outcome;
}

void expect_same(const Outcome& found, const Outcome& wanted) {
  EXPECT_EQ(found.raised, wanted.raised);
  EXPECT_EQ(found.result.defined(), wanted.result.defined());
  if (found.result.defined() && wanted.result.defined()) EXPECT_TRUE(at::equal(found.result, wanted.result));
  EXPECT_TRUE(at::equal(found.argument, wanted.argument));
  EXPECT_TRUE(at::equal(found.draw, wanted.draw));
}

// `positions`: the first decides what is recorded.
void check(const Row& row, std::vector<int64_t> positions) {
  const at::NoGradGuard no_grad;
  for (const std::string mode : {"call", "replay"}) {
    const auto compiled = escapement::jit<Tensor(Tensor, Tensor)>(row.function, {{"mode", mode}});
    for (const int64_t position : positions)
      for (const int64_t n : {3, 5, 1, 0}) {
        SCOPED_TRACE(std::string(row.name) + ", " + mode + ", position " + std::to_string(position) + ", size " + std::to_string(n));
        expect_same(run([&](Tensor x, Tensor y) { return compiled(x, y); }, n, position), run(row.function, n, position));
      }
  }
}

TEST(Caught, BehindAnEffect) {
  for (const Row& row : kCatching) {
    check(row, {1, 9, 2, 3, 7});
    check(row, {9, 1, 2, 9});
  }
}

TEST(Caught, ByTheCallerOnly) {
  for (const Row& row : kRaising) check(row, {1, 9, 2, 9});
}

int64_t refused(const Function& function) {
  const at::NoGradGuard no_grad;
  return grown("data_dependent_guard", [&] {
    for (const int64_t n : {3, 5, 4}) run(function, n, 1);
  });
}

// Who calls may catch whatever it likes, and destructors are no handlers: such a function is compiled.
TEST(Caught, HandlersOfOthersDoNotCount) {
  const auto compiled = escapement::jit<Tensor(Tensor, Tensor)>(kRaising[0].function);
  EXPECT_EQ(refused([&](Tensor x, Tensor y) { return compiled(x, y); }), 0);
}

// A compiled function inside another is a part of it: with its handlers, and inside of the other's.
TEST(Caught, ByOrFromACompiledFunctionInside) {
  const auto plain = escapement::jit<Tensor(Tensor, Tensor)>(kRaising[0].function);
  const auto catching = escapement::jit<Tensor(Tensor, Tensor)>(kCatching[0].function);
  const auto calls = [](const auto& inner) { return escapement::jit<Tensor(Tensor, Tensor)>([inner = &inner](Tensor x, Tensor y) { return (*inner)(x, y); }); };
  const auto outer = calls(plain), outer_catching = calls(catching);
  EXPECT_EQ(refused([&](Tensor x, Tensor y) { return outer(x, y); }), 0);
  EXPECT_GT(refused([&](Tensor x, Tensor y) { return outer_catching(x, y); }), 0);
  const auto tries = escapement::jit<Tensor(Tensor, Tensor)>([&](Tensor x, Tensor y) {
    try {
      return plain(x, y);
    } catch (const c10::Error&) {
      return x;
    }
  });
  EXPECT_GT(refused([&](Tensor x, Tensor y) { return tries(x, y); }), 0);
}

TEST(Caught, IsCounted) {
  EXPECT_GT(grown("data_dependent_guard", [] { check(kCatching[0], {1, 2}); }), 0);
}

}  // namespace
