// How programs are loaded and called beyond a path and a list: options as a struct, bytes, inputs and results by name, calls on another
// thread. tests/python/serving/test_loading.py makes the models, in the folder that the environment variable MODELS names:
//
//   pair.pt2 (x: f32[n, 3], y: f32[n, 3] -> x + y, x * y), twice.pt2 (x: f32[n] -> x * 2, the same tensor), count.pt2 (x: f32[n], k: an integer
//   -> x * k, k + 1), slow.pt2 (x: f32[n, n] -> many steps), never.pt2 (a program that is not compiled), pair.package
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <escapement/serving.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "report.h"

namespace {

using escapement::ErrorCode;
using escapement::load;
using escapement::LogLine;
using escapement::Module;
using escapement::ServingError;
using Named = Module::NamedTensors;

std::string file(const std::string& name) { return std::string(std::getenv("MODELS")) + "/" + name; }

std::vector<std::byte> bytes_of(const std::string& name) {
  std::ifstream stream(file(name), std::ios::binary);
  const std::vector<char> all{std::istreambuf_iterator<char>(stream), {}};
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

at::Tensor rows(int64_t n, double value) { return at::full({n, 3}, value); }

// The text of the error of this code; a failure if there is none.
template <class Action>
std::string error_of(ErrorCode code, const Action& action) {
  try {
    action();
  } catch (const ServingError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error, expected " << to_string(code);
  return "";
}
#define EXPECT_REFUSED(code, part, ...)                                                        \
  EXPECT_NE(error_of(ErrorCode::code, [&] { __VA_ARGS__; }).find(part), std::string::npos)

// --- options

TEST(Options, AsAStructAndAsTexts) {
  EXPECT_TRUE(at::equal(load(file("pair.pt2"), {.disable = true})({rows(2, 1), rows(2, 2)})[0], rows(2, 3)));
  EXPECT_TRUE(at::equal(load(file("pair.pt2"), {{"disable", "true"}})({rows(2, 1), rows(2, 2)})[0], rows(2, 3)));
  EXPECT_TRUE(at::equal(load(file("pair.pt2"), {})({rows(2, 1), rows(2, 2)})[0], rows(2, 3)));
  EXPECT_THROW(load(file("pair.pt2"), {{"stict", "true"}}), std::invalid_argument);
  EXPECT_THROW(load(file("pair.pt2"), {.threads = -1}), std::invalid_argument);
  EXPECT_EQ(load(file("pair.pt2"), {.name = "sums"}).name(), "sums");
}

TEST(Options, OfAModuleGoBeforeItsEngines) {
  std::vector<std::string> told, of_module;
  const escapement::Engine engine({.options = {{"disable", "true"}}, .log = [&](const LogLine& line) { told.push_back(line.event); }});
  const Module eager = engine.load(file("pair.pt2"), "eager");
  const Module compiled = engine.load(file("pair.pt2"), {.disable = false, .name = "compiled", .log = [&](const LogLine& line) { of_module.push_back(line.event); }});
  for (const Module& module : {eager, compiled}) module({rows(2, 1), rows(2, 2)});
  EXPECT_EQ(eager.metrics().recordings, 0);
  EXPECT_EQ(compiled.metrics().recordings, 1);
  EXPECT_EQ(told, std::vector<std::string>{"loaded"});
  EXPECT_EQ(of_module, (std::vector<std::string>{"loaded", "recorded", "compiled"}));
  EXPECT_REFUSED(invalid_input, "has a module 'eager' already", engine.load(file("pair.pt2"), {.name = "eager"}));
  EXPECT_REFUSED(invalid_input, "threads", engine.load(file("pair.pt2"), {.threads = -1}));
}

// --- bytes

TEST(Bytes, OfAProgram) {
  auto bytes = bytes_of("pair.pt2");
  const Module module = load(bytes, {.name = "from memory"});
  std::fill(bytes.begin(), bytes.end(), std::byte{0xff});   // they are not needed any more
  bytes = {};
  for (const int64_t n : {2, 5, 1, 0}) EXPECT_TRUE(at::equal(module({rows(n, 1), rows(n, 2)})[0], rows(n, 3)));
  EXPECT_EQ(module.name(), "from memory");
  EXPECT_EQ(load(bytes_of("pair.pt2")).name(), "module");
}

TEST(Bytes, OfAPackage) {
  auto bytes = bytes_of("pair.package");
  const Module module = load(bytes, {.strict = true, .trust_package = true});
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  bytes = {};
  EXPECT_EQ(grown("recordings", [&] {
    for (const int64_t n : {2, 5}) EXPECT_TRUE(at::equal(module({rows(n, 1), rows(n, 2)})[1], rows(n, 2)));
  }), 0);
}

TEST(Bytes, AnEngineLoadsThem) {
  const escapement::Engine engine;
  const auto bytes = bytes_of("pair.pt2");
  const Module module = engine.load(std::span<const std::byte>(bytes), {.name = "sums"});
  EXPECT_EQ(engine.modules().size(), 1u);
  EXPECT_TRUE(at::equal(module({rows(2, 1), rows(2, 2)})[0], rows(2, 3)));
}

TEST(Bytes, ThatAreDamagedAreRefused) {
  EXPECT_REFUSED(bad_file, "the bytes of 'module' is no zip archive", load(std::span<const std::byte>()));
  const auto bytes = bytes_of("pair.pt2");
  for (size_t length = 0; length < bytes.size(); length += 97) {
    error_of(ErrorCode::bad_file, [&] { load(std::vector(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length))); });
  }
  for (size_t at = 0; at < bytes.size(); at += 61) {   // refused, or not in what is read
    auto damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    try {
      load(damaged);
    } catch (const ServingError& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file) << error.what();
    }
  }
}

// --- names

TEST(Names, OfInputsAndResults) {
  const Module module = load(file("pair.pt2"), {.output_names = {"sum", "product"}});
  EXPECT_EQ(module.output_names(), (std::vector<std::string>{"sum", "product"}));
  for (const int64_t n : {2, 5, 1, 0}) {
    const Named results = module.run({{"y", rows(n, 2)}, {"x", rows(n, 3)}});
    ASSERT_EQ(results.size(), 2u);
    EXPECT_TRUE(at::equal(results.at("sum"), rows(n, 5)));
    EXPECT_TRUE(at::equal(results.at("product"), rows(n, 6)));
  }
  EXPECT_EQ(module.metrics().recordings, 1);
}

TEST(Names, AreTheProgramsWhereNoneAreGiven) {
  const Module module = load(file("pair.pt2"));
  EXPECT_EQ(module.output_names(), (std::vector<std::string>{"add", "mul"}));
  EXPECT_TRUE(at::equal(module.run({{"x", rows(2, 1)}, {"y", rows(2, 2)}}).at("add"), rows(2, 3)));
}

TEST(Names, ThatAreNotThereAreRefused) {
  const Module module = load(file("pair.pt2"));
  EXPECT_REFUSED(invalid_input, "the input \"y\" is not given", module.run(Named{{"x", rows(2, 1)}}));
  EXPECT_REFUSED(invalid_input, "has no input \"z\"; it has x, y", module.run(Named{{"x", rows(2, 1)}, {"y", rows(2, 1)}, {"z", rows(2, 1)}}));
}

TEST(Names, AreOneForEachResult) {
  EXPECT_REFUSED(invalid_input, "1 output names are given, and the program has 2 results", load(file("pair.pt2"), {.output_names = {"sum"}}));
  EXPECT_REFUSED(invalid_input, "\"sum\" is given twice", load(file("pair.pt2"), {.output_names = {"sum", "sum"}}));
  EXPECT_REFUSED(invalid_input, "is empty", load(file("pair.pt2"), {.output_names = {"sum", ""}}));
}

TEST(Names, OfOneTensorTwiceAreToBeGiven) {
  EXPECT_REFUSED(unsupported, "output_names", load(file("twice.pt2")).run(Named{{"x", at::ones({2})}}));
  const Named results = load(file("twice.pt2"), {.output_names = {"a", "b"}}).run({{"x", at::ones({2})}});
  EXPECT_TRUE(results.at("a").is_same(results.at("b")));
}

TEST(Names, OfNumbersAreForOrderedCalls) {
  const Module module = load(file("count.pt2"));
  EXPECT_REFUSED(invalid_input, "'k' is Tensor, expected an integer", module.run(Named{{"x", at::ones({2})}, {"k", at::ones({})}}));
  EXPECT_EQ(module.run({at::ones({2}), int64_t{3}})[1].toInt(), 4);
}

// --- calls on another thread

// What came back, once it has.
class Answer {
 public:
  Module::Done done() {
    return [this](std::exception_ptr error, std::vector<c10::IValue> results) {
      const std::lock_guard lock(mutex_);
      error_ = std::move(error);
      results_ = std::move(results);
      ++times_;
      changed_.notify_all();
    };
  }
  std::vector<c10::IValue> get() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return times_ > 0; });
    if (error_) std::rethrow_exception(error_);
    return results_;
  }
  int times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
  std::vector<c10::IValue> results_;
  int times_ = 0;
};

