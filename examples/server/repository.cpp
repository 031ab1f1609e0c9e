// See repository.h.
#include "repository.h"

#include <ATen/Parallel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include <cstdio>
#include "model_settings.h"
#include "reply.h"
#include "warm_up.h"

namespace server {

namespace {

namespace fs = std::filesystem;

void log_line(const escapement::LogLine& line) {
  std::fprintf(stderr, "%s %s: %s (%.1f ms)\n", line.module.c_str(), line.event.c_str(), line.text.c_str(), line.milliseconds);
}

// Machine code of a package runs as it is: nobody but its owner, who is us or root, may be able to write the file or to replace it.
bool is_ours(const fs::path& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return false;
  return (facts.st_uid == ::geteuid() || facts.st_uid == 0) && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}
bool may_trust(const fs::path& package) {
  const fs::path folder = package.has_parent_path() ? package.parent_path() : fs::path(".");
  return is_ours(package) && is_ours(folder);
}

const char* how(const escapement::Batcher& batcher) {
  switch (batcher.batching()) {
    case escapement::Batching::lengths:
      return "requests are batched without padding, by lengths";
    case escapement::Batching::rows:
      return "requests are batched without padding, by rows";
    default:
      return "requests run one by one: no input named lengths, and batching by rows was not asked for";
  }
}

}  // namespace

Repository::Repository(const Settings& settings, boost::asio::thread_pool& loader) : settings_(settings), loader_(loader) {
  if (settings.threads > 0) at::set_num_threads(settings.threads);
}

std::map<std::string, Repository::Source> Repository::sources() const {
  std::map<std::string, Source> found;
  const auto put = [&](std::string name, const fs::path& path) {
    Source& source = found[std::move(name)];
    if (!source.program.empty()) source.trouble = source.program.filename().string() + " and " + path.filename().string() + " are one name: remove one";
    source.program = path;
    if (fs::path beside = fs::path(path).replace_extension(".json"); fs::exists(beside)) source.settings = std::move(beside);
  };
  if (!settings_.model.empty()) put(settings_.name.empty() ? fs::path(settings_.model).stem().string() : settings_.name, settings_.model);
  if (settings_.models.empty()) return found;
  for (const fs::directory_entry& entry : fs::directory_iterator(settings_.models)) {
    const fs::path& path = entry.path();
    if (entry.is_regular_file() && (path.extension() == ".pt2" || path.extension() == ".package")) put(path.stem().string(), path);
  }
  return found;
}

Repository::Source Repository::source(const std::string& name) const {
  const std::map<std::string, Source> all = sources();
  const auto found = all.find(name);
  if (found == all.end()) throw Refusal(404, "there is no file of a model of this name");
  if (!found->second.trouble.empty()) throw Refusal(400, found->second.trouble);
  return found->second;
}

std::shared_ptr<Served> Repository::read(const std::string& name, const Source& source) const {
  ModelSettings wanted = model_settings(settings_, source.settings);
  wanted.load.name = name;
  wanted.load.log = log_line;
  if (source.program.extension() == ".package") wanted.load.trust_package = settings_.trust_packages && may_trust(source.program);
  const escapement::Module module = escapement::load(source.program.string(), std::move(wanted.load));
  escapement::Batcher batcher(module, wanted.batch);
  const auto report = warm_up(module, batcher);
  module.on_miss(escapement::OnMiss::run_eagerly);
  std::printf("%s%s%s\n", module.signature().text().c_str(), report.text().c_str(), how(batcher));
  auto served = std::make_unique<Served>(Served{module, std::move(batcher), wanted.version});
  return {served.release(), [&loader = loader_](Served* last) {
            boost::asio::post(loader, [ends = std::unique_ptr<Served>(last)]() mutable { ends.reset(); });
          }};
}

void Repository::set(const std::string& name, State state, std::string reason, std::shared_ptr<Served> served) {
  std::shared_ptr<Served> before;  // ends without the lock
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[name];
  before = std::exchange(entry.served, std::move(served));
  entry.state = state;
  entry.reason = std::move(reason);
}

void Repository::load_all() {
  const std::map<std::string, Source> all = sources();
  if (all.empty()) throw Refusal(404, "there is no model: no file *.pt2 or *.package in " + settings_.models);
  for (const auto& [name, source] : all) set(name, State::loading, "");
  for (const auto& [name, source] : all) load(name);
  complete_ = true;
}

// While it is read, what is there already goes on answering; it also stays where the file cannot be loaded.
void Repository::load(const std::string& name) {
  struct Count {
    std::atomic<int>& count;
    explicit Count(std::atomic<int>& of) : count(of) { ++count; }
    ~Count() { --count; }
  } const count(loading_);
  const std::lock_guard turn(turn_);
  const Source from = source(name);
  try {
    set(name, State::ready, "", read(name, from));
  } catch (const std::exception& error) {
    std::shared_ptr<Served> before = find(name);
    const State state = before ? State::ready : State::unavailable;
    set(name, state, error.what(), std::move(before));
    throw;
  }
}

void Repository::swap_weights(const std::string& name, const std::string& file) {
  const std::shared_ptr<Served> model = find(name);
  if (!model) throw Refusal(404, "the model is not loaded");
  for (const fs::directory_entry& entry : fs::directory_iterator(settings_.models.empty() ? "." : settings_.models)) {
    if (settings_.models.empty() || entry.path().filename().string() != file || entry.path().extension() != ".safetensors") continue;
    const std::lock_guard turn(turn_);
    return model->module.swap_weights(escapement::read_weights(entry.path().string()));
  }
  throw Refusal(404, "there is no file *.safetensors of this name in the models' folder");
}

void Repository::unload(const std::string& name) {
  const std::lock_guard turn(turn_);
  if (!find(name)) throw Refusal(404, "the model is not loaded");
  set(name, State::unavailable, "unloaded");
}

void Repository::close() {
  for (const auto& model : served()) model->batcher.close();
}

std::vector<Repository::Row> Repository::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<Row> rows;
  for (const auto& [name, entry] : entries_)
    rows.push_back({name, entry.served ? entry.served->version : "", entry.reason, entry.state});
  return rows;
}

std::shared_ptr<Served> Repository::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second.served;
}

std::vector<std::shared_ptr<Served>> Repository::served() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Served>> all;
  for (const auto& [name, entry] : entries_) {
    if (entry.served) all.push_back(entry.served);
  }
  return all;
}

}  // namespace server
