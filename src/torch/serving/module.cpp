// Modules (include/escapement/load.h): loading, calls, closing. warm_up.cpp and weights.cpp have the rest.
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <filesystem>

#include "support/error.h"
#include "support/events.h"
#include "support/text.h"
#include "torch/api/api_options.h"
#include "torch/serving/module_impl.h"

namespace escapement {

namespace {

std::shared_ptr<ModuleState> first_state(const ModuleFacts& facts, ProgramSource& source, ModuleState::Listener listener) {
  return std::make_shared<ModuleState>(facts, GraphRunner(source.program, std::move(source.weights)), std::move(listener));
}

LogLine::Level level_of(RegionEvent::Kind kind) {
  return kind == RegionEvent::Kind::not_compiled ? LogLine::Level::warning : LogLine::Level::info;
}

const char* event_name(RegionEvent::Kind kind) {
  switch (kind) {
    case RegionEvent::Kind::recorded:
      return "recorded";
    case RegionEvent::Kind::compiled:
      return "compiled";
    case RegionEvent::Kind::not_compiled:
      return "not_compiled";
  }
  return "";
}

// One for each result, and each once.
std::vector<std::string> checked_names(std::vector<std::string> names, const Signature& signature) {
  if (names.empty()) {
    for (const Signature::Item& output : signature.outputs) names.push_back(output.name);
    return names;
  }
  if (names.size() != signature.outputs.size())
    throw ServingError(ErrorCode::invalid_input, "escapement: " + std::to_string(names.size()) + " output names are given, and the program has " +
                                                     std::to_string(signature.outputs.size()) + " results");
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty() || std::find(names.begin(), name, *name) != name)
      throw ServingError(ErrorCode::invalid_input, "escapement: the output name " + quote(*name) + (name->empty() ? " is empty" : " is given twice"));
  }
  return names;
}

}  // namespace

Module::Impl::Impl(LoadSettings settings, ProgramSource source)
    : facts(std::move(settings.name), source.program, std::move(source.json), std::move(settings.options)),
      output_names(checked_names(std::move(settings.output_names), facts.signature)),
      log(std::move(settings.log)),
      gate(first_state(facts, source, listener())) {
  restore(source);
}

void Module::Impl::tell(LogLine::Level level, const char* event, std::string text, double milliseconds) const noexcept {
  if (!log || !*log) return;
  try {
    (*log)({level, facts.name, event, std::move(text), milliseconds});
  } catch (...) {  // a callback's own trouble must not become a call's
  }
}

ModuleState::Listener Module::Impl::listener() {
  return [this](const RegionEvent& event) {
    meter.heard(event);
    tell(level_of(event.kind), event_name(event.kind), event.text, event.milliseconds);
  };
}

// A version that cannot be used is recorded anew when a call needs it.
void Module::Impl::restore(ProgramSource& source) {
  const auto state = gate.enter();
  for (Recording& version : source.versions) {
    try {
      state->region.restore(std::move(version), &source.objects);
    } catch (const std::exception& error) {
      count(Reason::package_trace_stale);
      tell(LogLine::Level::warning, "not_restored", error.what());
    }
  }
}

Region::Answer Module::Impl::call(const Region::Values& inputs, Region::Values& outputs, std::span<const at::Tensor> offers,
                                  const CallControl* control) {
  const auto start = std::chrono::steady_clock::now();
  try {
    const auto state = gate.enter();
    if (control) control->check();
    facts.check(inputs);
    outputs.clear();
    Region::Answer answer;
    if (control) {
      const ControlScope scope(control);
      answer = state->region.answer(inputs, outputs, offers);
    } else {
      answer = state->region.answer(inputs, outputs, offers);
    }
    meter.answered(answer, std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
    return answer;
  } catch (...) {
    meter.failed(code_of_current_exception());
    throw;
  }
}

namespace {

// What an operator of the program throws passes through.
void run_raw(Module::Impl& module, const std::vector<c10::IValue>& inputs, std::vector<c10::IValue>& outputs, const CallControl* control) {
  try {
    module.call(inputs, outputs, {}, control);
  } catch (const c10::Error&) {
    throw;
  } catch (...) {
    throw_serving_error(module.facts.name);
  }
}

// By name, in the program's order.
std::vector<c10::IValue> in_order(const Module::NamedTensors& inputs, const std::vector<std::string>& names) {
  std::vector<c10::IValue> values;
  for (const std::string& name : names) {
    const auto found = inputs.find(name);
    if (found == inputs.end()) throw UserError("escapement: the input " + quote(name) + " is not given");
    values.emplace_back(found->second);
  }
  for (const auto& [name, tensor] : inputs) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw UserError("escapement: the program has no input " + quote(name) + "; it has " + join(names, ", ", [](const auto& each) { return each; }));
  }
  return values;
}

void answer_later(Module::Impl& module, const std::vector<c10::IValue>& inputs, const Module::Done& done, CallControl::Clock::time_point deadline) {
  std::vector<c10::IValue> results;
  std::exception_ptr error;
  try {
    const CallControl control{nullptr, deadline};
    run_raw(module, inputs, results, control.wanted() ? &control : nullptr);
  } catch (...) {
    results.clear();
    error = std::current_exception();
  }
  hand_over(module, done, std::move(error), std::move(results));
}

}  // namespace

void hand_over(const Module::Impl& module, const Module::Done& done, std::exception_ptr error, std::vector<c10::IValue> results) noexcept {
  try {
    done(std::move(error), std::move(results));
  } catch (const std::exception& thrown) {
    module.tell(LogLine::Level::warning, "callback_failed", thrown.what());
  } catch (...) {
    module.tell(LogLine::Level::warning, "callback_failed", "");
  }
}

