// See http.h.
#include "http.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "connection.h"

namespace server {

namespace {

constexpr int kBacklog = 1024;              // the system's own limit may be lower
constexpr size_t kRefused = 64;             // connections beyond the limit that are told so; those beyond are just closed
constexpr Milliseconds kOutOfFiles{50};     // until the next try to accept

}  // namespace

HttpServer::HttpServer(const HttpLimits& limits, Budget& budget, Handler& handler)
    : limits_(limits), budget_(budget), handler_(handler) {}

HttpServer::~HttpServer() = default;

int HttpServer::bind(const std::string& host, int port) try {
  using Tcp = net::ip::tcp;
  const Tcp::endpoint endpoint =
      *Tcp::resolver(context_).resolve(host, std::to_string(port), Tcp::resolver::passive).begin();
  acceptor_.open(endpoint.protocol());
  acceptor_.set_option(Tcp::acceptor::reuse_address(true));
  acceptor_.bind(endpoint);
  acceptor_.listen(kBacklog);
  net::co_spawn(context_, accept(), net::detached);
  return acceptor_.local_endpoint().port();
} catch (const boost::system::system_error& error) {
  throw std::runtime_error("cannot listen on " + host + ":" + std::to_string(port) + ": " + error.code().message());
}

void HttpServer::run() { context_.run(); }

void HttpServer::drain() {
  net::post(context_, [this] {
    draining_ = true;
    for (Connection* connection : connections_) connection->drain();
  });
}

void HttpServer::stop() {
  net::post(context_, [this] {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    for (Connection* connection : connections_) connection->cut();
    net::post(context_, [this] { context_.stop(); });  // what was cut ends before
  });
}

net::awaitable<void> HttpServer::accept() {
  while (acceptor_.is_open()) {
    try {
      co_await accept_one();
    } catch (const std::exception&) {
      // No memory for this connection: it is closed, and the next one may fare better.
    }
  }
}

// Who has said nothing for longest gives way to one that has come.
bool HttpServer::make_room() {
  if (connections_.size() < limits_.connections) return true;
  Connection* longest = nullptr;
  for (Connection* connection : connections_) {
    if (connection->idle() && (!longest || connection->idle_since() < longest->idle_since())) longest = connection;
  }
  if (longest) longest->cut();
  return longest != nullptr;
}

net::awaitable<void> HttpServer::accept_one() {
  boost::system::error_code error;
  net::ip::tcp::socket socket = co_await acceptor_.async_accept(net::redirect_error(net::use_awaitable, error));
  if (error) {  // no file is left, say: those that wait stay in the backlog
    net::steady_timer pause(context_, kOutOfFiles);
    co_await pause.async_wait(net::redirect_error(net::use_awaitable, error));
    co_return;
  }
  ++counts_.accepted;
  const bool full = !make_room();
  if (full) ++counts_.refused;
  if (connections_.size() >= limits_.connections + kRefused) co_return;
  socket.set_option(net::ip::tcp::no_delay(true), error);
  const auto connection = std::make_shared<Connection>(*this, std::move(socket));
  net::co_spawn(
      context_, [connection, full] { return full ? connection->refuse() : connection->serve(); }, net::detached);
}

}  // namespace server
