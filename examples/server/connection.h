// One client: its requests one after the other, each under the limits of its port. Lives as long as its coroutine runs.
#pragma once

#include "http.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>

#include <memory>
#include <optional>

namespace server {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpServer& server, net::ip::tcp::socket socket);
  ~Connection();
  net::awaitable<void> serve();
  net::awaitable<void> refuse();  // there are too many: one answer without having read anything
  void drain();                   // closes it where it is idle; else its next answer is its last
  void cut();
  bool idle() const { return idle_ && socket_.is_open(); }  // nothing has come of a request, or of the next one
  Clock::time_point idle_since() const { return idle_since_; }

 private:
  using Parser = http::request_parser<http::string_body>;
  using Error = boost::system::error_code;

  // Ends what the socket waits for at a time, unless it is gone before.
  class Watch {
   public:
    Watch(Connection& connection, Milliseconds time);
    ~Watch();

   private:
    Connection& connection_;
  };

  net::awaitable<bool> wait_for_request();  // false: there is none
  net::awaitable<bool> answer_request();    // false: it was the last
  net::awaitable<void> read_header(Parser& parser);
  net::awaitable<void> read_body(Parser& parser, Visit& visit);
  net::awaitable<void> send_continue(const Header& header);
  net::awaitable<Reply> reply_to(Request& request, Visit& visit);
  net::awaitable<bool> write(Reply& reply, const Header& header, bool keep);  // false: it was the last
  net::awaitable<void> linger();
  [[noreturn]] void refuse_input(Error error, const char* what) const;

  HttpServer& server_;
  net::ip::tcp::socket socket_;
  net::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  uint64_t round_ = 0;  // of watches: a timer's handler that comes late finds another
  bool late_ = false, idle_ = false, first_ = true;
  Clock::time_point idle_since_;
};

}  // namespace server
