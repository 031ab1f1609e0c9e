// The serving interface, used as a server does: public headers only. One check per run; tests/python/serving/test_serving.py makes
// the models and runs all of them.
//
//   serving CHECK FOLDER [NUMBER]
//
// FOLDER holds mlp.pt2 (x: f32[n, 8] -> f32[n, 5]), counter.pt2 (x: f32[n, 3]; adds to a buffer), lookup.pt2 (ids: i64[n],
// table of 11 rows), tied.pt2 (two weights that are one; a transposed buffer), dense.pt2 (x: f32[n, m] -> x.contiguous()), tally.pt2 (x: f32[n, 3];
// adds to a parameter). What a module must give is what the same file
// gives with the option "disable", which runs eagerly.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/add.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <escapement/serving.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "expectations.h"

namespace {

using escapement::ErrorCode;
using escapement::Module;
using escapement::OnMiss;
using escapement::ServingError;
using escapement::Session;
using Tensors = std::vector<at::Tensor>;

std::string g_folder;
long g_number = 0;

std::string file(const char* name) {
  return g_folder + "/" + name;
}
Module eager(const char* name) {
  return escapement::load(file(name), {{"disable", "true"}});
}
at::Tensor rows(int64_t n, int64_t width = 8) {
  return at::arange(n * width).reshape({n, width}).to(at::kFloat).mul(0.37).sin();
}
// What compiled code gives: the first call is the recording, whose matrix products are eager's and may differ in the last
// bit.
Tensors compiled(const Module& module, const Tensors& inputs) {
  module(inputs);
  return module(inputs);
}
bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::equal(a, b);
}

std::map<std::string, at::Tensor> scaled(const std::map<std::string, at::Tensor>& weights, double by) {
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, tensor] : weights) result[name] = tensor.mul(by);
  return result;
}

// --- sessions

void session() {
  const Module module = escapement::load(file("mlp.pt2")), reference = escapement::load(file("mlp.pt2"));
  Session session(module);
  const at::Tensor x = rows(5), y = rows(9);
  const at::Tensor expected_x = compiled(reference, {x})[0], expected_y = reference({y})[0];
  const void* first = session.run(Tensors{x})[0].toTensor().const_data_ptr();  // recorded: torch's own memory
  first = session.run(Tensors{x})[0].toTensor().const_data_ptr();
  EXPECT(session.run(Tensors{x})[0].toTensor().const_data_ptr() == first);
  EXPECT(same(session.run({x})[0].toTensor(), expected_x));
  EXPECT(same(session.run(Tensors{y})[0].toTensor(), expected_y));
  const at::Tensor held = session.run(Tensors{y})[0].toTensor();
  EXPECT(same(session.run(Tensors{y})[0].toTensor(), expected_y));
  EXPECT(session.run(Tensors{y})[0].toTensor().const_data_ptr() != held.const_data_ptr());
  const at::Tensor part = session.run(Tensors{y})[0].toTensor().slice(0, 1, 3);  // a view holds the memory, too
  session.run(Tensors{y.neg()});
  EXPECT(same(part, expected_y.slice(0, 1, 3)));
  EXPECT(same(held, expected_y));
}

// A result that is the input is memory of whoever lent it, whether or not a tensor of his is left.
void lent_memory() {
  const Module module = escapement::load(file("dense.pt2"));
  const at::Tensor turned = rows(4, 5).t();
  for (int i = 0; i < 3; ++i) module({turned}), module({rows(5, 4)});
  Session session(module);
  std::vector<float> blob(20, 7.0F);
  for (int i = 0; i < 2; ++i) {
    EXPECT(session.run(Tensors{at::from_blob(blob.data(), {5, 4})})[0].toTensor().const_data_ptr() == blob.data());
    EXPECT(same(session.run(Tensors{turned})[0].toTensor(), turned));
    EXPECT(std::all_of(blob.begin(), blob.end(), [](float value) { return value == 7; }));
  }
  const void* const own = session.run(Tensors{turned})[0].toTensor().const_data_ptr();
  EXPECT(session.run(Tensors{turned})[0].toTensor().const_data_ptr() == own && module.metrics().eager_calls() == 0);
}

// A step whose results are the next one's inputs.
void session_feeds_itself() {
  Session steps(escapement::load(file("counter.pt2")));
  const Module reference = escapement::load(file("counter.pt2"), {{"disable", "true"}});
  std::vector<c10::IValue> expected = reference.run({at::full({5, 3}, 1.0)});
  const std::vector<c10::IValue>* results = &steps.run({at::full({5, 3}, 1.0)});
  for (int step = 0; step < 6; ++step) {
    EXPECT(same((*results)[0].toTensor(), expected[0].toTensor()));
    expected = reference.run(expected);
    results = &steps.run(*results);
  }
  Session moved(std::move(steps));
  EXPECT(same(moved.run(*results)[0].toTensor(), reference.run(expected)[0].toTensor()));
  EXPECT_ERROR(invalid_input, "was moved from", steps.run({at::full({5, 3}, 1.0)}));
  EXPECT_ERROR(invalid_input, "was moved from", steps.cancel());
}

