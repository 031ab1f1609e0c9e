// Serving: an Engine loads modules and gathers what they tell; a Session is one caller's state.
//
//   escapement::Engine engine({.options = {{"pack_weights", "true"}}, .log = [](const escapement::LogLine& line) { ... }});
//   escapement::Module model = engine.load("model.pt2");
//   std::cout << model.warm_up({{{1, 64}}, {{33, 64}}}).text();
//   model.on_miss(escapement::OnMiss::refuse);            // from here on nothing is compiled
//
//   escapement::Session session(model);                   // one per thread or request
//   session.set_timeout(std::chrono::milliseconds(50));
//   const auto& results = session.run({x});               // valid until the next run
//
// Everything here throws ServingError and nothing else, std::bad_alloc of the standard library's own containers apart.
// docs/serving.md tells more.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "escapement/load.h"
#include "escapement/log.h"

namespace escapement::inline ESCAPEMENT_ABI {

// Thread safe. Modules outlive the engine that loaded them.
class ESCAPEMENT_API Engine {
 public:
  struct Settings {
    OptionList options;                       // for every module; see options in docs
    int threads = 0;                          // torch's, of the whole process; 0: as it is, 1024 at most
    Log log;
  };
  Engine();
  explicit Engine(Settings settings);  // invalid_input: no such option, or number of threads
  ~Engine();

  // `name`: in metrics and log lines; empty: the file's. invalid_input: an open module of this engine has the name; what Module's `load`
  // has for its options.
  Module load(const std::string& path, LoadOptions options = {}) const;            // what is said there goes before the engine's options
  Module load(std::span<const std::byte> bytes, LoadOptions options = {}) const;
  template <std::convertible_to<std::string> Name>
  Module load(const std::string& path, const Name& name) const {
    return load(path, LoadOptions{.name = name});
  }
  std::vector<Module> modules() const;  // those that are not closed
  std::string prometheus() const;       // of these
  void close() const;                   // closes them all; later loads fail with code closed

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// One caller's state: outputs whose memory is used again, a deadline, a flag to cancel. One thread at a time, except for
// `cancel`.
class ESCAPEMENT_API Session {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Session(Module module);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // Inputs and results as in Module::run. The results are the session's until the next run, which writes into their memory
  // where it gives tensors of the same sizes: keep a result with clone(). A tensor that somebody else still holds is left
  // alone.
  const std::vector<c10::IValue>& run(const std::vector<c10::IValue>& inputs);
  const std::vector<c10::IValue>& run(const std::vector<at::Tensor>& inputs);
  const std::vector<c10::IValue>& run(std::initializer_list<at::Tensor> inputs) { return run(std::vector<at::Tensor>(inputs)); }   // run({x, y})

  // Results into the caller's tensors, one per result; all results must be tensors. Dtypes and sizes must be the results'
  // (invalid_input, found after the run); strides may differ. Written directly where the layout is the result's and nothing
  // overlaps, else copied. After an error their contents are undefined.
  void run_into(const std::vector<c10::IValue>& inputs, const std::vector<at::Tensor>& outputs);

  // Both hold for every later run; the earlier end counts. No timeout, or one of zero: none. invalid_input: a negative one.
  void set_timeout(std::optional<std::chrono::nanoseconds> per_run);
  void set_deadline(Clock::time_point deadline);  // time_point::max(): none

  // From any thread: the run in progress, if there is one, and all later ones end with code cancelled, until reset.
  void cancel();
  void reset();

  // Deadline and cancel are looked at before a run, and between its steps (kernels, library calls; operators where it runs
  // eagerly) until the first step that changes an input or a buffer or draws random numbers; from there on the run goes to
  // its end. A kernel, library call or compile that has begun is never interrupted.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace escapement
