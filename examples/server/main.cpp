// An inference server on the KServe v2 protocol, over HTTP.
//
//   server --model FILE [--name NAME] [--host 127.0.0.1] [--port 8000] [--threads N] [--max-batch 32] [--max-rows 4096]
//   [--timeout-ms 0]
//
//   GET  /v2/health/live  /v2/health/ready  /v2/models/NAME/ready      200, or 503 while warming up and draining
//   GET  /v2  /v2/models/NAME                                          metadata
//   POST /v2/models/NAME/infer                                         inference; JSON or the binary extension
//   GET  /metrics                                                      for Prometheus
//
// It listens at once, and is ready when the model is warm: then no request waits for the compiler, and what no version fits
// runs eagerly. SIGTERM and SIGINT drain: what was accepted is answered, new requests get 503, then the process ends with
// status 0.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <escapement/serving.h>
#include <httplib.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

#include "batcher.h"
#include "kserve.h"

namespace {

using server::Batcher;
using server::Json;
using Signature = escapement::Signature;

struct Settings {
  std::string model, name, host = "127.0.0.1";
  int port = 8000, threads = 0;
  int64_t timeout_ms = 0;
  server::Limits limits;
};

// --- requests that were accepted, and the answers

class Door {
 public:
  bool enter() {
    const std::lock_guard lock(mutex_);
    if (draining_) return false;
    ++inside_;
    return true;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) empty_.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex_);
    draining_ = true;
    empty_.wait(lock, [&] { return inside_ == 0; });
  }
  bool draining() const {
    const std::lock_guard lock(mutex_);
    return draining_;
  }
  void note(int status) {
    const std::lock_guard lock(mutex_);
    ++answers_[status];
  }
  std::map<int, int64_t> answers() const {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  bool draining_ = false;
  int64_t inside_ = 0;
  std::map<int, int64_t> answers_;  // of inference requests, by status
};

int status_of(escapement::ErrorCode code) {
  switch (code) {
    case escapement::ErrorCode::invalid_input:
      return 400;
    case escapement::ErrorCode::execution_failed:
      return 400;  // an index out of range, say: the program refused the data
    case escapement::ErrorCode::closed:
      return 503;
    case escapement::ErrorCode::deadline_exceeded:
      return 504;
    default:
      return 500;
  }
}

// --- warm-up

// Inputs of `rows` rows; symbols other than the first sizes get a small value in their range. Nothing where a size is an
// expression.
std::optional<std::vector<c10::IValue>> warm_up_inputs(const Signature& signature, const server::Layout& layout,
                                                       int64_t rows, int64_t requests) {
  std::vector<c10::IValue> inputs;
  for (size_t i = 0; i < layout.inputs; ++i) {
    const Signature::Item& item = signature.inputs[i];
    std::vector<int64_t> sizes;
    for (const Signature::Dim& dim : item.dims) {
      if (!dim.value && !dim.is_symbol) return {};
      sizes.push_back(dim.value.value_or(std::clamp<int64_t>(&dim == &item.dims[0] ? rows : 8, dim.least, dim.most)));
    }
    if (item.kind == Signature::Item::Kind::integer)
      inputs.emplace_back(sizes[0]);
    else
      inputs.emplace_back(at::zeros(sizes, at::TensorOptions().dtype(item.dtype)));
  }
  if (layout.jagged) inputs.emplace_back(at::full({requests}, rows / requests, at::TensorOptions().dtype(at::kLong)));
  return inputs;
}

// --- the server

class Service {
 public:
  explicit Service(Settings settings) : settings_(std::move(settings)), engine_(engine_settings(settings_)) {}

  bool bind() {
    http_.new_task_queue = [] { return new httplib::ThreadPool(64); };  // each request that waits for its batch holds one
    http_.set_keep_alive_timeout(1);
    http_.set_payload_max_length(size_t{64} << 20);
    http_.set_tcp_nodelay(true);
    add_routes();
    if (settings_.port == 0)
      settings_.port = http_.bind_to_any_port(settings_.host);
    else if (!http_.bind_to_port(settings_.host, settings_.port))
      return false;
    return settings_.port > 0;
  }

  void listen() {
    std::printf("listening on %s:%d\n", settings_.host.c_str(), settings_.port);
    std::fflush(stdout);
    http_.listen_after_bind();
  }