TEST(Async, GivesWhatRunGives) {
  const Module module = load(file("pair.pt2"));
  std::vector<Answer> answers(50);
  for (size_t i = 0; i < answers.size(); ++i) module.run_async({rows(static_cast<int64_t>(i % 7), 1), rows(static_cast<int64_t>(i % 7), 2)}, answers[i].done());
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_TRUE(at::equal(answers[i].get()[0].toTensor(), rows(static_cast<int64_t>(i % 7), 3)));
  for (Answer& answer : answers) EXPECT_EQ(answer.times(), 1);
  EXPECT_EQ(module.metrics().calls, 50);
}

TEST(Async, KeepsTheModuleUntilItIsDone) {
  Answer answer;
  load(file("pair.pt2")).run_async({rows(2, 1), rows(2, 2)}, answer.done());
  EXPECT_TRUE(at::equal(answer.get()[1].toTensor(), rows(2, 2)));
}

TEST(Async, HandsErrorsOn) {
  const Module module = load(file("pair.pt2"));
  Answer wrong;
  module.run_async({rows(2, 1)}, wrong.done());
  EXPECT_REFUSED(invalid_input, "2 inputs", wrong.get());
  module.close();
  Answer closed;
  module.run_async({rows(2, 1), rows(2, 1)}, closed.done());
  EXPECT_REFUSED(closed, "closed", closed.get());
}

