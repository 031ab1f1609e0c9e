// The protocol over one model: what a request asks for, and its way through codec, queue and model.
//
// The model's port gives everything; the control port, on a thread of its own, health, metadata and metrics, whatever
// clients do to the other. Small bodies are read and written on the port's thread, large ones by the codec's threads, so
// that none keeps the others waiting.
#pragma once

#include <escapement/serving.h>

#include <boost/asio/thread_pool.hpp>

#include <memory>
#include <mutex>
#include <optional>

#include "batcher.h"
#include "http.h"
#include "kserve.h"
#include "routes.h"

namespace server {

class Service {
 public:
  explicit Service(const Settings& settings);
  ~Service();

  int bind();              // listens; the port. std::runtime_error
  int control_port() const { return control_port_; }
  void start();            // threads that answer; what is not there yet gets 503
  void load();             // the model, and makes it warm; from then on it is ready
  Door& door() { return door_; }
  void drain();            // from here on: no new requests
  void stop();             // cuts every connection and ends the threads that answer

 private:
  struct Loaded {
    std::optional<escapement::Module> module;
    std::shared_ptr<Batcher> batcher;
    explicit operator bool() const { return batcher != nullptr; }
  };

  class Port : public Handler {  // which routes a port has
   public:
    Port(Service& service, bool control) : service_(service), control_(control) {}
    void admit(const Header& header, Visit& visit) override;
    net::awaitable<Reply> answer(Request& request, Visit& visit) override;

   private:
    Service& service_;
    const bool control_;
  };

  Loaded loaded() const;
  Loaded named(const Route& route) const;  // Refusal where it is not there, or not yet
  bool ready() const { return loaded() && !door_.closed(); }
  Reply answer_at_once(const Route& route, const Request& request) const;
  Reply ready_reply(const Route& route) const;
  Reply index(const std::string& body) const;
  std::string metrics() const;
  net::awaitable<Reply> infer(const Route& route, Request& request, Visit& visit);
  net::awaitable<Reply> infer(const Loaded& model, Request& request, Visit& visit);
  net::awaitable<Tensors> run(Batcher& batcher, Tensors inputs, Clock::time_point deadline);
  template <class Work>
  net::awaitable<std::invoke_result_t<Work>> coded(size_t bytes, Work work);

  const Settings settings_;
  const escapement::Engine engine_;
  Door door_;
  Budget budget_;
  mutable std::mutex mutex_;
  Loaded loaded_;
  net::thread_pool codec_;
  Port front_handler_{*this, false}, control_handler_{*this, true};
  HttpServer front_, control_;
  int control_port_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace server