void run_into() {
  const Module module = escapement::load(file("mlp.pt2"));
  Session session(module);
  const at::Tensor x = rows(6), expected = compiled(module, {x})[0];
  at::Tensor out = at::full({6, 5}, 7.0);
  const auto version = out._version();
  session.run_into({x}, {out});
  EXPECT(same(out, expected) && out._version() > version);
  at::Tensor wide = at::full({5, 6}, 7.0).t();  // other strides: copied
  session.run_into({x}, {wide});
  EXPECT(same(wide, expected) && !wide.is_contiguous());
  at::Tensor negated = at::_neg_view(at::zeros({6, 5}));
  session.run_into({x}, {negated});
  EXPECT(negated.is_neg() && same(negated, expected));
  at::Tensor shared = at::zeros({6, 13});  // output and input on one storage
  shared.slice(1, 0, 8).copy_(x);
  const at::Tensor input = shared.as_strided({6, 8}, {13, 1}).clone();
  at::Tensor memory = at::zeros({6 * 8});
  memory.copy_(x.reshape(-1));
  session.run_into({memory.view({6, 8})}, {memory.slice(0, 0, 30).view({6, 5})});
  EXPECT(same(memory.slice(0, 0, 30).view({6, 5}), expected));
  EXPECT_ERROR(invalid_input, "and the result is float32[6, 5]", session.run_into({x}, {at::zeros({5, 5})}));
  EXPECT_ERROR(invalid_input, "output 0 is float64", session.run_into({x}, {at::zeros({6, 5}, at::kDouble)}));
  EXPECT_ERROR(invalid_input, "1 results, and 2 outputs", session.run_into({x}, {out, out}));
  EXPECT_ERROR(invalid_input, "no strided tensor", session.run_into({x}, {at::Tensor()}));
  EXPECT(same(module({x})[0], expected));

  const Module lookup = escapement::load(file("lookup.pt2"));  // gives its table back as a second result
  Session other(lookup);
  const at::Tensor ids = at::arange(4);
  const auto results = other.run(Tensors{ids});
  const at::Tensor table = results[1].toTensor(), before = table.clone();
  at::Tensor picked = at::zeros({4, 3});
  other.run_into({ids}, {picked, at::zeros({11, 3})});
  EXPECT(same(picked, before.slice(0, 0, 4)));
  EXPECT(same(lookup({ids})[1], before));
}

void errors() {
  const escapement::Engine engine;
  const Module module = engine.load(file("mlp.pt2")), lookup = engine.load(file("lookup.pt2"));
  Session session(module), reader(lookup);
  EXPECT_ERROR(invalid_input, "dtype Double", session.run(Tensors{rows(2).to(at::kDouble)}));
  EXPECT_ERROR(invalid_input, "the input 'x'", session.run(Tensors{rows(2, 7)}));
  EXPECT_ERROR(invalid_input, "has 3 dims", session.run(Tensors{rows(2).reshape({2, 2, 4})}));
  EXPECT_ERROR(invalid_input, "takes 1 inputs", session.run(Tensors{}));
  EXPECT_ERROR(invalid_input, "undefined", session.run(Tensors{at::Tensor()}));
  EXPECT_ERROR(invalid_input, "is Int", session.run(std::vector<c10::IValue>{3}));
  EXPECT_ERROR(invalid_input, "in 0..4096", session.run(Tensors{at::zeros({5000, 8})}));
  EXPECT_ERROR(execution_failed, "lookup", reader.run(Tensors{at::full({2}, 11, at::kLong)}));
  EXPECT(same(reader.run(Tensors{at::full({2}, 10, at::kLong)})[0].toTensor(),
              eager("lookup.pt2")({at::full({2}, 10, at::kLong)})[0]));
  EXPECT_ERROR(execution_failed, "lookup", reader.run(Tensors{at::full({2}, 11, at::kLong)}));  // compiled, too
  EXPECT_ERROR(bad_file, "/nowhere.pt2' cannot be opened", engine.load("/nowhere.pt2"));
  EXPECT_ERROR(invalid_input, "has a module 'mlp' already", engine.load(file("mlp.pt2")));
  EXPECT_ERROR(invalid_input, "strict", escapement::Engine({{{"strct", "true"}}, 0, nullptr}));
  EXPECT(module.metrics().errors_by_code.at("invalid_input") == 7);
  EXPECT(lookup.metrics().errors_by_code.at("execution_failed") == 2);
  engine.close();
  EXPECT_ERROR(closed, "closed", session.run(Tensors{rows(2)}));
  EXPECT_ERROR(closed, "closed", engine.load(file("counter.pt2")));
  EXPECT_ERROR(closed, "closed", module.warm_up({{{1, 8}}}));
  EXPECT_ERROR(closed, "closed", module.swap_weights({}));
  EXPECT_ERROR(closed, "closed", module.save(g_folder + "/closed.package"));
  EXPECT_ERROR(closed, "closed", module.plan({{1, 8}}));
  EXPECT(module.metrics().versions == 0 && module.metrics().weight_bytes == 0 && module.is_closed());
  module.close();
}