TEST(Async, EndsAtItsTimeout) {
  using std::chrono::nanoseconds;
  const Module module = load(file("slow.pt2"), {.disable = true});
  const at::Tensor x = at::ones({128, 128});
  Answer late, in_time, unlimited;
  module.run_async({x}, late.done(), nanoseconds(1));
  EXPECT_REFUSED(deadline_exceeded, "passed its deadline", late.get());
  module.run_async({x}, in_time.done(), std::chrono::hours(1));
  module.run_async({x}, unlimited.done());
  EXPECT_TRUE(at::equal(in_time.get()[0].toTensor(), unlimited.get()[0].toTensor()));
  Answer never;
  EXPECT_REFUSED(invalid_input, "is negative", module.run_async({x}, never.done(), nanoseconds(-1)));
  EXPECT_EQ(never.times(), 0);
}

TEST(Async, ACallbackThatThrowsIsLogged) {
  std::mutex mutex;
  std::vector<std::string> events;
  {
    const Module module = load(file("pair.pt2"), {.log = [&](const LogLine& line) {
      const std::lock_guard lock(mutex);
      events.push_back(line.event);
    }});
    Answer after;
    module.run_async({rows(2, 1), rows(2, 2)}, [done = after.done()](auto error, auto results) {
      done(error, results);
      throw std::runtime_error("a callback's own trouble");
    });
    after.get();
    module.close();
    for (int time = 0; time < 5000; ++time) {
      const std::lock_guard lock(mutex);
      if (std::find(events.begin(), events.end(), "callback_failed") != events.end()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  ADD_FAILURE() << "nobody was told";
}

TEST(Async, RunsInTheModesOfItsCaller) {
  const Module module = load(file("pair.pt2"));
  const c10::InferenceMode inference;
  Answer answer;
  module.run_async({rows(2, 1), rows(2, 2)}, answer.done());
  EXPECT_TRUE(answer.get()[0].toTensor().is_inference());
}

// --- time, and standard error

TEST(Timeouts, AreOptional) {
  escapement::Session session(load(file("pair.pt2")));
  session.set_timeout(std::nullopt);
  EXPECT_EQ(session.run(std::vector{rows(2, 1), rows(2, 2)}).size(), 2u);
  session.set_timeout(std::chrono::hours(1));
  EXPECT_EQ(session.run(std::vector{rows(2, 1), rows(2, 2)}).size(), 2u);
  session.set_timeout({});
  EXPECT_EQ(session.run(std::vector{rows(2, 1), rows(2, 2)}).size(), 2u);
}

TEST(Logs, NothingGoesToStandardErrorByItself) {
  testing::internal::CaptureStderr();
  std::vector<LogLine> lines;
  const Module silent = load(file("never.pt2")), heard = load(file("never.pt2"), {.log = [&](const LogLine& line) { lines.push_back(line); }});
  for (const Module& module : {silent, heard}) module({at::ones({4})});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const LogLine& line) { return line.event == "not_compiled" && line.level == LogLine::Level::warning; }));
}

}  // namespace
