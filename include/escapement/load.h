// Programs that Python exported (torch.export.save), for C++ programs that embed LibTorch: no Python, and nothing in the
// file is executed. serving.h has what a server needs besides: engines and sessions.
//
//   escapement::Module model = escapement::load("model.pt2", {.output_names = {"logits"}});
//   at::Tensor y = model({x})[0];        // the first call records the program; other sizes run the same code
//   at::Tensor z = model.run({{"x", x}}).at("logits");
//
// Inputs are flat: the leaves of what the program was exported with, in order; arguments that were no tensors and no symbols
// are constants of the program and are not passed. Each call is checked against the exported dtypes, sizes and ranges; a
// declared lower bound of 2 admits 0 and 1, as in PyTorch. Buffers that the program changes are changed in the module.
// Gradients are not computed.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "escapement/error.h"
#include "escapement/escapement.h"
#include "escapement/metrics.h"
#include "escapement/options.h"
#include "escapement/signature.h"

namespace escapement::inline ESCAPEMENT_ABI {

// The sizes of a call: per input its sizes; of an integer input its value alone.
using Shapes = std::vector<std::vector<int64_t>>;

// What a module does with a call that no version fits.
enum class OnMiss : uint8_t {
  record,       // the call is the recording of a new version (up to the option max_recordings)
  run_eagerly,  // runs without compiled code, counted under serve_only
  refuse,       // ServingError would_compile
};

struct ESCAPEMENT_API WarmUpReport {
  struct Row {
    std::string shapes;     // "[4, 64] [2]"
    bool recorded = false;  // else a version was there already, or the call ran eagerly
    bool eager = false;
    double milliseconds = 0;  // of the whole call
    double record_milliseconds = 0, compile_milliseconds = 0;
  };
  std::vector<Row> rows;  // one per given shapes, in order
  double milliseconds = 0;
  std::string text() const;  // a table
};

struct Plan {
  bool compiled = false;  // a version fits: nothing would be recorded
  std::string miss;       // else why not, for the newest version
  int64_t input_bytes = 0;
  int64_t output_bytes = 0, temporary_bytes = 0;  // known if `compiled`
  bool complete = true;                           // false: more memory, whose size is known only when the program runs
};

// A handle: copies are the same module. All members may be called from any number of threads at once. Where nothing else is
// said, what is thrown is a ServingError.
class ESCAPEMENT_API Module {
 public:
  // Tensors in, tensors out (undefined ones for None). CPU tensors of the exported dtypes and ranks. invalid_input names the
  // input, dim, expectation and the value seen; what an operator of the program throws (c10::Error) passes through.
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& inputs) const;

  // The same for programs that take or return integers, too: an input is a tensor or an integer, a result those or a real
  // number, a truth value or None.
  std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs) const;

  // The same by name: every input once, and no other; results under output_names(). unsupported: a result is a number, or two have one name.
  using NamedTensors = std::map<std::string, at::Tensor>;
  NamedTensors run(std::initializer_list<NamedTensors::value_type> inputs) const { return run_named(NamedTensors(inputs)); }
  template <std::same_as<NamedTensors> Inputs>
  NamedTensors run(const Inputs& inputs) const {
    return run_named(inputs);
  }

  // `run` on a thread of torch's inter-op pool, with the modes of the caller's thread. `done` is called there exactly once: with the
  // results, or with what `run` would have thrown (null where there are results). What `done` throws is dropped and logged. A timeout
  // counts from now; none at first (Session::set_timeout says where it is looked at).
  using Done = std::function<void(std::exception_ptr error, std::vector<c10::IValue> results)>;
  void run_async(std::vector<c10::IValue> inputs, Done done, std::optional<std::chrono::nanoseconds> timeout = {}) const;

  const std::string& name() const;
  const std::vector<std::string>& input_names() const;   // in order of the inputs
  std::vector<std::string> output_names() const;         // in order of the results: LoadOptions::output_names, or the program's
  const Signature& signature() const;

  // What was compiled, as JSON: versions, kernels with their operators, library calls, guards, symbols, timings, fallbacks.
  std::string explain() const;

  // Calls the module once with each of the shapes (tensors of zeros), or with the given inputs, so that later calls find
  // code. Buffers are afterwards what they were before; a random generator has moved. To be done before other threads call.
  WarmUpReport warm_up(const std::vector<Shapes>& shapes) const;
  WarmUpReport warm_up_with(const std::vector<std::vector<c10::IValue>>& inputs) const;

  // What becomes of calls that no version fits; `record` at first. Otherwise all code that the versions may need is made
  // now, so that no later call waits for the compiler. Kernels that turn hot still get better code in the background (option
  // hot_launches).
  void on_miss(OnMiss what) const;

  // Would calls with these shapes compile, and how much memory do they need? Runs nothing.
  Plan plan(const Shapes& shapes) const;

  // Puts other values under parameters, buffers and constants, by name: same dtype, sizes. Each call sees the old or the new
  // ones of all of them. The values are copied; calls that run go on with the old ones, which are freed with the last of
  // them. unsupported: a weight that shares memory with another one.
  void swap_weights(const std::map<std::string, at::Tensor>& weights) const;
  std::map<std::string, at::Tensor> weights() const;  // copies

  Metrics metrics() const;

  // Writes a package: program, weights, versions and their code for this processor (docs/package.md). The file appears whole
  // or not at all. Later calls of `load` read it.
  void save(const std::string& path) const;

  // Refuses calls from now on (code closed), waits for those that run, frees weights and code. Idempotent. Not from within a
  // call.
  void close() const;
  bool is_closed() const;

  struct Impl;
  explicit Module(std::shared_ptr<Impl> impl);  // for the library

 private:
  friend class Batcher;
  friend class Session;
  NamedTensors run_named(const NamedTensors& inputs) const;
  std::shared_ptr<Impl> impl_;
};

namespace detail {
ESCAPEMENT_API Module load_with(const std::string& path, const OptionList& options);
}  // namespace detail

// Reads an archive of PyTorch 2.13's torch.export.save, or a package that Module::save wrote: a file, or the bytes of one, which are read
// here and not needed afterwards. Throws ServingError bad_file that names the file, the cause and the remedy, invalid_input for output names
// that are not one for each result; std::invalid_argument for an unknown option.
ESCAPEMENT_API Module load(const std::string& path, LoadOptions options = {});
ESCAPEMENT_API Module load(std::span<const std::byte> bytes, LoadOptions options = {});
ESCAPEMENT_API Module load(const std::string& path, OptionPairs options);

// The tensors of a file in safetensors' format, by name, for Module::swap_weights. ServingError bad_file: it cannot be read, or holds what no
// tensor of torch can be.
ESCAPEMENT_API std::map<std::string, at::Tensor> read_weights(const std::string& path);
template <std::same_as<OptionList> List>
Module load(const std::string& path, const List& options) {
  return detail::load_with(path, options);
}

}  // namespace escapement