// What no caller may ask for, and what is asked for at the ends of the numbers.
void bad_arguments() {
  const Module module = escapement::load(file("mlp.pt2"));
  const auto engine = [](escapement::OptionList options, int threads) { escapement::Engine({std::move(options), threads, nullptr}); };
  Session session(module);
  using std::chrono::nanoseconds;
  EXPECT_ERROR(invalid_input, "a timeout of -1 ns is negative", session.set_timeout(nanoseconds(-1)));
  EXPECT_ERROR(invalid_input, "is negative", session.set_timeout(nanoseconds::min()));
  for (const nanoseconds none : {nanoseconds(0), nanoseconds::max(), nanoseconds::max() - nanoseconds(1)}) {
    session.set_timeout(none);
    EXPECT(session.run(Tensors{rows(2)}).size() == 1);
  }
  session.set_deadline(Session::Clock::time_point::min());
  EXPECT_ERROR(deadline_exceeded, "deadline", session.run(Tensors{rows(2)}));
  session.set_deadline(Session::Clock::time_point::max());
  EXPECT(session.run(Tensors{rows(2)}).size() == 1);
  EXPECT_ERROR(invalid_input, "-1 threads", engine({}, -1));
  EXPECT_ERROR(invalid_input, "2000000 threads", engine({}, 2'000'000));
  for (const char* name : {"threads", "hot_launches", "max_recordings", "max_ops_per_kernel"}) {
    for (const char* value : {"-1", "1e3", "nan", "", "99999999999999999999", "2147483648"}) EXPECT_ERROR(invalid_input, name, engine({{name, value}}, 0));
  }
  EXPECT_ERROR(invalid_input, "It takes block, background", engine({{"compile", "later"}}, 0));
  EXPECT_ERROR(invalid_input, "strict", engine({{"strict", "perhaps"}}, 0));
  EXPECT_ERROR(invalid_input, "", module.plan({{-1, 8}}));
  EXPECT_ERROR(invalid_input, "", module.plan({{2}}));
  EXPECT_ERROR(invalid_input, "", module.plan({}));
  EXPECT_ERROR(invalid_input, "", module.warm_up({{{-1, 8}}}));
  EXPECT_ERROR(execution_failed, "overflowed", module.warm_up({{{int64_t{1} << 62, 8}}}));
  EXPECT_ERROR(invalid_input, "", module.warm_up_with({{}}));
  EXPECT_ERROR(invalid_input, "outputs", session.run_into({rows(2)}, {}));
  EXPECT_ERROR(invalid_input, "strided", session.run_into({rows(2)}, {at::Tensor()}));
  EXPECT(escapement::counter("no such thing") == 0);
}

// --- warm-up, plans, serving only

void serve_only() {
  const Module module = escapement::load(file("mlp.pt2")), reference = eager("mlp.pt2");
  const auto before = module.plan({{4, 8}});
  EXPECT(!before.compiled && before.miss == "nothing has been recorded" && before.input_bytes == 4 * 8 * 4);
  const auto report = module.warm_up({{{4, 8}}, {{9, 8}}});
  EXPECT(report.rows.size() == 2 && report.rows[0].recorded && !report.rows[1].recorded && !report.rows[1].eager);
  EXPECT(report.rows[0].record_milliseconds > 0 && report.rows[0].compile_milliseconds > 0 &&
         report.rows[1].compile_milliseconds == 0);
  EXPECT(report.text().find("[4, 8]  recorded in") != std::string::npos);
  const auto plan = module.plan({{1000, 8}});
  EXPECT(plan.compiled && plan.complete && plan.output_bytes == 1000 * 5 * 4 && plan.temporary_bytes > 0);
  EXPECT(module.plan({{0, 8}}).compiled && module.plan({{0, 8}}).output_bytes == 0);
  EXPECT(module.plan({{4096, 8}}).temporary_bytes > plan.temporary_bytes);
  EXPECT_ERROR(invalid_input, "in 0..4096", module.plan({{5000, 8}}));
  EXPECT_ERROR(invalid_input, "is none", module.plan({{-1, 8}}));
  EXPECT_ERROR(invalid_input, "takes 1 inputs", module.plan({}));
  module.on_miss(OnMiss::refuse);
  for (const int64_t n : {0, 1, 2, 17, 400}) EXPECT(at::allclose(module({rows(n)})[0], reference({rows(n)})[0], 1e-4, 1e-6));
  const at::Tensor strided = rows(8).t();  // another layout: no version
  EXPECT_ERROR(would_compile, "warm it up", module({strided}));
  EXPECT(module.metrics().errors_by_code.at("would_compile") == 1);
  module.on_miss(OnMiss::run_eagerly);
  EXPECT(at::allclose(module({strided})[0], reference({strided})[0], 1e-4, 1e-6));
  EXPECT(module.metrics().eager_by_reason.at("serve_only") == 1 && module.metrics().recordings == 1 &&
         module.metrics().versions == 1);
  module.on_miss(OnMiss::record);
  module({strided});
  EXPECT(module.metrics().recordings == 2 && module.metrics().versions == 2);
}

