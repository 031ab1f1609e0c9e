// Module::Impl: one loaded program, its calls, and what is counted and told about them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "escapement/serving.h"
#include "jit/run/call_control.h"
#include "support/fork.h"
#include "torch/serving/gate.h"
#include "torch/serving/meter.h"
#include "torch/serving/module_state.h"

namespace escapement {

// What a module is loaded with.
struct LoadSettings {
  Options options;
  std::string name;                         // empty: the file's
  std::vector<std::string> output_names;    // none: the program's
  std::shared_ptr<const Log> log;           // null: nobody listens
};

struct Module::Impl {
  Impl(LoadSettings settings, ProgramSource source);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // A call, counted. Replaces `outputs`. Throws ServingError; c10::Error of the program passes through where `raw`.
  Region::Answer call(const Region::Values& inputs, Region::Values& outputs, std::span<const at::Tensor> offers = {},
                      const CallControl* control = nullptr);
  void tell(LogLine::Level level, const char* event, std::string text, double milliseconds = 0) const noexcept;
  ModuleState::Listener listener();
  void restore(ProgramSource& source);

  const ModuleFacts facts;
  const std::vector<std::string> output_names;
  const std::shared_ptr<const Log> log;
  Meter meter;
  ForkTurn changing;                          // one swap, warm-up or mode change at a time
  Gate<ModuleState> gate;
};

// Runs an action; what it throws becomes a ServingError, c10::Error included unless it is passed on.
ErrorCode code_of_current_exception();        // within a catch block
[[noreturn]] void throw_serving_error(const std::string& module);       // within a catch block

template <class Action>
decltype(auto) serving(const std::string& module, Action action) {
  try {
    return action();
  } catch (...) {
    throw_serving_error(module);
  }
}

// Calls `done`, once; what it throws is dropped and logged.
void hand_over(const Module::Impl& module, const Module::Done& done, std::exception_ptr error, std::vector<c10::IValue> results) noexcept;

// ServingError.
std::shared_ptr<Module::Impl> load_module(const std::string& path, LoadSettings settings);
std::shared_ptr<Module::Impl> load_module(std::span<const std::byte> bytes, LoadSettings settings);

// Timeouts: zero is none.
void check_timeout(std::chrono::nanoseconds timeout);   // ServingError: negative
CallControl::Clock::time_point end_of(std::chrono::nanoseconds timeout);
std::string write_package(const Module::Impl& module, ModuleState& state, const std::string& path);

}  // namespace escapement