  void load() {
    const escapement::Module module = engine_.load(settings_.model, settings_.name);
    const server::Layout layout(module.signature());
    std::vector<std::vector<c10::IValue>> inputs;
    for (const auto& [rows, requests] : {std::pair<int64_t, int64_t>{7, 1}, {64, 4}, {1, 1}}) {
      if (auto one = warm_up_inputs(module.signature(), layout, rows, requests)) inputs.push_back(std::move(*one));
    }
    const auto report = module.warm_up_with(inputs);
    module.on_miss(escapement::OnMiss::run_eagerly);
    auto batcher = std::make_shared<Batcher>(module, settings_.limits);
    std::printf("%s%s%s\n", module.signature().text().c_str(), report.text().c_str(),
                layout.jagged ? "requests are batched without padding" : "requests run one by one: no input named lengths");
    {
      const std::lock_guard lock(mutex_);
      module_ = module;
      batcher_ = std::move(batcher);
    }
    std::printf("ready\n");
    std::fflush(stdout);
  }

  void drain() {
    door_.drain();
    while (!http_.is_running())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // `stop` before the start is forgotten
    http_.stop();
  }

  void report() const {
    int64_t good = 0;
    for (const auto& [status, times] : door_.answers()) good += status == 200 ? times : 0;
    std::printf("drained after %lld answers\n", static_cast<long long>(good));
  }

 private:
  struct Loaded {
    std::optional<escapement::Module> module;
    std::shared_ptr<Batcher> batcher;
    explicit operator bool() const { return batcher != nullptr; }
  };

  static escapement::Engine::Settings engine_settings(const Settings& settings) {
    return {{}, settings.threads, [](const escapement::LogLine& line) {
              std::fprintf(stderr, "%s %s: %s (%.1f ms)\n", line.module.c_str(), line.event.c_str(), line.text.c_str(),
                           line.milliseconds);
            }};
  }

  Loaded loaded() const {
    const std::lock_guard lock(mutex_);
    return {module_, batcher_};
  }
  bool ready() const { return loaded() && !door_.draining(); }

  static void reply(httplib::Response& response, int status, const Json& json) {
    response.status = status;
    response.set_content(json.dump(), "application/json");
  }
  static void refuse(httplib::Response& response, int status, const std::string& why) {
    reply(response, status, {{"error", why}});
  }

  void add_routes() {
    using Request = httplib::Request;
    using Response = httplib::Response;
    http_.Get("/v2/health/live", [](const Request&, Response& r) { reply(r, 200, {{"live", true}}); });
    const auto answer_ready = [this](const Request&, Response& r) { reply(r, ready() ? 200 : 503, {{"ready", ready()}}); };
    http_.Get("/v2/health/ready", answer_ready);
    http_.Get(R"(/v2/models/([^/]+)/ready)", [=, this](const Request& q, Response& r) {
      if (named(q, r)) answer_ready(q, r);
    });
    http_.Get("/v2", [](const Request&, Response& r) {
      reply(r, 200, {{"name", "escapement"}, {"version", escapement::version()}, {"extensions", {"binary_tensor_data"}}});
    });
    http_.Get(R"(/v2/models/([^/]+))", [this](const Request& q, Response& r) {
      if (const Loaded model = named(q, r))
        reply(r, 200, server::metadata(model.module->name(), model.module->signature(), model.batcher->layout().inputs));
    });
    http_.Post(R"(/v2/models/([^/]+)/infer)", [this](const Request& q, Response& r) { infer(q, r); });
    http_.Get("/metrics", [this](const Request&, Response& r) { r.set_content(metrics(), "text/plain; version=0.0.4"); });
  }

  // The model that a path names; else the response says why not.
  Loaded named(const httplib::Request& request, httplib::Response& response) const {
    Loaded model = loaded();
    if (!model) return refuse(response, 503, "the model is warming up"), Loaded();
    if (request.matches[1].str() != model.module->name())
      return refuse(response, 404, "there is no model of this name"), Loaded();
    return model;
  }

  void infer(const httplib::Request& request, httplib::Response& response) {
    if (!door_.enter()) {
      refuse(response, 503, "the server is draining");
    } else {
      if (const Loaded model = named(request, response)) answer(model, request, response);
      door_.note(response.status);
      door_.leave();
      return;
    }
    door_.note(response.status);
  }