// Other weights need nothing made anew either, however often they are called.
void serve_only_with_other_weights() {
  const Module module = escapement::load(file("mlp.pt2")), reference = eager("mlp.pt2");
  module.warm_up({{{4, 8}}});
  module.on_miss(OnMiss::refuse);
  const double compiled_before = module.metrics().compile_seconds;
  const auto weights = scaled(module.weights(), 0.25);
  module.swap_weights(weights);
  reference.swap_weights(weights);
  for (int64_t n = 0; n < 100; ++n) EXPECT(at::allclose(module({rows(n)})[0], reference({rows(n)})[0], 1e-4, 1e-6));
  EXPECT_ERROR(would_compile, "warm it up", module({rows(8).t()}));
  EXPECT(module.metrics().compile_seconds == compiled_before && module.metrics().recordings == 1);
}

void warm_up_keeps_state() {
  const Module module = escapement::load(file("counter.pt2"));
  module.warm_up({{{4, 3}}});
  module.warm_up_with({{rows(5, 3)}});
  for (const auto& [name, tensor] : module.weights()) EXPECT(tensor.abs().sum().item<double>() == 0);
  module({rows(2, 3)});
  EXPECT(module.weights().at("calls").item<double>() == 1);
  const Module tally = escapement::load(file("tally.pt2"));
  tally.warm_up({{{4, 3}}, {{5, 3}}});
  EXPECT(same(tally.weights().at("sum"), at::zeros({3})));
}

void signature() {
  const Module module = escapement::load(file("mlp.pt2"));
  const escapement::Signature& found = module.signature();
  EXPECT(found.inputs.size() == 1 && found.outputs.size() == 1 && found.inputs[0].name == "x");
  const auto& dims = found.inputs[0].dims;
  EXPECT(dims.size() == 2 && dims[0].is_symbol && dims[0].least == 0 && dims[0].most == 4096 && dims[1].value == 8);
  EXPECT(found.outputs[0].dims[0].text == dims[0].text && found.outputs[0].dims[1].value == 5);
  std::printf("%s", found.text().c_str());
}

void metrics() {
  std::vector<escapement::LogLine> lines;
  std::mutex mutex;
  const escapement::Engine engine({{}, 0, [&](const escapement::LogLine& line) {
                                     const std::lock_guard lock(mutex);
                                     lines.push_back(line);
                                     throw std::runtime_error("a callback's own trouble");
                                   }});
  const Module module = engine.load(file("mlp.pt2"), "a\"b");
  for (const int64_t n : {3, 4, 5}) module({rows(n)});
  const escapement::Metrics m = module.metrics();
  EXPECT(m.calls == 3 && m.recordings == 1 && m.hits == 2 && m.eager_calls() == 0 && m.versions == 1 && m.in_flight == 0);
  EXPECT(m.weight_bytes == (8 * 16 + 16 + 16 * 5 + 5) * 4 && m.compile_seconds > 0 && m.latency.sum > 0);
  int64_t sum = 0;
  for (const int64_t count : m.latency.counts) sum += count;
  EXPECT(sum == 3 && m.latency.counts.size() == m.latency.bounds.size() + 1);
  std::string events;
  for (const auto& line : lines) events += line.event + " ";
  EXPECT(events == "recorded compiled loaded " || events == "loaded recorded compiled ");
  std::printf("%s", engine.prometheus().c_str());
}

// --- stopping

void stopping() {
  const Module module = escapement::load(file("counter.pt2"));
  Session session(module);
  const at::Tensor x = rows(4, 3);
  session.run(Tensors{x});
  session.set_deadline(Session::Clock::now() - std::chrono::seconds(1));
  EXPECT_ERROR(deadline_exceeded, "has changed nothing", session.run(Tensors{x}));
  session.set_deadline(Session::Clock::time_point::max());
  session.set_timeout(std::chrono::hours(1));
  session.run(Tensors{x});
  session.cancel();
  EXPECT_ERROR(cancelled, "has changed nothing", session.run(Tensors{x}));
  EXPECT_ERROR(cancelled, "has changed nothing", session.run_into({x}, {at::zeros({4, 3})}));
  session.reset();
  session.run(Tensors{x});
  EXPECT(module.weights().at("calls").item<double>() == 3);
  EXPECT(module.metrics().errors_by_code.at("cancelled") == 2);
}

