// HTTP/1.1 on one port and one thread: connections are coroutines, and no client can take more than its limits allow.
//
// A connection holds no thread while it waits, for its client or for the model. Each wait has an end (HttpLimits), each
// size a bound that is held while bytes arrive, not when they are all there. Whatever goes wrong is answered with JSON, if
// the client can still be answered; then the connection is closed so that the answer arrives (what the client still sends
// is read and dropped for a moment).
#pragma once

#include <utility>  // before Asio 1.18, whose awaitable.hpp forgets it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <unordered_set>

#include "door.h"
#include "reply.h"

namespace server {

namespace net = boost::asio;
namespace http = boost::beast::http;

using Header = http::request_header<>;
using Request = http::request<http::string_body>;

// What one request holds from the end of its header until its answer is sent.
struct Visit {
  explicit Visit(Budget& budget) : hold(budget) {}
  Clock::time_point arrival = Clock::now();  // of the header's end
  Ticket ticket;
  Hold hold;
};

// Its members run on the port's thread, and may throw Refusal; anything else is answered with 500.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void admit(const Header& header, Visit& visit) = 0;  // before the body is read
  virtual net::awaitable<Reply> answer(Request& request, Visit& visit) = 0;
};

class Connection;

class HttpServer {
 public:
  HttpServer(const HttpLimits& limits, Budget& budget, Handler& handler);
  ~HttpServer();

  int bind(const std::string& host, int port);  // the port; 0: any. std::runtime_error
  void run();                                   // until `stop`
  // From any thread. Idle connections are closed, the others with their next answer; new ones are still answered.
  void drain();
  void stop();  // from any thread: cuts all connections

  struct Counts {
    std::atomic<int64_t> open = 0, accepted = 0, refused = 0, late = 0;
  };
  const Counts& counts() const { return counts_; }
  net::io_context& context() { return context_; }

 private:
  friend class Connection;
  net::awaitable<void> accept();
  net::awaitable<void> accept_one();
  bool make_room();  // false: there is none

  const HttpLimits limits_;
  Budget& budget_;
  Handler& handler_;
  std::unordered_set<Connection*> connections_;  // of the thread that runs; outlives what the context holds of them
  bool draining_ = false;                        // likewise
  Counts counts_;
  net::io_context context_{1};
  net::ip::tcp::acceptor acceptor_{context_};
};

}  // namespace server
