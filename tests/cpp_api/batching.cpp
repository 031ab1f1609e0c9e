// Dynamic batching (include/escapement/batcher.h), used as a server does: public headers only. One check per run;
// tests/python/serving/test_batching.py makes the models and runs all of them.
//
//   batching CHECK FOLDER
//
// FOLDER holds rows.pt2 (x: f32[n, s], y: f32[n] -> f32[n, s], f32[n]), tagger.pt2 (values: f32[t, 4], lengths: i64[r] -> f32[t], f32[r, 4]),
// pick.pt2 (ids: i64[n] -> f32[n, 3]; a table of 11 rows), counted.pt2 (likewise; counts ids in a buffer), written.pt2 (x: f32[n]; adds to it),
// through.pt2 (likewise through a view of a dropout's result), fresh.pt2 (x: f32[n, 3]; writes its own tensors only), logged.pt2 (as tagger, and counts), times.pt2 (x: f32[n], an integer k -> f32[n]), whole.pt2 (x: f32[n, 2] -> f32[2]),
// weights.safetensors (one tensor of each dtype that is read).
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <escapement/batcher.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <future>
#include <latch>
#include <random>
#include <thread>

#include "expectations.h"

namespace {

using escapement::Batcher;
using escapement::Batching;
using escapement::ErrorCode;
using escapement::Module;
using Values = std::vector<c10::IValue>;

std::string g_folder;

Module load(const char* name, escapement::Log log = {}) {
  return escapement::load(g_folder + "/" + name + ".pt2", {.log = std::move(log)});
}
Module eager(const char* name) { return escapement::load(g_folder + "/" + name + ".pt2", {.disable = true}); }

bool close_to(const Values& found, const Values& wanted) {
  if (found.size() != wanted.size()) return false;
  for (size_t i = 0; i < found.size(); ++i) {
    const at::Tensor a = found[i].toTensor(), b = wanted[i].toTensor();
    if (a.sizes() != b.sizes() || !at::allclose(a, b, 1e-4, 1e-5)) return false;
  }
  return true;
}

// Keeps the worker until it is let go: what is asked meanwhile waits.
class Held {
 public:
  Held(Batcher& batcher, Values request) {
    batcher.submit(std::move(request), [this](std::exception_ptr, const Values&) {
      inside_.count_down();
      go_.wait();
    });
    inside_.wait();
  }
  void let_go() { go_.count_down(); }

