// Replay mode without Python: C++ functions whose host code a recording could not hold still, equal to eager in every call;
// and counters that say that segments were launched compiled.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <thread>

#include "torch/program/engine.h"
#include "torch/replay_mode/replay_region.h"

namespace escapement {
namespace {

using Values = ReplayRegion::Values;
using Body = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

int64_t counter(const std::string& name) {
  for (const auto& [key, value] : counter_facts())
    if (key == name) return value;
  return 0;
}

class Replayed {
 public:
  explicit Replayed(Body body) : region_("test", [body](const Values& in, Values& out) {
    std::vector<at::Tensor> tensors;
    for (const c10::IValue& value : in) tensors.push_back(value.toTensor());
    for (at::Tensor& result : body(tensors)) out.emplace_back(std::move(result));
  }, default_options()) {}

  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& in) {
    Values arguments(in.begin(), in.end()), outputs;
    region_.call(arguments, outputs);
    std::vector<at::Tensor> results;
    for (const c10::IValue& value : outputs) results.push_back(value.toTensor());
    return results;
  }
  const ReplayRegion& region() const { return region_; }

 private:
  ReplayRegion region_;
};

constexpr std::pair<int64_t, int64_t> kShapes[] = {{3, 4}, {5, 7}, {2, 9}, {1, 4}, {4, 1}, {1, 1}, {0, 3}, {6, 6}, {5, 2}, {9, 3}};

void expect_equal(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& eager, const ReplayRegion& region) {
  ASSERT_EQ(ours.size(), eager.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].sizes(), eager[i].sizes()) << region.text();
    EXPECT_TRUE(ours[i].isclose(eager[i], 1e-5, 1e-6, true).all().item<bool>()) << region.text();
  }
}

// `make` gives host code with a state of its own.
void expect_as_eager(const std::function<Body()>& make, bool launches = true) {
  const at::NoGradGuard no_grad;
  Replayed ours(make());
  const Body eager = make();
  const int64_t hits = counter("hits");
  for (int round = 0; round < 2; ++round) {
    for (const auto& [rows, columns] : kShapes) {
      const at::Tensor x = at::randn({rows, columns}), y = at::randn({rows, columns});
      const std::vector<at::Tensor> mine{x.clone(), y.clone()}, other{x.clone(), y.clone()};
      at::manual_seed(round);
      const auto got = ours(mine);
      at::manual_seed(round);
      expect_equal(got, eager(other), ours.region());
      expect_equal(mine, other, ours.region());
    }
  }
  if (launches) {
    EXPECT_GT(counter("hits"), hits) << ours.region().text();
  }
}

TEST(ReplayMode, AChainIsOneRecordingForAllSizes) {
  const at::NoGradGuard no_grad;
  Replayed ours([](const auto& in) { return std::vector<at::Tensor>{at::relu(in[0] * 2 + in[1]).sigmoid()}; });
  const int64_t recordings = counter("recordings");
  for (const auto& [rows, columns] : {std::pair{3, 4}, {5, 7}, {2, 9}, {8, 3}}) {
    const at::Tensor x = at::randn({rows, columns}), y = at::randn({rows, columns});
    expect_equal(ours({x, y}), {at::relu(x * 2 + y).sigmoid()}, ours.region());
  }
  EXPECT_EQ(counter("recordings"), recordings + 1) << ours.region().text();
}

TEST(ReplayMode, SizesOfPendingTensors) {
  expect_as_eager([] {
    return [](const auto& in) {
      const at::Tensor z = in[0] + 1;
      return std::vector<at::Tensor>{z.view({z.size(1), z.size(0)}) * 2, z.transpose(0, 1).contiguous().view({-1})};
    };
  });
}

TEST(ReplayMode, ABranchOnAValue) {
  expect_as_eager([] {
    return [](const auto& in) {
      const at::Tensor z = in[0] * in[1];
      if (z.sum().template item<float>() > 0) return std::vector<at::Tensor>{at::exp(z) + 1};
      return std::vector<at::Tensor>{at::relu(z) - 1};
    };
  });
}

TEST(ReplayMode, ACounter) {
  expect_as_eager([] {
    return [count = std::make_shared<int>(0)](const auto& in) {
      ++*count;
      return std::vector<at::Tensor>{in[0] * (1.0 / *count) + *count};
    };
  });
}

TEST(ReplayMode, ALoopThatEndsEarly) {
  expect_as_eager([] {
    return [](const auto& in) {
      at::Tensor z = at::ones_like(in[0]) * 8;
      for (int i = 0; i < 9 && (z > 0.5).any().template item<bool>(); ++i) z = z / 2 + in[1] * 0.01;
      return std::vector<at::Tensor>{z};
    };
  });
}

TEST(ReplayMode, MemoryThatIsRead) {
  expect_as_eager([] {
    return [](const auto& in) {
      const at::Tensor z = (in[0] + in[1]).contiguous();
      const float first = z.numel() ? z.template const_data_ptr<float>()[0] : 0;
      return std::vector<at::Tensor>{z * first};
    };
  });
}

