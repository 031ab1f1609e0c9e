// The recorder: the one way to make a trace. A program is run once, for real, on wrappers of its inputs; a boxed fallback on one
// dispatch key sees every ATen call of the thread, runs it on the inner tensors, and appends it to the trace.
//
// The results are eager's, whatever the recorder could understand. What it could not is in `Recording::refused`.
// Every size rule of ours is compared with what ATen returned at once; a rule that disagrees is dropped for that op, which is then
// recorded as a library call (Reason::call_rule_disagreed).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/size_spec.h"
#include "torch/record/asked_kinds.h"
#include "torch/record/exits.h"
#include "torch/record/world.h"
#include "trace/trace.h"

namespace escapement {

struct Departure;
struct Tape;

struct Recording {
  c10::Device device{c10::DeviceType::CPU};   // where all its tensors lie
  Trace trace;                              // inputs: the caller's, in order, then `captured`
  std::vector<at::Tensor> captured;         // tensors the program used that are no inputs: real tensors, kept alive
  std::vector<c10::IValue> host_objects;    // generators and the like: CallArg::code indexes here
  std::optional<Reason> refused;            // set: never replay this trace
  std::string refused_detail;
  bool learned = false;                     // refused, but the next recording will do better
  std::set<size_t> decided;                 // by number: operators at which that one decides between a view and a copy (choices.h)
  size_t ops = 0;                           // ATen calls seen
  Ground ground;                            // the world it was made in (world.h)
  std::optional<bool> inference;            // the program itself switches inference mode: its results are made with it on, or off
  std::vector<at::Generator> unknown_generators;  // refused because of these; a recording that knows them may do better
  std::vector<ArgumentKind> kinds;          // of arguments that the program asked about; it is for such arguments only
  std::vector<Exit> exits;                  // in order
  bool exits_everywhere = false;            // at checks before any effect, too
  std::shared_ptr<const std::vector<ScriptStep>> script;   // null where there are no exits
  std::vector<std::string> specialised;     // "s0 == 128: exact value read at model.py:7": one line per pinned value
};

// One recording on the current thread. Not reentrant; scopes on different threads are independent.
class Recorder {
 public:
  explicit Recorder(std::string name, c10::Device device = c10::DeviceType::CPU);
  ~Recorder();                              // restores the thread if `finish` was not reached
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // --- before the run. Sizes are Dims of dims(); the caller may use one symbol in several places. A size that is a plain
  // symbol without source gets this input's size as its source. Checks each hint against the real size (UserError).
  DimTable& dims();
  Dim integer(int64_t value, std::string name);                          // a new integer argument, in input order
  void declare(const SizeSpec& spec, Dim dim);                             // the range of a symbol: relied on, and a guard at entry
  void declare_equal(Dim a, Dim b);                                        // as was declared; likewise
  c10::SymInt as_symint(Dim dim);                                          // what the program sees
  at::Tensor tensor(const at::Tensor& real, std::vector<Dim> sizes, std::string name, bool parameter);  // the wrapper
  at::Tensor tensor(const at::Tensor& real, std::string name);           // all sizes new symbols
  void opaque_input(std::string name);                                   // an argument that the trace ignores (keeps positions)

  // --- the run
  void set_location_hook(std::function<int()> hook);                       // number of the user's line, per op; -1 = unknown
  // From here on this thread's ATen calls are recorded. `known`: generators that the program may draw from besides torch's own.
  // `exits_everywhere`: each check of a value is an exit, also where the call could still begin anew.
  void enter(std::span<const at::Generator> known = {}, bool exits_everywhere = false);
  void go_forward(Departure departure);                                    // before `enter`: a program that has begun already
  void leave();

  // --- after the run. `outputs`: tensors (wrappers or real), SymInt/int, bool, None; returns the real results in place.
  Recording finish(std::vector<c10::IValue>& outputs);

  // For those who hand it operators themselves instead of entering it.
  const std::shared_ptr<Tape>& tape() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// Registers the fallback (once per process; idempotent).
void install_recorder();

}  // namespace escapement