// Whoever is cancelled at whatever moment: a result is right, or there is none, and the state tells how many there were.
void cancel_at_any_time() {
  const Module module = escapement::load(file("counter.pt2"));
  Session session(module);
  const at::Tensor x = rows(64, 3);
  std::atomic<bool> done{false};
  std::thread canceller([&] {
    std::minstd_rand random(1);
    while (!done) {
      session.cancel();
      for (unsigned i = random() % 2000; i > 0 && !done; --i) std::atomic_signal_fence(std::memory_order_seq_cst);
      session.reset();
      std::this_thread::yield();
    }
  });
  int64_t answered = 0, stopped = 0;
  for (int i = 0; i < 3000; ++i) {
    try {
      session.run(Tensors{x});
      ++answered;
    } catch (const ServingError& error) {
      EXPECT(error.code() == ErrorCode::cancelled);
      ++stopped;
    }
  }
  done = true;
  canceller.join();
  EXPECT(module.weights().at("calls").item<double>() == static_cast<double>(answered));
  EXPECT(at::allclose(module.weights().at("total"), x.sum(0).mul(static_cast<double>(answered)), 1e-3, 1e-3));
  EXPECT(answered + stopped == 3000);
}

void close_waits() {
  const Module module = escapement::load(file("mlp.pt2"));
  const at::Tensor x = rows(200), expected = compiled(module, {x})[0];
  std::atomic<int> running{0}, wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      Session session(module);
      ++running;
      try {
        for (;;) wrong += same(session.run(Tensors{x})[0].toTensor(), expected) ? 0 : 1;
      } catch (const ServingError& error) {
        wrong += error.code() == ErrorCode::closed ? 0 : 1;
      }
    });
  while (running < 4 || module.metrics().calls < 50) std::this_thread::yield();
  module.close();
  EXPECT(module.metrics().in_flight == 0);
  const int64_t calls = module.metrics().calls;
  for (std::thread& caller : callers) caller.join();
  EXPECT(wrong == 0 && module.metrics().calls == calls);
}

// --- weights

void swap_weights() {
  const Module module = escapement::load(file("mlp.pt2")), reference = eager("mlp.pt2");
  const auto first = module.weights(), second = scaled(first, -0.5);
  const at::Tensor x = rows(7), one = compiled(module, {x})[0];
  module.swap_weights(second);
  reference.swap_weights(second);
  const at::Tensor two = module({x})[0].clone();
  EXPECT(at::allclose(two, reference({x})[0], 1e-4, 1e-6) && !at::allclose(one, two, 1e-4, 1e-6));
  module.swap_weights(first);
  EXPECT(same(module({x})[0], one));
  EXPECT(module.metrics().recordings == 1 && module.metrics().hits == 3 && module.metrics().weight_swaps == 2);
  EXPECT_ERROR(invalid_input, "has no weight \"nowhere\"; it has", module.swap_weights({{"nowhere", x}}));
  const std::string name = first.begin()->first;
  EXPECT_ERROR(invalid_input, "expected float32", module.swap_weights({{name, first.at(name).to(at::kDouble)}}));
  EXPECT_ERROR(invalid_input, "expected float32", module.swap_weights({{name, at::zeros({1})}}));
  EXPECT_ERROR(invalid_input, "no strided tensor", module.swap_weights({{name, at::Tensor()}}));
  EXPECT(same(module({x})[0], one));

  const Module tied = escapement::load(file("tied.pt2")), tied_reference = eager("tied.pt2");
  const at::Tensor ids = at::arange(5);
  tied({ids});
  const auto weights = tied.weights();
  EXPECT_ERROR(invalid_input, "are one tensor",
               tied.swap_weights(
                   {{"embedding.weight", weights.at("embedding.weight").mul(2)}, {"out.weight", weights.at("out.weight")}}));
  for (const Module* m : {&tied, &tied_reference}) m->swap_weights({{"out.weight", weights.at("out.weight").mul(2)}});
  EXPECT(at::allclose(tied({ids})[0], tied_reference({ids})[0], 1e-4, 1e-6));
  EXPECT(same(tied.weights().at("embedding.weight"), weights.at("out.weight").mul(2)));
}

// What is told is told behind the swap: who hears it may change the module, or close it.
void swap_is_told() {
  std::vector<std::string> told;
  const Module* heard = nullptr;
  const Module module = escapement::load(file("tied.pt2"), {.log = [&](const escapement::LogLine& line) {
    told.push_back(line.event);
    if (told.back() == "weights_swapped") heard->warm_up_with({{at::arange(3)}});
    if (told.back() == "saved") heard->close();
  }});
  heard = &module;
  const at::Tensor nan = at::full({11, 6}, std::numeric_limits<double>::quiet_NaN()), same_nan = nan.clone();
  module.swap_weights({{"embedding.weight", nan}, {"out.weight", nan}});
  module.swap_weights({{"embedding.weight", nan}, {"out.weight", same_nan}});
  EXPECT_ERROR(invalid_input, "\"embedding.weight\" and \"out.weight\" are one", module.swap_weights({{"embedding.weight", nan}, {"out.weight", -nan}}));
  module.save(g_folder + "/told.package");
  EXPECT(module.is_closed() && std::ranges::count(told, "weights_swapped") == 2);
}

