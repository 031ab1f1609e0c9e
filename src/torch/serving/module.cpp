// Modules (include/escapement/load.h): loading, calls, closing. warm_up.cpp and weights.cpp have the rest.
#include <c10/util/Exception.h>

#include <filesystem>

#include "support/error.h"
#include "support/events.h"
#include "torch/api/api_options.h"
#include "torch/serving/module_impl.h"

namespace escapement {

namespace {

std::shared_ptr<ModuleState> first_state(const ModuleFacts& facts, ProgramSource& source, ModuleState::Listener listener) {
  return std::make_shared<ModuleState>(facts, GraphRunner(source.program, std::move(source.weights)), std::move(listener));
}

LogLine::Level level_of(Region::Event::Kind kind) {
  return kind == Region::Event::Kind::not_compiled ? LogLine::Level::warning : LogLine::Level::info;
}

const char* event_name(Region::Event::Kind kind) {
  switch (kind) {
    case Region::Event::Kind::recorded:
      return "recorded";
    case Region::Event::Kind::compiled:
      return "compiled";
    case Region::Event::Kind::not_compiled:
      return "not_compiled";
  }
  return "";
}

}  // namespace

Module::Impl::Impl(std::string name, ProgramSource source, Options options, std::shared_ptr<const Log> given_log)
    : facts(std::move(name), source.program, std::move(source.json), std::move(options)),
      log(std::move(given_log)),
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

// Nobody listens: Region says on stderr itself what it cannot compile.
ModuleState::Listener Module::Impl::listener() {
  return [this](const Region::Event& event) {
    meter.heard(event);
    tell(level_of(event.kind), event_name(event.kind), event.text, event.milliseconds);
    if (event.kind == Region::Event::Kind::not_compiled && !log) std::fprintf(stderr, "%s\n", event.text.c_str());
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

// --- what users call

Module::Module(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::vector<c10::IValue> Module::run(const std::vector<c10::IValue>& inputs) const {
  std::vector<c10::IValue> outputs;
  try {
    impl_->call(inputs, outputs);
  } catch (const c10::Error&) {
    throw;
  } catch (...) {
    throw_serving_error(name());
  }
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
    metrics.versions = static_cast<int64_t>(state->region.version_count());
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
  serving(name(), [&] {
    const auto state = impl_->gate.enter();
    impl_->tell(LogLine::Level::info, "saved", write_package(*impl_, *state, path));
  });
}

std::shared_ptr<Module::Impl> load_module(const std::string& path, std::string name, const Options& options,
                                          std::shared_ptr<const Log> log) {
  try {
    ProgramSource source = read_source(path, options.trust_package);
    if (name.empty()) name = std::filesystem::path(path).stem().string();
    try {
      return std::make_shared<Module::Impl>(std::move(name), std::move(source), options, std::move(log));
    } catch (const UserError& error) {
      throw UserError("escapement: '" + path + "' cannot be loaded: " + error.what());
    }
  } catch (const UserError& error) {
    throw ServingError(ErrorCode::bad_file, error.what());
  } catch (...) {
    throw_serving_error(path);
  }
}

Module load(const std::string& path, const OptionList& options) {
  return Module(load_module(path, "", parse_options(options), nullptr));
}

}  // namespace escapement
