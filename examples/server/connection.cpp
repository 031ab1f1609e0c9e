// See connection.h.
#include "connection.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include <array>

namespace server {

namespace {

constexpr size_t kBufferBytes = 64 << 10;     // of what was read and not yet taken: several small requests
constexpr size_t kLingerBytes = 1 << 20;      // that are still read of a client whose last answer is sent
constexpr Milliseconds kLingerTime{1000};

auto into(boost::system::error_code& error) {
  return net::redirect_error(net::use_awaitable, error);
}

// An answer's own status where the error is the client's.
int status_of(boost::system::error_code error) {
  if (error == http::error::body_limit) return 413;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  return 400;
}

}  // namespace

Connection::Watch::Watch(Connection& connection, Milliseconds time) : connection_(connection) {
  connection_.late_ = false;
  connection_.timer_.expires_after(time);
  connection_.timer_.async_wait([self = connection_.shared_from_this(), round = ++connection_.round_](Error) {
    if (round != self->round_) return;
    self->late_ = true;
    Error ignored;
    self->socket_.cancel(ignored);
  });
}

Connection::Watch::~Watch() {
  ++connection_.round_;
  connection_.timer_.cancel();
}

Connection::Connection(HttpServer& server, net::ip::tcp::socket socket)
    : server_(server), socket_(std::move(socket)), timer_(server.context_), buffer_(kBufferBytes) {
  server_.connections_.insert(this);
  ++server_.counts_.open;
}

Connection::~Connection() {
  server_.connections_.erase(this);
  --server_.counts_.open;
}

void Connection::drain() {
  if (idle_) cut();
}

void Connection::cut() {
  Error ignored;
  socket_.close(ignored);
}

net::awaitable<void> Connection::serve() {
  const auto self = shared_from_this();
  try {
    for (bool more = true; more; first_ = false) {
      more = co_await wait_for_request();
      if (more) more = co_await answer_request();
    }
    if (!idle_) co_await linger();
  } catch (const std::exception&) {
    // No memory for the answer, or the client is gone: there is nobody to tell.
  }
  cut();
}

net::awaitable<void> Connection::refuse() {
  const auto self = shared_from_this();
  try {
    Header header;
    header.version(11);
    Reply reply = error_reply(503, "there are too many connections", 1);
    co_await write(reply, header, false);
    co_await linger();
  } catch (const std::exception&) {
    // As above.
  }
  cut();
}

// Between requests nobody is kept waiting for a client: the server may close the connection.
net::awaitable<bool> Connection::wait_for_request() {
  if (buffer_.size() > 0) co_return true;
  buffer_.shrink_to_fit();
  idle_ = true;
  idle_since_ = Clock::now();
  if (server_.draining_ && !first_) co_return false;
  const Watch watch(*this, first_ ? server_.limits_.header_time : server_.limits_.idle_time);
  Error error;
  const size_t read = co_await socket_.async_read_some(buffer_.prepare(4096), into(error));
  buffer_.commit(read);
  if (error) co_return false;
  idle_ = false;
  co_return true;
}

// Steps of one statement each: GCC 12 destroys the value of a `? :` or `&&` that awaits twice.
net::awaitable<bool> Connection::answer_request() {
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(server_.limits_.header_bytes));
  parser.body_limit(server_.limits_.body_bytes);
  Visit visit(server_.budget_);
  Reply reply;
  bool right = false;
  try {
    co_await read_header(parser);
    visit.arrival = Clock::now();
    server_.handler_.admit(parser.get().base(), visit);
    co_await read_body(parser, visit);
    right = true;
  } catch (const Refusal& refusal) {
    reply = error_reply(refusal);
  }
  if (right) reply = co_await reply_to(parser.get(), visit);
  visit.ticket.answered(reply.status);
  co_return co_await write(reply, parser.get().base(), right && parser.keep_alive());
}

net::awaitable<void> Connection::read_header(Parser& parser) {
  const Watch watch(*this, server_.limits_.header_time);
  Error error;
  co_await http::async_read_header(socket_, buffer_, parser, into(error));
  if (error) refuse_input(error, "header");
}

// Chunks are counted as they come over the wire: tiny ones must not multiply what a body may cost.
net::awaitable<void> Connection::read_body(Parser& parser, Visit& visit) {
  if (parser.is_done()) co_return;
  co_await send_continue(parser.get().base());
  buffer_.reserve(kBufferBytes);
  const Watch watch(*this, server_.limits_.body_time);
  const size_t most = server_.limits_.body_bytes + server_.limits_.body_bytes / 4 + kBufferBytes;
  for (size_t wire = 0; !parser.is_done();) {
    Error error;
    wire += co_await http::async_read_some(socket_, buffer_, parser, into(error));
    if (error) refuse_input(error, "body");
    if (wire > most) throw Refusal(413, "the chunks of the body take too many bytes");
    if (!visit.hold.set(parser.get().body().size())) throw Refusal(503, "requests hold too much memory", 1);
  }
}

net::awaitable<void> Connection::send_continue(const Header& header) {
  const auto expect = header.find(http::field::expect);
  if (expect == header.end()) co_return;
  if (!boost::beast::iequals(expect->value(), "100-continue")) throw Refusal(417, "the expectation is not known");
  const Watch watch(*this, server_.limits_.write_time);
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  Error ignored;
  co_await net::async_write(socket_, net::buffer(kContinue), into(ignored));
}

void Connection::refuse_input(Error error, const char* what) const {
  if (late_) {
    ++server_.counts_.late;
    throw Refusal(408, std::string("the request's ") + what + " took too long");
  }
  throw Refusal(status_of(error), std::string("the request's ") + what + " cannot be read: " + error.message());
}

net::awaitable<Reply> Connection::reply_to(Request& request, Visit& visit) {
  Reply reply;
  try {
    reply = co_await server_.handler_.answer(request, visit);
  } catch (const Refusal& refusal) {
    reply = error_reply(refusal);
  } catch (const std::bad_alloc&) {
    reply = error_reply(503, "there is no memory for this request", 1);
  } catch (const std::exception& error) {
    reply = error_reply(500, error.what());
  }
  request.body() = std::string();
  visit.hold.set(reply.body.size());
  co_return reply;
}

// False: this was the last answer, or the client is gone, or took too long.
net::awaitable<bool> Connection::write(Reply& reply, const Header& header, bool keep) {
  http::response<http::string_body> response(static_cast<http::status>(reply.status), header.version());
  response.set(http::field::content_type, reply.type);
  if (reply.json_length >= 0) response.set("Inference-Header-Content-Length", std::to_string(reply.json_length));
  if (reply.retry_after > 0) response.set(http::field::retry_after, std::to_string(reply.retry_after));
  if (reply.allow) response.set(http::field::allow, reply.allow);
  response.keep_alive(keep && !server_.draining_);
  response.content_length(reply.body.size());
  if (header.method() != http::verb::head) response.body() = std::move(reply.body);
  const Watch watch(*this, server_.limits_.write_time);
  Error error;
  co_await http::async_write(socket_, response, into(error));
  co_return !error && !response.need_eof();
}

// A socket that is closed while bytes of the client lie unread resets the connection, and the answer is lost with it.
net::awaitable<void> Connection::linger() {
  Error error;
  socket_.shutdown(net::ip::tcp::socket::shutdown_send, error);
  const Watch watch(*this, kLingerTime);
  buffer_.consume(buffer_.size());
  for (size_t read = 0; !error && read < kLingerBytes;)
    read += co_await socket_.async_read_some(buffer_.prepare(4096), into(error));
}

}  // namespace server