// Weights of all ones or all twos: a mixture would give another number.
void swap_while_running() {
  const Module module = escapement::load(file("mlp.pt2"));
  const auto first = module.weights(), second = scaled(first, 2.0);
  const at::Tensor x = rows(33), one = compiled(module, {x})[0];
  module.swap_weights(second);
  const at::Tensor two = module({x})[0].clone();
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, ones{0}, twos{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      Session session(module);
      while (!done) {
        const at::Tensor y = session.run(Tensors{x})[0].toTensor();
        if (same(y, one))
          ++ones;
        else if (same(y, two))
          ++twos;
        else
          ++wrong;
      }
    });
  for (int i = 0; i < 200 || ones == 0 || twos == 0; ++i) module.swap_weights(i % 2 ? second : first);
  done = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT(wrong == 0 && module.metrics().recordings == 1 && module.metrics().eager_calls() == 0);
}

// --- packages

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void package_of(const char* name, const Tensors& inputs, bool stateful = false) {
  const std::string path = g_folder + "/" + name + ".package";
  const Module module = escapement::load(file(name));
  module.warm_up_with({{inputs.begin(), inputs.end()}});
  module.on_miss(OnMiss::refuse);
  module.save(path);
  const Tensors expected = module(inputs);
  const Module trusted = escapement::load(path, {{"trust_package", "true"}}), plain = escapement::load(path);
  trusted.on_miss(OnMiss::refuse);  // nothing is recorded: else would_compile
  const Tensors got = trusted(inputs), again = compiled(plain, inputs);
  EXPECT(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT(same(got[i], expected[i]) && same(again[i], expected[i]));
  EXPECT(trusted.metrics().hits == 1 && trusted.metrics().recordings == 0 && plain.metrics().recordings == 1);
  if (stateful) {
    for (const auto& [weight, tensor] : module.weights()) EXPECT(same(tensor, trusted.weights().at(weight)));
  }
  const Module third = escapement::load(path, {{"trust_package", "true"}});  // its own weights
  EXPECT(same(third(inputs)[0], expected[0]));
  third.save(path);  // over the file that is mapped
  EXPECT(same(escapement::load(path, {{"trust_package", "true"}})(inputs)[0], stateful ? third(inputs)[0] : expected[0]));
}

void packages() {
  package_of("mlp.pt2", {rows(6)});
  package_of("lookup.pt2", {at::arange(4)});
  package_of("tied.pt2", {at::arange(4)});
  package_of("counter.pt2", {rows(4, 3)}, true);
}

// In a process that has not compiled these kernels: argument 3 is a package.
void package_alone() {
  const Module module = escapement::load(g_folder + "/mlp.pt2.package", {{"trust_package", "true"}});
  module.on_miss(OnMiss::refuse);
  const Module reference = eager("mlp.pt2");
  for (const int64_t n : {0, 1, 6, 300}) EXPECT(at::allclose(module({rows(n)})[0], reference({rows(n)})[0], 1e-4, 1e-6));
  std::printf("%s\n", module.explain().c_str());
}

// Every cut, and flips of many bytes: an error that names the file, or a module that gives the same.
void bad_packages() {
  const std::string good = g_folder + "/good.package", bad = g_folder + "/bad.package";
  const Module module = escapement::load(file("mlp.pt2"));
  const at::Tensor x = rows(3), expected = compiled(module, {x})[0];
  module.save(good);
  const std::string bytes = read_file(good);
  const auto refused = [&](const std::string& changed) {
    write_file(bad, changed);
    try {
      const Module loaded = escapement::load(bad, {{"trust_package", "true"}});
      return same(compiled(loaded, {x})[0], expected);  // a byte that says nothing
    } catch (const ServingError& error) {
      return error.code() == ErrorCode::bad_file && std::string(error.what()).find("bad.package'") != std::string::npos;
    }
  };
  std::minstd_rand random(7);
  for (size_t i = 0; i < 200; ++i) EXPECT(refused(bytes.substr(0, random() % bytes.size())));
  for (size_t i = 0; i < 400; ++i) {
    std::string changed = bytes;
    changed[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    EXPECT(refused(changed));
  }
  write_file(bad, "");
  EXPECT_ERROR(bad_file, "no zip archive", escapement::load(bad));
}

// --- threads

// `g_number` calls on each of 64 threads, at sizes of every thread's own order.
void many_threads() {
  at::set_num_threads(1);
  const Module module = escapement::load(file("mlp.pt2"), {{"threads", "1"}});
  std::vector<at::Tensor> inputs, expected;
  for (const int64_t n : {0, 1, 2, 3, 5, 7, 8, 11, 13, 16, 17, 23, 31, 32, 33, 47, 64, 65, 97, 128}) {
    inputs.push_back(rows(n));
    expected.push_back(compiled(module, {inputs.back()})[0]);
  }
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 64; ++t)
    threads.emplace_back([&, t] {
      std::minstd_rand random(t + 1);
      Session session(module);
      for (long i = 0; i < g_number; ++i) {
        const size_t k = random() % inputs.size();
        const bool right = same(i % 2 ? session.run(Tensors{inputs[k]})[0].toTensor() : module({inputs[k]})[0], expected[k]);
        if (!right) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  const auto m = module.metrics();
  EXPECT(wrong == 0 && m.recordings == 1 && m.calls == 64 * g_number + 40 && m.hits == m.calls - 1 && m.versions == 1);
}

void first_calls() {
  for (int round = 0; round < 5; ++round) {
    const Module module = escapement::load(file("mlp.pt2"));
    const at::Tensor x = rows(12), expected = eager("mlp.pt2")({x})[0];
    std::atomic<int> ready{0}, wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 16; ++t)
      threads.emplace_back([&] {
        ++ready;
        while (ready < 16) {
        }
        wrong += at::allclose(module({x})[0], expected, 1e-4, 1e-6) ? 0 : 1;
      });
    for (std::thread& thread : threads) thread.join();
    const auto m = module.metrics();
    EXPECT(wrong == 0 && m.recordings == 1 && m.versions == 1 && m.calls == 16);
  }
}

// Operators of other threads are not seen by a recording, and give what they always give.
void record_beside_eager() {
  std::atomic<bool> done{false};
  std::atomic<int64_t> wrong{0}, rounds{0};
  std::vector<std::thread> others;
  const at::Tensor a = rows(16), b = rows(16).t().contiguous();
  const at::Tensor expected = at::matmul(a, b).relu().add(1);
  for (int t = 0; t < 3; ++t)
    others.emplace_back([&] {
      while (!done) {
        if (!same(at::matmul(a, b).relu().add(1), expected)) ++wrong;
        ++rounds;
      }
    });
  const at::Tensor x = rows(9), y = eager("mlp.pt2")({x})[0];
  for (int i = 0; i < 20 || rounds < 100; ++i) {
    const Module module = escapement::load(file("mlp.pt2"));
    EXPECT(at::allclose(module({x})[0], y, 1e-4, 1e-6) && module.metrics().recordings == 1 &&
           module.metrics().versions == 1);
  }
  done = true;
  for (std::thread& other : others) other.join();
  EXPECT(wrong == 0);
}

// What a server does, all at the same time: calls of new and known layouts by sessions and without, other weights, warm-up,
// plans, packages, reports, metrics; then the module is closed under its callers.
void everything_at_once() {
  at::set_num_threads(1);
  const escapement::Engine engine({{{"threads", "1"}, {"hot_launches", "3"}}, 0, [](const escapement::LogLine&) {}});
  const Module module = engine.load(file("mlp.pt2")), reference = eager("mlp.pt2");
  const auto first = module.weights(), second = scaled(first, 2.0);
  Tensors inputs, one, two;
  for (const int64_t n : {8, 1, 2, 4, 17, 31}) inputs.push_back(rows(n));
  inputs.push_back(rows(8).t());  // another layout: a version of its own
  for (const at::Tensor& x : inputs) one.push_back(reference({x})[0]);
  reference.swap_weights(second);
  for (const at::Tensor& x : inputs) two.push_back(reference({x})[0]);
  std::atomic<int> wrong{0}, callers{6};
  std::atomic<int64_t> answered{0};
  const auto right = [&](size_t k, const at::Tensor& y) {
    return at::allclose(y, one[k], 1e-4, 1e-6) || at::allclose(y, two[k], 1e-4, 1e-6);
  };
  const auto call = [&](unsigned t) {
    Session session(module);
    try {
      for (size_t i = t;; ++i) {
        const size_t k = i % inputs.size();
        if (!right(k, i % 2 ? session.run(Tensors{inputs[k]})[0].toTensor() : module({inputs[k]})[0])) ++wrong;
        ++answered;
      }
    } catch (const ServingError& error) {
      wrong += error.code() == ErrorCode::closed ? 0 : 1;
    }
    --callers;
  };
  const auto until_closed = [&](auto action) {
    try {
      for (int i = 0; callers > 0; ++i) action(i);
    } catch (const ServingError& error) {
      wrong += error.code() == ErrorCode::closed ? 0 : 1;
    }
  };
  std::atomic<int> swaps{0}, warmed{0}, saved{0}, read{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t) threads.emplace_back(call, t);
  threads.emplace_back(until_closed, [&](int i) {
    module.swap_weights(i % 2 ? first : second);
    ++swaps;
  });
  threads.emplace_back(until_closed, [&](int i) {
    wrong += module.warm_up({{{3 + i % 5, 8}}}).rows.size() == 1 ? 0 : 1;
    module.on_miss(i % 2 ? OnMiss::run_eagerly : OnMiss::record);
    wrong += module.plan({{4, 8}}).input_bytes == 4 * 8 * 4 ? 0 : 1;
    ++warmed;
  });
  threads.emplace_back(until_closed, [&](int) {
    module.save(g_folder + "/at_once.package");
    const auto again = escapement::load(g_folder + "/at_once.package", {{"trust_package", "true"}, {"threads", "1"}});
    if (!right(3, again({inputs[3]})[0])) ++wrong;
    ++saved;
  });
  threads.emplace_back(until_closed, [&](int) {
    if (module.metrics().in_flight < 0 || engine.prometheus().empty() || module.weights().size() != first.size()) ++wrong;
    if (module.explain().find("versions") == std::string::npos || module.signature().inputs.size() != 1) ++wrong;
    ++read;
  });
  while (wrong == 0 && (answered < 600 || swaps < 10 || warmed < 10 || saved < 3 || read < 10)) std::this_thread::yield();
  module.close();
  const int64_t calls = module.metrics().calls;
  for (std::thread& thread : threads) thread.join();
  EXPECT(wrong == 0 && module.metrics().calls == calls && module.metrics().in_flight == 0 && calls >= answered);
}

// A child after fork runs what was compiled before, on one thread.
void after_fork() {
  at::set_num_threads(1);
  const Module module = escapement::load(file("mlp.pt2"), {{"threads", "1"}});
  const at::Tensor x = rows(20), expected = compiled(module, {x})[0];
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      Session session(module);
      ::_exit(same(session.run(Tensors{x})[0].toTensor(), expected) ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

// All that a child may do with a module; and nobody is inside who is not there.
bool serves(const Module& module) {
  const at::Tensor x = rows(20), expected = eager("mlp.pt2")({x})[0];
  const auto right = [&](const at::Tensor& y) { return at::allclose(y, expected, 1e-4, 1e-6); };
  Session session(module);
  bool good = module.metrics().in_flight == 0 && right(session.run(Tensors{x})[0].toTensor());
  const int64_t hits = module.metrics().hits;
  good = good && right(session.run(Tensors{x})[0].toTensor()) && module.metrics().hits == hits + 1;
  good = good && module.warm_up({{{3, 8}}}).rows.size() == 1;
  module.swap_weights(scaled(module.weights(), 2.0));
  module.on_miss(OnMiss::refuse);
  good = good && !right(session.run(Tensors{x})[0].toTensor()) && module.metrics().in_flight == 0;
  module.close();
  return good && module.is_closed();
}

// A fork while another thread is inside a call, or has its turn at changing the module.
void fork_while_inside() {
  at::set_num_threads(1);
  for (const bool warming : {false, true}) {
    std::atomic<bool> inside{false}, go_on{false};
    const escapement::Engine engine({{{"threads", "1"}}, 0, [&](const escapement::LogLine& line) {
                                       inside = inside || line.event == "recorded";
                                       while (inside && !go_on) std::this_thread::yield();
                                     }});
    const Module module = engine.load(file("mlp.pt2"));
    std::thread other([&] {
      if (warming) module.warm_up({{{4, 8}}});
      else Session(module).run(Tensors{rows(4)});
    });
    while (!inside) std::this_thread::yield();
    EXPECT(module.metrics().in_flight > 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(200);  // ends a child that hangs
      go_on = true;
      ::_exit(serves(module) ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    go_on = true;
    other.join();
    EXPECT(serves(module));
  }
}

const std::map<std::string, void (*)()> kChecks{{"session", session},
                                                {"session_feeds_itself", session_feeds_itself},
                                                {"lent_memory", lent_memory},
                                                {"swap_is_told", swap_is_told},
                                                {"run_into", run_into},
                                                {"errors", errors},
                                                {"bad_arguments", bad_arguments},
                                                {"serve_only", serve_only},
                                                {"signature", signature},
                                                {"metrics", metrics},
                                                {"stopping", stopping},
                                                {"close_waits", close_waits},
                                                {"swap_weights", swap_weights},
                                                {"packages", packages},
                                                {"package_alone", package_alone},
                                                {"bad_packages", bad_packages},
                                                {"first_calls", first_calls},
                                                {"fork_while_inside", fork_while_inside},
                                                {"everything_at_once", everything_at_once},
                                                {"after_fork", after_fork},
                                                {"many_threads", many_threads},
                                                {"warm_up_keeps_state", warm_up_keeps_state},
                                                {"serve_only_with_other_weights", serve_only_with_other_weights},
                                                {"cancel_at_any_time", cancel_at_any_time},
                                                {"swap_while_running", swap_while_running},
                                                {"record_beside_eager", record_beside_eager}};

}  // namespace

int main(int count, char** arguments) {
  if (count < 3 || !kChecks.contains(arguments[1])) return 2;
  g_folder = arguments[2];
  if (count > 3) g_number = std::atol(arguments[3]);
  try {
    kChecks.at(arguments[1])();
  } catch (const std::exception& error) {
    std::printf("thrown: %s\n", error.what());
    return 1;
  }
  return g_failures == 0 ? 0 : 1;
}
