// See service.h.
#include "service.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <charconv>
#include <cstdio>

#include "warm_up.h"

namespace server {

namespace {

constexpr size_t kSmall = 16 << 10;  // bytes of a body that are read or written at once
constexpr const char* kLength = "Inference-Header-Content-Length";
constexpr const char* kVersion = "1";  // of the only model

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

size_t bytes_of(const Tensors& tensors) {
  size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

escapement::Engine::Settings engine_settings(const Settings& settings) {
  return {{}, settings.threads, [](const escapement::LogLine& line) {
            std::fprintf(stderr, "%s %s: %s (%.1f ms)\n", line.module.c_str(), line.event.c_str(), line.text.c_str(),
                         line.milliseconds);
          }};
}

}  // namespace

Service::Service(const Settings& settings)
    : settings_(settings),
      engine_(engine_settings(settings_)),
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

void Service::load() {
  const escapement::Module module = engine_.load(settings_.model, settings_.name);
  const Layout layout(module.signature());
  const auto report = warm_up(module, layout);
  module.on_miss(escapement::OnMiss::run_eagerly);
  auto batcher = std::make_shared<Batcher>(module, settings_.queue);
  std::printf("%s%s%s\n", module.signature().text().c_str(), report.text().c_str(),
              layout.jagged ? "requests are batched without padding" : "requests run one by one: no input named lengths");
  const std::lock_guard lock(mutex_);
  loaded_ = {module, std::move(batcher)};
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
  codec_.join();
  if (const Loaded model = loaded()) model.batcher->close();
}

Service::Loaded Service::loaded() const {
  const std::lock_guard lock(mutex_);
  return loaded_;
}

Service::Loaded Service::named(const Route& route) const {
  Loaded model = loaded();
  if (!model) throw Refusal(503, "the model is warming up", 1);
  if (route.model != model.module->name()) throw Refusal(404, "there is no model of this name");
  if (!route.version.empty() && route.version != kVersion) throw Refusal(404, "the model has no such version");
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
  if (!route || (control_ && route->to == Route::To::infer)) throw Refusal(404, "there is no such path");
  const bool post = std::string_view(route->method()) == "POST";
  const http::verb method = request.method();
  if (post ? method != http::verb::post : method != http::verb::get && method != http::verb::head) {
    Reply reply = error_reply(405, "this path has another method");
    reply.allow = post ? "POST" : "GET, HEAD";
    co_return reply;
  }
  if (route->to == Route::To::infer) co_return co_await service_.infer(*route, request, visit);
  co_return service_.answer_at_once(*route, request);
}

Reply Service::answer_at_once(const Route& route, const Request& request) const {
  switch (route.to) {
    case Route::To::live:
      return json_reply(200, {{"live", true}});
    case Route::To::ready:
    case Route::To::model_ready:
      return ready_reply(route);
    case Route::To::model: {
      const Loaded model = named(route);
      const size_t inputs = model.batcher->layout().inputs;
      return json_reply(200, metadata(model.module->name(), kVersion, model.module->signature(), inputs));
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
  Json json{{"ready", ready()}};
  if (route.to == Route::To::model_ready) json["name"] = named(route).module->name();
  return json_reply(ready() ? 200 : 503, json);
}

Reply Service::index(const std::string& body) const {
  const Loaded model = loaded();
  if (!model) return json_reply(200, Json::array());
  const bool up = ready();
  if (only_ready(body) && !up) return json_reply(200, Json::array());
  return json_reply(200, Json::array({{{"name", model.module->name()},
                                       {"version", kVersion},
                                       {"state", up ? "READY" : "UNAVAILABLE"},
                                       {"reason", up ? "" : "the server is draining"}}}));
}

std::string Service::metrics() const {
  std::string text = engine_.prometheus();
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
  const Loaded model = loaded();
  if (!model) return text;
  const Batcher::Counts counts = model.batcher->counts();
  row("batches_total", "counter", counts.batches);
  row("batched_requests_total", "counter", counts.requests);
  row("largest_batch", "gauge", counts.largest);
  row("queued_requests", "gauge", static_cast<int64_t>(counts.queued));
  return text;
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
    const Loaded model = named(route);
    co_return co_await infer(model, request, visit);
  } catch (const escapement::ServingError& error) {
    throw Refusal(status_of(error.code()), error.what());
  }
}

net::awaitable<Reply> Service::infer(const Loaded& model, Request& request, Visit& visit) {
  const escapement::Signature& signature = model.module->signature();
  const int64_t length = json_length(request);
  const auto read = [&] { return read_request(request.body(), length, signature, model.batcher->layout().inputs); };
  InferRequest asked = co_await coded(request.body().size(), read);
  request.body() = std::string();
  if (!visit.hold.set(bytes_of(asked.inputs))) throw Refusal(503, "requests hold too much memory", 1);
  const auto deadline = settings_.timeout.count() > 0 ? visit.arrival + settings_.timeout : Clock::time_point::max();
  const Tensors outputs = co_await run(*model.batcher, std::move(asked.inputs), deadline);
  visit.hold.set(bytes_of(outputs));
  const auto write = [&] { return write_response(asked, model.module->name(), kVersion, signature, outputs); };
  co_return co_await coded(bytes_of(outputs), write);
}

// The timer is the request's deadline, and what wakes it when its results are there.
net::awaitable<Tensors> Service::run(Batcher& batcher, Tensors inputs, Clock::time_point deadline) {
  struct Waiting {
    net::steady_timer timer;
    std::optional<Outcome> outcome;
  };
  const auto waiting = std::make_shared<Waiting>(Waiting{net::steady_timer(front_.context(), deadline), {}});
  batcher.submit(std::move(inputs), deadline, [waiting](Outcome outcome) {
    net::post(waiting->timer.get_executor(), [waiting, outcome = std::move(outcome)]() mutable {
      waiting->outcome = std::move(outcome);
      waiting->timer.cancel();
    });
  });
  boost::system::error_code ignored;
  co_await waiting->timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
  if (!waiting->outcome) throw Refusal(504, "the request was not answered before its deadline");
  if (waiting->outcome->error) std::rethrow_exception(waiting->outcome->error);
  co_return std::move(waiting->outcome->results);
}

}  // namespace server