// --- what users call

Module::Module(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::vector<c10::IValue> Module::run(const std::vector<c10::IValue>& inputs) const {
  std::vector<c10::IValue> outputs;
  run_raw(*impl_, inputs, outputs, nullptr);
  return outputs;
}

std::vector<at::Tensor> Module::operator()(const std::vector<at::Tensor>& inputs) const {
  std::vector<at::Tensor> results;
  for (c10::IValue& output : run({inputs.begin(), inputs.end()})) {
    if (!output.isTensor() && !output.isNone())
      throw ServingError(ErrorCode::unsupported, "escapement: result " + std::to_string(results.size()) +
                                                     " of the program is a number: call run(), which returns these, too");
    results.push_back(output.isTensor() ? std::move(output).toTensor() : at::Tensor());
  }
  return results;
}

Module::NamedTensors Module::run_named(const NamedTensors& inputs) const {
  std::vector<c10::IValue> values;
  NamedTensors named;
  serving(name(), [&] { values = in_order(inputs, input_names()); });
  const std::vector<c10::IValue> results = run(values);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& result = impl_->output_names[i];
    if (!results[i].isTensor() && !results[i].isNone())
      throw ServingError(ErrorCode::unsupported, "escapement: the result " + quote(result) + " is a number: call run() with inputs in order");
    if (!named.emplace(result, results[i].isTensor() ? results[i].toTensor() : at::Tensor()).second)
      throw ServingError(ErrorCode::unsupported, "escapement: two results are named " + quote(result) +
                                                     ": give each a name of its own when the program is loaded (LoadOptions::output_names)");
  }
  return named;
}

void Module::run_async(std::vector<c10::IValue> inputs, Done done, std::optional<std::chrono::nanoseconds> timeout) const {
  check_timeout(timeout.value_or(std::chrono::nanoseconds(0)));
  const auto deadline = end_of(timeout.value_or(std::chrono::nanoseconds(0)));
  at::launch([impl = impl_, inputs = std::move(inputs), done = std::move(done), deadline] { answer_later(*impl, inputs, done, deadline); });
}

std::vector<std::string> Module::output_names() const { return impl_->output_names; }

const std::string& Module::name() const {
  return impl_->facts.name;
}
const std::vector<std::string>& Module::input_names() const {
  return impl_->facts.names;
}
const Signature& Module::signature() const {
  return impl_->facts.signature;
}
std::string Module::explain() const {
  return impl_->gate.enter()->region.info();
}

Metrics Module::metrics() const {
  Metrics metrics = impl_->meter.read();
  metrics.in_flight = impl_->gate.inside();
  try {
    const auto state = impl_->gate.enter();
    metrics.versions = static_cast<int64_t>(state->region.versions().size());
    metrics.weight_bytes = bytes_of(state->runner.weights());
  } catch (const ServingError&) {  // closed: it has neither
  }
  return metrics;
}

void Module::close() const {
  if (is_closed()) return;
  impl_->gate.close();
  impl_->tell(LogLine::Level::info, "closed", "");
}
bool Module::is_closed() const {
  return impl_->gate.is_closed();
}

void Module::save(const std::string& path) const {
  const std::string saved = serving(name(), [&] {
    const auto state = impl_->gate.enter();
    return write_package(*impl_, *state, path);
  });
  impl_->tell(LogLine::Level::info, "saved", saved);
}

namespace {

std::shared_ptr<Module::Impl> make_module(const std::string& shown, LoadSettings settings, const std::function<ProgramSource()>& read) {
  try {
    ProgramSource source = read();
    try {
      return std::make_shared<Module::Impl>(std::move(settings), std::move(source));
    } catch (const UserError& error) {
      throw UserError("escapement: " + shown + " cannot be loaded: " + error.what());
    }
  } catch (const UserError& error) {
    throw ServingError(ErrorCode::bad_file, error.what());
  } catch (...) {
    throw_serving_error(shown);
  }
}

LoadSettings settings_of(LoadOptions options) {
  auto log = options.log ? std::make_shared<const Log>(std::move(options.log)) : nullptr;
  return {parse_options(option_list(options)), std::move(options.name), std::move(options.output_names), std::move(log)};
}

}  // namespace

std::shared_ptr<Module::Impl> load_module(const std::string& path, LoadSettings settings) {
  if (settings.name.empty()) settings.name = std::filesystem::path(path).stem().string();
  const bool trusted = settings.options.trust_package;
  return make_module("'" + path + "'", std::move(settings), [&] { return read_source(path, trusted); });
}

std::shared_ptr<Module::Impl> load_module(std::span<const std::byte> bytes, LoadSettings settings) {
  if (settings.name.empty()) settings.name = "module";
  const bool trusted = settings.options.trust_package;
  const std::string shown = "the bytes of '" + settings.name + "'";
  return make_module(shown, std::move(settings), [&] { return read_source(bytes, shown, trusted); });
}

}  // namespace escapement

namespace escapement::inline ESCAPEMENT_ABI {

Module detail::load_with(const std::string& path, const OptionList& options) {
  return Module(load_module(path, {parse_options(options), "", {}, nullptr}));
}
Module load(const std::string& path, OptionPairs options) { return detail::load_with(path, OptionList(options)); }
Module load(const std::string& path, LoadOptions options) { return Module(load_module(path, settings_of(std::move(options)))); }
Module load(std::span<const std::byte> bytes, LoadOptions options) { return Module(load_module(bytes, settings_of(std::move(options)))); }

}  // namespace escapement
