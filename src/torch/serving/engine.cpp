// Engines: settings and a log for many modules, and the metrics of those that are open (include/escapement/serving.h).
#include <ATen/Parallel.h>

#include <algorithm>
#include <mutex>

#include "torch/api/api_options.h"
#include "torch/serving/module_impl.h"

namespace escapement {

struct Engine::Impl {
  Options options;
  std::shared_ptr<const Log> log;
  std::mutex mutex;
  std::vector<std::weak_ptr<Module::Impl>> modules;
  bool closed = false;

  std::vector<std::shared_ptr<Module::Impl>> open() {
    const std::lock_guard lock(mutex);
    return open_locked();
  }

  std::vector<std::shared_ptr<Module::Impl>> open_locked() {
    std::erase_if(modules, [](const auto& weak) { return weak.expired(); });
    std::vector<std::shared_ptr<Module::Impl>> found;
    for (const auto& weak : modules) {
      if (auto module = weak.lock(); module && !module->gate.is_closed()) found.push_back(std::move(module));
    }
    return found;
  }

  // Under a name of its own.
  void add(const std::shared_ptr<Module::Impl>& module) {
    const std::lock_guard lock(mutex);
    if (closed) throw ServingError(ErrorCode::closed, "escapement: the engine is closed");
    const auto others = open_locked();
    const auto same = [&](const auto& other) { return other->facts.name == module->facts.name; };
    if (std::any_of(others.begin(), others.end(), same))
      throw ServingError(ErrorCode::invalid_input, "escapement: the engine has a module '" + module->facts.name +
                                                       "' already: close it, or load under another name");
    modules.push_back(module);
  }
};

namespace {

Options checked_options(const OptionList& list) {
  try {
    return parse_options(list);
  } catch (const std::invalid_argument& error) {
    throw ServingError(ErrorCode::invalid_input, error.what());
  }
}

constexpr int kMostThreads = 1024;

void check_threads(int threads) {
  if (threads >= 0 && threads <= kMostThreads) return;
  throw ServingError(ErrorCode::invalid_input, "escapement: an engine with " + std::to_string(threads) + " threads: 0 (as it is) to " +
                                                   std::to_string(kMostThreads) + " can be asked for");
}

}  // namespace

Engine::Engine() : Engine(Settings{}) {}
Engine::Engine(Settings settings) : impl_(std::make_shared<Impl>()) {
  check_threads(settings.threads);
  impl_->options = checked_options(settings.options);
  if (settings.log) impl_->log = std::make_shared<const Log>(std::move(settings.log));
  if (settings.threads > 0) at::set_num_threads(settings.threads);
}
Engine::~Engine() = default;

namespace {

// What is said for a module goes before what its engine says.
LoadSettings settings_of(LoadOptions said, const Options& options, const std::shared_ptr<const Log>& log) {
  LoadSettings settings{options, std::move(said.name), std::move(said.output_names), log};
  for (const auto& [name, value] : option_list(said)) set_option(settings.options, name, std::string_view(value));
  if (said.log) settings.log = std::make_shared<const Log>(std::move(said.log));
  return settings;
}

template <class From>
Module load_into(const From& from, const std::string& shown, LoadSettings settings, const std::function<void(const std::shared_ptr<Module::Impl>&)>& add) {
  const auto start = std::chrono::steady_clock::now();
  std::shared_ptr<Module::Impl> module = load_module(from, std::move(settings));
  add(module);
  module->tell(LogLine::Level::info, "loaded", shown,
               std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  return Module(std::move(module));
}

}  // namespace

Module Engine::load(const std::string& path, LoadOptions options) const {
  return load_into(path, path, serving(path, [&] { return settings_of(std::move(options), impl_->options, impl_->log); }),
                   [this](const auto& module) { impl_->add(module); });
}
Module Engine::load(std::span<const std::byte> bytes, LoadOptions options) const {
  const std::string shown = std::to_string(bytes.size()) + " bytes";
  return load_into(bytes, shown, serving(shown, [&] { return settings_of(std::move(options), impl_->options, impl_->log); }),
                   [this](const auto& module) { impl_->add(module); });
}

std::vector<Module> Engine::modules() const {
  std::vector<Module> modules;
  for (auto& module : impl_->open()) modules.emplace_back(std::move(module));
  return modules;
}

std::string Engine::prometheus() const {
  std::vector<std::pair<std::string, Metrics>> metrics;
  for (const Module& module : modules()) metrics.emplace_back(module.name(), module.metrics());
  return prometheus_text(metrics);
}

void Engine::close() const {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closed = true;
  }
  for (const Module& module : modules()) module.close();
}

}  // namespace escapement
