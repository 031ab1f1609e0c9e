// The recorder without Python: C++ functions recorded once and replayed through ATen at other sizes.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <thread>

#include "recorder/replay.h"
#include "support/error.h"
#include "trace/verifier.h"

namespace escapement {
namespace {

using Values = std::vector<c10::IValue>;
using Program = std::function<Values(const std::vector<at::Tensor>&)>;

struct Recorded {
  Recording recording;
  Values outputs;
};

Recorded record(const Program& program, const std::vector<at::Tensor>& inputs) {
  Recorder recorder("test");
  std::vector<at::Tensor> wrapped;
  for (const at::Tensor& t : inputs) wrapped.push_back(recorder.tensor(t, ""));
  recorder.enter();
  Values outputs = program(wrapped);
  recorder.leave();
  Recording recording = recorder.finish(outputs);
  if (!recording.refused) verify(recording.trace);
  return {std::move(recording), std::move(outputs)};
}

ReplayResult run_again(const Recording& recording, const std::vector<at::Tensor>& inputs) {
  const Values values(inputs.begin(), inputs.end());
  return replay(recording, values);
}

void expect_same_everywhere(const Program& program) {
  const c10::InferenceMode inference;
  const Recorded run = record(program, {at::randn({3, 4}), at::randn({3, 4})});
  ASSERT_FALSE(run.recording.refused) << run.recording.refused_detail;
  for (const auto& [b, s] : {std::pair{5, 7}, {1, 1}, {2, 9}, {1, 6}}) {
    const std::vector<at::Tensor> inputs{at::randn({b, s}), at::randn({b, s})};
    const ReplayResult got = run_again(run.recording, inputs);
    ASSERT_EQ(got.failed, nullptr) << print(run.recording.trace);
    const Values want = program(inputs);
    ASSERT_EQ(got.outputs.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(got.outputs[i].toTensor().equal(want[i].toTensor()));
  }
}

TEST(Recorder, Pointwise) {
  expect_same_everywhere([](const auto& x) { return Values{at::relu(x[0] + x[1] * 2) / 3, x[0].sum(-1)}; });
}

TEST(Recorder, SymbolicSizesInCpp) {
  expect_same_everywhere([](const auto& x) {
    const c10::SymInt rows = x[0].sym_size(0), columns = x[0].sym_size(1);
    const at::Tensor flat = x[0].view_symint({rows * columns});
    return Values{flat + 1, at::matmul(x[0], x[1].t()), x[1].expand_symint({2, rows, columns}).sum(0)};
  });
}

TEST(Recorder, InPlaceAndViews) {
  expect_same_everywhere([](const auto& x) {
    at::Tensor y = x[0] + 1;
    y.select(0, 0).zero_();
    y.mul_(x[1]);
    return Values{y, y.transpose(0, 1).contiguous() * 2, at::softmax(y, -1)};
  });
}

// `contiguous()` asks the same and needs no answer; the program's own question is guarded, also where that operator comes next.
TEST(Recorder, AQuestionOfLayoutIsTheProgramsOwn) {
  const c10::InferenceMode inference;
  const Program program = [](const auto& x) {
    const at::Tensor t = x[0].t();
    return t.is_contiguous() ? Values{t - 1} : Values{t.contiguous() + 1};
  };
  const Recorded run = record(program, {at::randn({3, 4})});
  EXPECT_EQ(run_again(run.recording, {at::randn({5, 7})}).failed, nullptr);
  EXPECT_NE(run_again(run.recording, {at::randn({1, 7})}).failed, nullptr);
}

TEST(Recorder, APlainSizePinsThatSizeAlone) {
  const c10::InferenceMode inference;
  const Recorded run = record([](const auto& x) { return Values{x[0] * static_cast<double>(x[0].size(0))}; }, {at::randn({3, 4})});
  EXPECT_EQ(run.recording.specialised.size(), 1u);
  EXPECT_EQ(run_again(run.recording, {at::randn({3, 9})}).failed, nullptr);
  EXPECT_NE(run_again(run.recording, {at::randn({4, 4})}).failed, nullptr);
}

TEST(Recorder, ABranchOnAValueIsGuarded) {
  const c10::InferenceMode inference;
  const Program program = [](const auto& x) {
    return Values{x[0].sum().template item<float>() > 0 ? x[0] + 1 : x[0] - 1};
  };
  const at::Tensor first = at::rand({2, 3});
  const Recorded run = record(program, {first});
  ASSERT_FALSE(run.recording.refused);
  EXPECT_EQ(run_again(run.recording, {first}).failed, nullptr);
  EXPECT_NE(run_again(run.recording, {-first}).failed, nullptr);
}

TEST(Recorder, AMemoryAccessRefuses) {
  const Recorded run = record([](const auto& x) { return Values{x[0] + x[0].template const_data_ptr<float>()[0]}; }, {at::ones({2, 3})});
  EXPECT_EQ(run.recording.refused, Reason::storage_access);
  EXPECT_TRUE(run.outputs[0].toTensor().equal(at::ones({2, 3}) + 1));
}

TEST(Recorder, AnotherThreadRefuses) {
  const Recorded run = record(
      [](const auto& x) {
        at::Tensor y;
        std::thread([&] { y = x[0] + 1; }).join();
        return Values{y * 2};
      },
      {at::zeros({2, 3})});
  EXPECT_EQ(run.recording.refused, Reason::recorder_refused);
  EXPECT_TRUE(run.outputs[0].toTensor().equal(at::zeros({2, 3}) + 2));
}

TEST(Recorder, AnExceptionLeavesTheThreadClean) {
  {
    Recorder recorder("test");
    const at::Tensor x = recorder.tensor(at::zeros({2, 3}), "");
    recorder.enter();
    EXPECT_THROW(at::matmul(x, x), c10::Error);
  }
  EXPECT_TRUE(at::add(at::zeros({2}), 1).equal(at::ones({2})));
}

TEST(Recorder, AWrongHintIsAnError) {
  Recorder recorder("test");
  const Dim two = recorder.dims().constant(2);
  EXPECT_THROW(recorder.tensor(at::zeros({3}), {two}, "x", false), UserError);
}

}  // namespace
}  // namespace escapement
