// See service.h.
#include "service.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <charconv>
#include <cmath>
#include <optional>

namespace server {

namespace {

constexpr size_t kSmall = 16 << 10;  // bytes of a body that are read or written at once
constexpr const char* kLength = "Inference-Header-Content-Length";

Reply json_reply(int status, const Json& json) {
  Reply reply;
  reply.status = status;
  reply.body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return reply;
}

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::optional<Route> route_of(const Header& header) { return find_route(view(header.target())); }

// Bytes in front of which a limit would not hold: nothing is decompressed here.
void refuse_codings(const Header& header) {
  if (const auto coding = header.find(http::field::content_encoding);
      coding != header.end() && !boost::beast::iequals(coding->value(), "identity"))
    throw Refusal(415, "compressed bodies are not taken");
  if (const auto coding = header.find(http::field::transfer_encoding);
      coding != header.end() && !boost::beast::iequals(coding->value(), "chunked"))
    throw Refusal(501, "no transfer coding but chunked is known");
}

int64_t json_length(const Request& request) {
  const auto field = request.find(kLength);
  if (field == request.end()) return -1;
  const std::string_view text = view(field->value());
  int64_t length = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc() || end != text.data() + text.size() || length < 0)
    throw BadRequest(std::string(kLength) + " is no number of bytes");
  return length;
}

int status_of(escapement::ErrorCode code) {
  using escapement::ErrorCode;
  switch (code) {
    case ErrorCode::invalid_input:
    case ErrorCode::execution_failed:  // an index out of range, say: the program refused the data
      return 400;
    case ErrorCode::closed:
    case ErrorCode::cancelled:
    case ErrorCode::out_of_memory:
      return 503;
    case ErrorCode::deadline_exceeded:
      return 504;
    default:
      return 500;
  }
}

HttpLimits control_limits() {
  HttpLimits limits;
  limits.connections = 64;
  limits.body_bytes = 64 << 10;
  limits.header_time = Milliseconds(2'000);
  limits.body_time = limits.write_time = Milliseconds(10'000);
  return limits;
}

at::Tensor tensor_of(c10::IValue value) {
  if (!value.isTensor()) throw Refusal(501, "a result of this model is no tensor: the protocol has no place for it");
  return std::move(value).toTensor();
}

size_t bytes_of(const Tensors& tensors) {
  size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

// A label's value as Prometheus reads it.
std::string label(const std::string& text) {
  std::string plain;
  for (const char letter : text) plain += letter == '\n' ? std::string("\\n") : letter == '"' || letter == '\\' ? std::string("\\") + letter : std::string(1, letter);
  return plain;
}

std::string batch_metrics(const std::vector<std::shared_ptr<Served>>& models) {
  using Counts = escapement::Batcher::Counts;
  struct Metric {
    const char *name, *type;
    int64_t (*value)(const Counts&);
  };
  constexpr Metric kMetrics[] = {{"batches_total", "counter", [](const Counts& c) { return c.batches; }},
                                 {"batched_requests_total", "counter", [](const Counts& c) { return c.requests; }},
                                 {"largest_batch", "gauge", [](const Counts& c) { return c.largest; }},
                                 {"overloaded_total", "counter", [](const Counts& c) { return c.refused; }},
                                 {"queued_requests", "gauge", [](const Counts& c) { return static_cast<int64_t>(c.queued); }}};
  std::string text;
  for (const Metric& metric : kMetrics) {
    if (!models.empty()) text += std::string("# TYPE server_") + metric.name + " " + metric.type + "\n";
    for (const auto& model : models)
      text += std::string("server_") + metric.name + "{module=\"" + label(model->module.name()) + "\"} " +
              std::to_string(metric.value(model->batcher.counts())) + "\n";
  }
  return text;
}

const char* state_name(const Repository::Row& row, bool closed) {
  if (row.state == Repository::State::loading) return "LOADING";
  return row.state == Repository::State::ready && !closed ? "READY" : "UNAVAILABLE";
}

// What a change of the repository asks for besides: {"parameters": {"weights": "NAME.safetensors"}}.
std::string weights_of(const std::string& body) {
  const Json json = body.empty() ? Json::object() : read_document(body).json;
  if (!json.is_object()) throw BadRequest("the body is no JSON object");
  const Json parameters = json.value("parameters", Json::object());
  if (!parameters.is_object()) throw BadRequest("parameters are no object");
  std::string file;
  for (const auto& [name, value] : parameters.items()) {
    if (name != "weights" || !value.is_string())
      throw BadRequest("the only parameter is 'weights', the name of a file *.safetensors in the models' folder");
    file = value.get<std::string>();
  }
  return file;
}

}  // namespace

Service::Service(const Settings& settings)
    : settings_(settings),
      repository_(settings_, loader_),
      budget_(settings_.memory_bytes),
      codec_(static_cast<size_t>(settings_.codec_threads)),
      front_(settings_.http, budget_, front_handler_),
      control_(control_limits(), budget_, control_handler_) {}

Service::~Service() { stop(); }

int Service::bind() {
  const int port = front_.bind(settings_.host, settings_.port);
  const int wanted = settings_.control_port >= 0 ? settings_.control_port : settings_.port == 0 ? 0 : port + 1;
  control_port_ = control_.bind(settings_.host, wanted);
  return port;
}

void Service::start() {
  threads_.emplace_back([this] { front_.run(); });
  threads_.emplace_back([this] { control_.run(); });
}

void Service::drain() {
  door_.close();
  front_.drain();
}

// Nothing answers any more before the model goes, whose results the answers wait for.
void Service::stop() {
  front_.stop();
  control_.stop();
  for (std::thread& thread : std::exchange(threads_, {})) thread.join();
  codec_.stop();
  loader_.stop();
  codec_.join();
  loader_.join();
  repository_.close();
}

Service::Model Service::named(const Route& route) const {
  Model model = repository_.find(route.model);
  if (!model && !repository_.complete()) throw Refusal(503, "the model is warming up", 1);
  if (!model) throw Refusal(404, "there is no model of this name, or it is not loaded");
  if (!route.version.empty() && route.version != model->version) throw Refusal(404, "the model has no such version");
  return model;
}

// --- routes

void Service::Port::admit(const Header& header, Visit& visit) {
  refuse_codings(header);
  const std::optional<Route> route = route_of(header);
  if (control_ || !route || route->to != Route::To::infer || header.method() != http::verb::post) return;
  if (service_.door_.enter(visit.ticket)) return;
  service_.door_.note(503);
  throw Refusal(503, "the server is draining", 1);
}

net::awaitable<Reply> Service::Port::answer(Request& request, Visit& visit) {
  const std::optional<Route> route = route_of(request);
  if (!route || (control_ ? route->to == Route::To::infer : route->changes())) throw Refusal(404, "there is no such path at this port");
  const bool post = route->is_post();
  const http::verb method = request.method();
  if (post ? method != http::verb::post : method != http::verb::get && method != http::verb::head) {
    Reply reply = error_reply(405, "this path has another method");
    reply.allow = post ? "POST" : "GET, HEAD";
    co_return reply;
  }
  if (route->to == Route::To::infer) co_return co_await service_.infer(*route, request, visit);
  if (route->changes()) co_return co_await service_.change(*route, request);
  co_return service_.answer_at_once(*route, request);
}

// On the loader's thread: one model at a time, and nothing else waits for it.
net::awaitable<Reply> Service::change(const Route& route, const Request& request) {
  if (!settings_.repository_control) throw Refusal(403, "the server was started without --repository-control 1");
  if (door_.closed()) throw Refusal(503, "the server is draining", 1);
  const std::string weights = weights_of(request.body());
  const auto there = [&]() -> net::awaitable<void> {
    if (route.to == Route::To::unload) {
      repository_.unload(route.model);
    } else if (!weights.empty()) {
      repository_.swap_weights(route.model, weights);
    } else {
      repository_.load(route.model);
    }
    co_return;
  };
  try {
    co_await net::co_spawn(loader_, there, net::use_awaitable);
  } catch (const Refusal&) {
    throw;
  } catch (const std::exception& error) {
    throw BadRequest(error.what());
  }
  co_return json_reply(200, Json::object());
}

Reply Service::answer_at_once(const Route& route, const Request& request) const {
  switch (route.to) {
    case Route::To::live:
      return json_reply(200, {{"live", true}});
    case Route::To::ready:
    case Route::To::model_ready:
      return ready_reply(route);
    case Route::To::model: {
      const Model model = named(route);
      return json_reply(200, metadata(route.model, model->version, model->module.signature(), model->batcher.inputs()));
    }
    case Route::To::index:
      return index(request.body());
    case Route::To::metrics: {
      Reply reply;
      reply.body = metrics();
      reply.type = "text/plain; version=0.0.4";
      return reply;
    }
    default:
      return json_reply(
          200, {{"name", "escapement"}, {"version", escapement::version()}, {"extensions", {"binary_tensor_data"}}});
  }
}

Reply Service::ready_reply(const Route& route) const {
  if (route.to == Route::To::ready) return json_reply(ready() ? 200 : 503, {{"ready", ready()}});
  const bool up = named(route) && !door_.closed();
  return json_reply(up ? 200 : 503, {{"name", route.model}, {"ready", up}});
}

Reply Service::index(const std::string& body) const {
  const bool ready_alone = only_ready(body), closed = door_.closed();
  Json models = Json::array();
  for (const Repository::Row& row : repository_.rows()) {
    const bool up = row.state == Repository::State::ready && !closed;
    if (ready_alone && !up) continue;
    models.push_back({{"name", row.name}, {"version", row.version}, {"state", state_name(row, closed)},
                      {"reason", closed ? "the server is draining" : row.reason}});
  }
  return json_reply(200, models);
}

std::string Service::metrics() const {
  const std::vector<Model> models = repository_.served();
  std::vector<std::pair<std::string, escapement::Metrics>> of_modules;
  for (const Model& model : models) of_modules.emplace_back(model->module.name(), model->module.metrics());
  std::string text = escapement::prometheus_text(of_modules);
  text += "# HELP server_requests_total Inference requests, by status.\n# TYPE server_requests_total counter\n";
  for (const auto& [status, times] : door_.answers())
    text += "server_requests_total{status=\"" + std::to_string(status) + "\"} " + std::to_string(times) + "\n";
  const auto row = [&](const char* name, const char* type, int64_t value) {
    text += std::string("# TYPE server_") + name + " " + type + "\nserver_" + name + " " + std::to_string(value) + "\n";
  };
  row("connections", "gauge", front_.counts().open);
  row("connections_total", "counter", front_.counts().accepted);
  row("connections_refused_total", "counter", front_.counts().refused);
  row("slow_requests_total", "counter", front_.counts().late);
  row("held_bytes", "gauge", static_cast<int64_t>(budget_.held()));
  return text + batch_metrics(models);
}

// --- inference

// `work()`, here or on a thread of the codec, and its result here.
template <class Work>
net::awaitable<std::invoke_result_t<Work>> Service::coded(size_t bytes, Work work) {
  using Result = std::invoke_result_t<Work>;
  if (bytes <= kSmall) co_return work();
  const auto there = [&work]() -> net::awaitable<Result> { co_return work(); };
  co_return co_await net::co_spawn(codec_, there, net::use_awaitable);
}

net::awaitable<Reply> Service::infer(const Route& route, Request& request, Visit& visit) {
  try {
    const Model model = named(route);
    co_return co_await infer(*model, request, visit);
  } catch (const escapement::Overloaded& error) {
    throw Refusal(503, error.what(), static_cast<int>(std::ceil(std::chrono::duration<double>(error.retry_after()).count())));
  } catch (const escapement::ServingError& error) {
    const int status = status_of(error.code());
    throw Refusal(status, error.what(), status == 503 ? 1 : 0);
  }
}

net::awaitable<Reply> Service::infer(Served& model, Request& request, Visit& visit) {
  const escapement::Signature& signature = model.module.signature();
  const int64_t length = json_length(request);
  const auto read = [&] { return read_request(request.body(), length, signature, model.batcher.inputs()); };
  InferRequest asked = co_await coded(request.body().size(), read);
  request.body() = std::string();
  if (!visit.hold.set(bytes_of(asked.inputs))) throw Refusal(503, "requests hold too much memory", 1);
  const auto deadline = settings_.timeout.count() > 0 ? visit.arrival + settings_.timeout : Clock::time_point::max();
  const Tensors outputs = co_await run(model.batcher, std::move(asked.inputs), deadline);
  visit.hold.set(bytes_of(outputs));
  const auto write = [&] { return write_response(asked, model.module.name(), model.version, signature, outputs); };
  co_return co_await coded(bytes_of(outputs), write);
}

// The timer is the request's deadline, and what wakes it when its results are there.
net::awaitable<Tensors> Service::run(escapement::Batcher& batcher, Tensors inputs, Clock::time_point deadline) {
  struct Waiting {
    net::steady_timer timer;
    bool answered = false;
    std::exception_ptr error;
    std::vector<c10::IValue> results;
  };
  const auto waiting = std::make_shared<Waiting>(Waiting{net::steady_timer(front_.context(), deadline), false, {}, {}});
  const auto answer = [waiting](std::exception_ptr error, std::vector<c10::IValue> results) {
    net::post(waiting->timer.get_executor(), [waiting, error = std::move(error), results = std::move(results)]() mutable {
      waiting->answered = true;
      waiting->error = std::move(error);
      waiting->results = std::move(results);
      waiting->timer.cancel();
    });
  };
  batcher.submit({inputs.begin(), inputs.end()}, answer, deadline);
  inputs.clear();
  boost::system::error_code ignored;
  co_await waiting->timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
  if (!waiting->answered) throw Refusal(504, "the request was not answered before its deadline");
  if (waiting->error) std::rethrow_exception(waiting->error);
  Tensors results;
  for (c10::IValue& value : waiting->results) results.push_back(tensor_of(std::move(value)));
  co_return results;
}

}  // namespace server