TEST(ReplayMode, WritesToArgumentsAndViews) {
  expect_as_eager([] {
    return [](const auto& in) {
      at::Tensor z = in[0] * 2;
      at::Tensor row = z.select(1, 0);
      row.add_(5);
      at::Tensor(in[0]).mul_(3);
      at::Tensor(in[1]).add_(z);
      return std::vector<at::Tensor>{z, row, in[0] + in[1]};
    };
  });
}

TEST(ReplayMode, RandomNumbersInOrder) {
  expect_as_eager([] {
    return [](const auto& in) {
      const at::Tensor z = in[0] + 1;
      const at::Tensor noise = at::rand(in[0].sizes());
      return std::vector<at::Tensor>{at::dropout(z * noise, 0.5, true) + at::rand(in[0].sizes())};
    };
  });
}

TEST(ReplayMode, WhatIsKeptIsReal) {
  const at::NoGradGuard no_grad;
  at::Tensor kept;
  Replayed ours([&](const auto& in) {
    kept = in[0] * 2;
    return std::vector<at::Tensor>{kept + 1};
  });
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = at::randn({3, 4});
    ours({x});
    EXPECT_TRUE(kept.equal(x * 2));
    EXPECT_TRUE(kept.add_(1).equal(x * 2 + 1));
    EXPECT_EQ(kept.const_data_ptr<float>()[0], x.const_data_ptr<float>()[0] * 2 + 1);
  }
}

TEST(ReplayMode, ErrorsComeFromTheirOperator) {
  const at::NoGradGuard no_grad;
  Replayed ours([](const auto& in) {
    at::Tensor z = in[0] + 1;
    try {
      z = z + in[1];
    } catch (const c10::Error&) {
      z = z * 2;
    }
    return std::vector<at::Tensor>{z};
  });
  for (int i = 0; i < 4; ++i) {
    const at::Tensor x = at::randn({3, 4}), fits = at::randn({3, 4}), not_at_all = at::randn({5, 5});
    EXPECT_TRUE(ours({x, fits})[0].equal(x + 1 + fits));
    EXPECT_TRUE(ours({x, not_at_all})[0].equal((x + 1) * 2)) << ours.region().text();
  }
}

TEST(ReplayMode, MatrixSizesAreCheckedByTheirOperator) {
  const at::NoGradGuard no_grad;
  Replayed ours([](const auto& in) {
    const at::Tensor z = in[0] + 1;
    try {
      return std::vector<at::Tensor>{at::matmul(z, in[1]) + 1};
    } catch (const c10::Error&) {
      return std::vector<at::Tensor>{z * 2};
    }
  });
  for (int i = 0; i < 4; ++i) {
    const at::Tensor x = at::randn({3, 4}), fits = at::randn({4, 2}), not_at_all = at::randn({5, 2});
    EXPECT_TRUE(ours({x, fits})[0].allclose(at::matmul(x + 1, fits) + 1, 1e-4, 1e-5));
    EXPECT_TRUE(ours({x, not_at_all})[0].equal((x + 1) * 2)) << ours.region().text();
  }
}

TEST(ReplayMode, OtherThreads) {
  const at::NoGradGuard no_grad;
  Replayed ours([](const auto& in) {
    const at::Tensor z = in[0] * 2;
    at::Tensor there;
    std::thread([&] { there = z + 1; }).join();
    return std::vector<at::Tensor>{there * z};
  });
  for (int i = 0; i < 4; ++i) {
    const at::Tensor x = at::randn({3 + i, 4});
    EXPECT_TRUE(ours({x})[0].equal((x * 2 + 1) * (x * 2)));
  }
}

TEST(ReplayMode, ManyThreadsCallAtOnce) {
  Replayed ours([](const auto& in) { return std::vector<at::Tensor>{at::relu(in[0] * 2 + in[1]).sum(1) - 1}; });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const c10::InferenceMode inference;
      for (int i = 0; i < 50; ++i) {
        const at::Tensor x = at::randn({3 + t, 4 + i % 5}), y = at::randn({3 + t, 4 + i % 5});
        if (!ours({x, y})[0].allclose(at::relu(x * 2 + y).sum(1) - 1, 1e-5, 1e-5)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ReplayMode, ARegionInsideARegion) {
  const at::NoGradGuard no_grad;
  Replayed inner([](const auto& in) { return std::vector<at::Tensor>{in[0].relu() + 1}; });
  Replayed outer([&](const auto& in) { return std::vector<at::Tensor>{inner({in[0] * 2})[0] * 3}; });
  const int64_t recordings = counter("recordings");
  for (int i = 0; i < 4; ++i) {
    const at::Tensor x = at::randn({3 + i, 4});
    EXPECT_TRUE(outer({x})[0].equal(((x * 2).relu() + 1) * 3));
  }
  EXPECT_EQ(counter("recordings"), recordings + 1);
}

TEST(ReplayMode, GradientsAreEagers) {
  Replayed ours([](const auto& in) { return std::vector<at::Tensor>{(in[0] * 2).tanh().sum()}; });
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = at::randn({3, 4}).requires_grad_(), y = x.detach().clone().requires_grad_();
    ours({x})[0].backward();
    (y * 2).tanh().sum().backward();
    EXPECT_TRUE(x.grad().equal(y.grad()));
  }
}

}  // namespace
}  // namespace escapement