  void answer(const Loaded& model, const httplib::Request& request, httplib::Response& response) const {
    try {
      answer_or_throw(model, request, response);
    } catch (const server::BadRequest& error) {
      refuse(response, 400, error.what());
    } catch (const server::Overloaded& error) {
      refuse(response, 503, error.what());
    } catch (const escapement::ServingError& error) {
      refuse(response, status_of(error.code()), error.what());
    } catch (const std::exception& error) {
      refuse(response, 500, error.what());
    }
  }

  void answer_or_throw(const Loaded& model, const httplib::Request& request, httplib::Response& response) const {
    static constexpr const char* kLength = "Inference-Header-Content-Length";
    const Signature& signature = model.module->signature();
    const int64_t length = request.has_header(kLength) ? std::atoll(request.get_header_value(kLength).c_str()) : -1;
    server::InferRequest read = server::read_request(request.body, length, signature, model.batcher->layout().inputs);
    const auto deadline = settings_.timeout_ms > 0 ? server::Clock::now() + std::chrono::milliseconds(settings_.timeout_ms)
                                                   : server::Clock::time_point::max();
    const server::Tensors outputs = model.batcher->run(std::move(read.inputs), deadline);
    const server::InferResponse written = server::write_response(read, model.module->name(), signature, outputs);
    response.status = 200;
    if (written.json_length >= 0) response.set_header(kLength, std::to_string(written.json_length));
    response.set_content(written.body, written.json_length >= 0 ? "application/octet-stream" : "application/json");
  }

  std::string metrics() const {
    std::string text = engine_.prometheus();
    text += "# HELP server_requests_total Inference requests, by status.\n# TYPE server_requests_total counter\n";
    for (const auto& [status, times] : door_.answers())
      text += "server_requests_total{status=\"" + std::to_string(status) + "\"} " + std::to_string(times) + "\n";
    const Loaded model = loaded();
    if (!model) return text;
    const Batcher::Counts counts = model.batcher->counts();
    const auto gauge = [&](const char* name, const char* type, int64_t value) {
      text += std::string("# TYPE server_") + name + " " + type + "\nserver_" + name + " " + std::to_string(value) + "\n";
    };
    gauge("batches_total", "counter", counts.batches);
    gauge("batched_requests_total", "counter", counts.requests);
    gauge("largest_batch", "gauge", counts.largest);
    gauge("queued_requests", "gauge", static_cast<int64_t>(counts.queued));
    return text;
  }

  Settings settings_;
  const escapement::Engine engine_;
  httplib::Server http_;
  Door door_;
  mutable std::mutex mutex_;
  std::optional<escapement::Module> module_;
  std::shared_ptr<Batcher> batcher_;
};

// --- the command line

bool read_arguments(int count, char** arguments, Settings& settings) {
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = arguments[i], value = arguments[i + 1];
    if (name == "--model")
      settings.model = value;
    else if (name == "--name")
      settings.name = value;
    else if (name == "--host")
      settings.host = value;
    else if (name == "--port")
      settings.port = std::atoi(value.c_str());
    else if (name == "--threads")
      settings.threads = std::atoi(value.c_str());
    else if (name == "--timeout-ms")
      settings.timeout_ms = std::atoll(value.c_str());
    else if (name == "--max-batch")
      settings.limits.requests = std::max<size_t>(1, std::strtoul(value.c_str(), nullptr, 10));
    else if (name == "--max-rows")
      settings.limits.rows = std::max<size_t>(1, std::strtoul(value.c_str(), nullptr, 10));
    else
      return false;
  }
  return count % 2 == 1 && !settings.model.empty();
}

// Signals reach the thread that waits for them, and no other.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

}  // namespace

int main(int count, char** arguments) {
  Settings settings;
  if (!read_arguments(count, arguments, settings)) {
    std::fprintf(stderr,
                 "server --model FILE [--name NAME] [--host ADDRESS] [--port N] [--threads N] [--max-batch N] [--max-rows N]"
                 " [--timeout-ms N]\n");
    return 2;
  }
  const sigset_t signals = block_signals();
  Service service(settings);
  if (!service.bind()) {
    std::fprintf(stderr, "server: cannot listen on %s:%d\n", settings.host.c_str(), settings.port);
    return 1;
  }
  std::thread listener([&] { service.listen(); });
  try {
    service.load();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "server: %s\n", error.what());
    service.drain();
    listener.join();
    return 1;
  }
  int signal = 0;
  sigwait(&signals, &signal);
  service.drain();
  listener.join();
  service.report();
  return 0;
}
