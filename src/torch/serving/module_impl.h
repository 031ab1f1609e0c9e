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

using Log = std::function<void(const LogLine&)>;

struct Module::Impl {
  Impl(std::string name, ProgramSource source, Options options, std::shared_ptr<const Log> log);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // A call, counted. Replaces `outputs`. Throws ServingError; c10::Error of the program passes through where `raw`.
  Region::Answer call(const Region::Values& inputs, Region::Values& outputs, std::span<const at::Tensor> offers = {},
                      const CallControl* control = nullptr);
  void tell(LogLine::Level level, const char* event, std::string text, double milliseconds = 0) const noexcept;
  ModuleState::Listener listener();
  void restore(ProgramSource& source);

  const ModuleFacts facts;
  const std::shared_ptr<const Log> log;       // null: nobody listens
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

std::shared_ptr<Module::Impl> load_module(const std::string& path, std::string name, const Options& options,
                                          std::shared_ptr<const Log> log);   // ServingError
std::string write_package(const Module::Impl& module, ModuleState& state, const std::string& path);

}  // namespace escapement