 private:
  std::latch inside_{1}, go_{1};
};

struct Asked {
  std::promise<Values> promise;
  std::future<Values> results = promise.get_future();
};
std::future<Values> ask(Batcher& batcher, Values inputs, Batcher::Clock::time_point deadline = Batcher::Clock::time_point::max()) {
  auto asked = std::make_shared<Asked>();
  std::future<Values> results = std::move(asked->results);
  batcher.submit(std::move(inputs), [asked](std::exception_ptr error, Values found) {
    if (error) {
      asked->promise.set_exception(error);
    } else {
      asked->promise.set_value(std::move(found));
    }
  }, deadline);
  return results;
}

// --- joined

void rows_of_many() {
  Batcher batcher(load("rows"), {.batching = Batching::rows, .max_requests = 5, .max_rows = 9});
  const Module reference = eager("rows");
  EXPECT(batcher.batching() == Batching::rows && batcher.inputs() == 2);
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 6; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 numbers(number);
      for (int i = 0; i < 60; ++i) {
        const int64_t n = numbers() % 4, s = 1 + numbers() % 3;
        const at::Tensor x = at::randn({n, s}), y = at::randn({n});
        EXPECT(close_to(batcher.run({x, y}), reference.run({x, y})));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(batcher.counts().requests == 360 && batcher.counts().queued == 0 && batcher.counts().largest <= 5);
}

// The order of the queue, but what fits to the oldest goes with it.
void what_is_joined() {
  Batcher batcher(load("rows"), {.batching = Batching::rows, .max_requests = 3, .max_rows = 8});
  const Module reference = eager("rows");
  const auto request = [](int64_t n, int64_t s) { return Values{at::randn({n, s}), at::randn({n})}; };
  std::vector<Values> requests = {request(2, 3), request(1, 4), request(2, 3), request(5, 3), request(3, 3), request(1, 4), request(9, 3)};
  Held held(batcher, request(1, 1));
  std::vector<std::future<Values>> answers;
  for (const Values& each : requests) answers.push_back(ask(batcher, each));
  EXPECT(batcher.counts().queued == 7);
  held.let_go();
  for (size_t i = 0; i < requests.size(); ++i) EXPECT(close_to(answers[i].get(), reference.run(requests[i])));
  // {1x1}, {0, 2, 4}: 2 + 2 + 3 rows (3, of 5 rows, would be too many), {1, 5}, {3}, {6}: alone it may have more than the most
  EXPECT(batcher.counts().batches == 5 && batcher.counts().requests == 8 && batcher.counts().largest == 3);
}

void by_lengths() {
  Batcher batcher(load("tagger"));
  const Module reference = eager("tagger");
  EXPECT(batcher.batching() == Batching::lengths && batcher.inputs() == 1);
  Held held(batcher, {at::ones({2, 4})});
  std::vector<Values> requests;
  std::vector<std::future<Values>> answers;
  for (const int64_t n : {3, 0, 1, 7}) {
    requests.push_back({at::randn({n, 4})});
    answers.push_back(ask(batcher, requests.back()));
  }
  held.let_go();
  for (size_t i = 0; i < requests.size(); ++i) {
    const at::Tensor values = requests[i][0].toTensor();
    EXPECT(close_to(answers[i].get(), reference.run({values, at::full({1}, values.size(0), at::kLong)})));
  }
  EXPECT(batcher.counts().batches == 2 && batcher.counts().largest == 4);
  EXPECT_ERROR(invalid_input, "`lengths` is left out", batcher.run({at::ones({2, 4}), at::full({1}, 2, at::kLong)}));
  EXPECT_ERROR(invalid_input, "expected 4", batcher.run({at::ones({2, 5})}));
  EXPECT_ERROR(invalid_input, "", batcher.run({at::ones({})}));
  EXPECT_ERROR(invalid_input, "", batcher.run({c10::IValue(3)}));
}

// Integers of requests that are joined are equal.
void integers() {
  Batcher batcher(load("times"), {.batching = Batching::rows});
  Held held(batcher, {at::ones({1}), 1});
  std::vector<std::future<Values>> answers;
  for (const int64_t k : {2, 3, 2, 4}) answers.push_back(ask(batcher, {at::ones({2}), k}));
  held.let_go();
  for (const int64_t k : {2, 3, 2, 4}) {
    EXPECT(at::allclose(answers.front().get()[0].toTensor(), at::full({2}, static_cast<double>(k))));
    answers.erase(answers.begin());
  }
  EXPECT(batcher.counts().batches == 4);
}

// What a caller keeps is not written over by later calls.
void results_are_the_callers() {
  Batcher batcher(load("rows"));
  EXPECT(batcher.batching() == Batching::none);
  const Values first = batcher.run({at::ones({2, 3}), at::ones({2})});
  const at::Tensor before = first[0].toTensor().clone();
  for (int i = 0; i < 5; ++i) batcher.run({at::randn({2, 3}), at::randn({2})});
  EXPECT(at::allclose(first[0].toTensor(), before));
}

// --- refused

void forms() {
  EXPECT_ERROR(invalid_input, "the result", Batcher(load("whole"), {.batching = Batching::rows}));
  EXPECT_ERROR(invalid_input, "the input \"lengths\" begins with", Batcher(load("tagger"), {.batching = Batching::rows}));
  EXPECT_ERROR(invalid_input, "named lengths", Batcher(load("rows"), {.batching = Batching::lengths}));
  EXPECT_ERROR(invalid_input, "is 0", Batcher(load("rows"), {.max_queued = 0}));
  EXPECT(Batcher(load("tagger"), {.batching = Batching::none}).inputs() == 2);
  Batcher batcher(load("rows"), {.batching = Batching::rows});
  EXPECT_ERROR(invalid_input, "y", batcher.run({at::ones({2, 3}), at::ones({3})}));
  EXPECT_ERROR(invalid_input, "dtype Double", batcher.run({at::ones({2, 3}, at::kDouble), at::ones({2})}));
  EXPECT_ERROR(invalid_input, "2 inputs", batcher.run({at::ones({2, 3})}));
  EXPECT_ERROR(invalid_input, "", batcher.run({at::Tensor(), at::ones({2})}));
}

// What is joined is a copy of the requests, and what failed together is run again one by one: neither is for a program that writes what it is given.
void programs_that_write() {
  for (const auto& [name, what] : {std::pair{"counted", "writes \"n\""}, {"written", "writes \"x\""}, {"through", "writes \"x\""}})
    EXPECT_ERROR(invalid_input, what, Batcher(load(name), {.batching = Batching::rows}));
  EXPECT_ERROR(invalid_input, "writes \"n\"", Batcher(load("logged"), {.batching = Batching::lengths}));
  EXPECT(Batcher(load("logged")).batching() == Batching::none);
  EXPECT(Batcher(load("fresh"), {.batching = Batching::rows}).batching() == Batching::rows);
  Batcher written(load("written"));
  const at::Tensor x = at::ones({2}), y = at::ones({2});
  Held held(written, {at::ones({1})});
  std::future<Values> first = ask(written, {x}), second = ask(written, {y});
  held.let_go();
  first.get(), second.get();
  EXPECT(at::allclose(x, at::full({2}, 2.0)) && at::allclose(y, at::full({2}, 2.0)));
}

void a_bad_request_fails_alone() {
  Batcher batcher(load("pick"), {.batching = Batching::rows});
  Held held(batcher, {at::arange(3)});
  std::future<Values> good = ask(batcher, {at::arange(4)}), bad = ask(batcher, {at::full({2}, 99, at::kLong)}), last = ask(batcher, {at::arange(2)});
  held.let_go();
  EXPECT(good.get()[0].toTensor().size(0) == 4 && last.get()[0].toTensor().size(0) == 2);
  EXPECT_ERROR(execution_failed, "index", bad.get());
}

void too_many() {
  Batcher batcher(load("rows"), {.max_queued = 2});
  const Values request{at::ones({1, 1}), at::ones({1})};
  Held held(batcher, request);
  std::future<Values> first = ask(batcher, request), second = ask(batcher, request);
  try {
    ask(batcher, request);
    EXPECT(false);
  } catch (const escapement::Overloaded& error) {
    EXPECT(error.code() == ErrorCode::overloaded && std::string(to_string(error.code())) == "overloaded");
    EXPECT(error.retry_after() >= std::chrono::milliseconds(1) && error.retry_after() <= std::chrono::seconds(60));
  }
  held.let_go();
  EXPECT(first.get().size() == 2 && second.get().size() == 2);
  EXPECT(batcher.counts().refused == 1 && batcher.counts().requests == 3);
}

void deadlines() {
  Batcher batcher(load("rows"), {.batching = Batching::rows});
  const Values request{at::ones({1, 1}), at::ones({1})};
  Held held(batcher, request);
  std::future<Values> late = ask(batcher, request, Batcher::Clock::now() + std::chrono::milliseconds(1));
  std::future<Values> patient = ask(batcher, request, Batcher::Clock::now() + std::chrono::hours(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  held.let_go();
  EXPECT_ERROR(deadline_exceeded, "deadline", late.get());
  EXPECT(patient.get().size() == 2);
  EXPECT_ERROR(deadline_exceeded, "deadline", batcher.run(request, Batcher::Clock::now() - std::chrono::seconds(1)));
}

// --- the end

void closed() {
  const Values request{at::ones({1, 1}), at::ones({1})};
  Batcher batcher(load("rows"));
  Held held(batcher, request);
  std::future<Values> waiting = ask(batcher, request);
  std::thread closer([&] { batcher.close(); });
  EXPECT_ERROR(closed, "closed", waiting.get());
  held.let_go();
  closer.join();
  EXPECT_ERROR(closed, "closed", batcher.run(request));
  batcher.close();

  Batcher other(load("rows"));
  Batcher moved(std::move(other));
  EXPECT(moved.run(request).size() == 2);
  moved.module().close();
  EXPECT_ERROR(closed, "closed", moved.run(request));
}

void moved_from() {
  const Values request{at::ones({1, 1}), at::ones({1})};
  Batcher batcher(load("rows"));
  const Batcher moved(std::move(batcher));
  EXPECT_ERROR(invalid_input, "moved from", batcher.run(request));
  EXPECT_ERROR(invalid_input, "moved from", batcher.submit(request, [](std::exception_ptr, const Values&) {}));
  EXPECT_ERROR(invalid_input, "moved from", batcher.close());
  EXPECT_ERROR(invalid_input, "moved from", batcher.counts());
  EXPECT_ERROR(invalid_input, "moved from", batcher.batching());
  EXPECT_ERROR(invalid_input, "moved from", batcher.inputs());
  EXPECT_ERROR(invalid_input, "moved from", batcher.module());
}

// The last owner is a callback: what waits behind it is answered, and nobody waits for himself.
void ends_in_its_callback() {
  const Values request{at::ones({1, 1}), at::ones({1})};
  auto batcher = std::make_shared<Batcher>(load("rows"));
  std::latch go{1};
  batcher->submit(request, [batcher, &go](std::exception_ptr, const Values&) { go.wait(); });
  std::future<Values> waiting = ask(*batcher, request);
  batcher.reset();
  go.count_down();
  EXPECT_ERROR(closed, "closed", waiting.get());
  Batcher next(load("rows"));
  EXPECT(next.run(request).size() == 2);
}

void callbacks_that_ask() {
  Batcher batcher(load("rows"));
  const Values request{at::ones({1, 1}), at::ones({1})};
  std::promise<Values> promise;
  batcher.submit(request, [&](std::exception_ptr, const Values&) {
    EXPECT_ERROR(unsupported, "callback", batcher.run(request));
    EXPECT_ERROR(unsupported, "callback", batcher.close());
    batcher.submit(request, [&](std::exception_ptr, Values results) { promise.set_value(std::move(results)); });
  });
  EXPECT(promise.get_future().get().size() == 2);
}

void callbacks_that_throw() {
  std::atomic<int> told = 0;
  Batcher batcher(load("rows", [&](const escapement::LogLine& line) { told += line.event == std::string("callback_failed"); }));
  const Values request{at::ones({1, 1}), at::ones({1})};
  batcher.submit(request, [](std::exception_ptr, Values) { throw std::runtime_error("of the callback"); });
  EXPECT(batcher.run(request).size() == 2 && told == 1);
}

void after_fork() {
  at::set_num_threads(1);   // OpenMP's threads do not survive a fork
  const Values request{at::ones({1, 1}), at::ones({1})};
  auto batcher = std::make_unique<Batcher>(load("rows"));
  batcher->run(request);
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    EXPECT_ERROR(unsupported, "forked", batcher->run(request));
    batcher.reset();
    EXPECT(Batcher(load("rows")).run(request).size() == 2);
    std::fflush(stdout);
    ::_exit(g_failures == 0 ? 0 : 1);
  }
  int status = 0;
  EXPECT(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT(batcher->run(request).size() == 2);
}

// --- weights of a file

void weights() {
  const auto found = escapement::read_weights(g_folder + "/weights.safetensors");
  for (const auto& [name, type] : {std::pair{"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
                                   {"I32", at::kInt}, {"I16", at::kShort}, {"I8", at::kChar}, {"U8", at::kByte}, {"BOOL", at::kBool}}) {
    const at::Tensor tensor = found.at(name);
    EXPECT(tensor.scalar_type() == type && tensor.sizes() == at::IntArrayRef({2, 1}));
    EXPECT(tensor.to(at::kDouble).sum().item<double>() == (type == at::kBool ? 1 : 3));
  }
  EXPECT(found.at("none").sizes() == at::IntArrayRef({0, 3}) && found.at("scalar").dim() == 0);
  EXPECT_ERROR(bad_file, "no file", escapement::read_weights(g_folder + "/nothing"));
  EXPECT_ERROR(bad_file, "no file", escapement::read_weights(g_folder));
  std::ofstream(g_folder + "/short.safetensors") << "abc";
  EXPECT_ERROR(bad_file, "too short", escapement::read_weights(g_folder + "/short.safetensors"));
  EXPECT_ERROR(bad_file, "U64", escapement::read_weights(g_folder + "/u64.safetensors"));
}

struct Check {
  const char* name;
  void (*run)();
};
constexpr Check kChecks[] = {{"rows_of_many", rows_of_many},
                             {"what_is_joined", what_is_joined},
                             {"by_lengths", by_lengths},
                             {"integers", integers},
                             {"results_are_the_callers", results_are_the_callers},
                             {"forms", forms},
                             {"programs_that_write", programs_that_write},
                             {"a_bad_request_fails_alone", a_bad_request_fails_alone},
                             {"too_many", too_many},
                             {"deadlines", deadlines},
                             {"closed", closed},
                             {"callbacks_that_ask", callbacks_that_ask},
                             {"callbacks_that_throw", callbacks_that_throw},
                             {"moved_from", moved_from},
                             {"ends_in_its_callback", ends_in_its_callback},
                             {"after_fork", after_fork},
                             {"weights", weights}};

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  g_folder = arguments[2];
  for (const Check& check : kChecks) {
    if (std::string(arguments[1]) != check.name) continue;
    check.run();
    return g_failures == 0 ? 0 : 1;
  }
  std::printf("no check is named %s\n", arguments[1]);
  return 2;
}
