// The protocol over the models: what a request asks for, and its way through codec, queue and model.
//
// The models' port gives everything but changes of the repository; the control port, on a thread of its own, health, metadata, metrics and
// these changes, whatever clients do to the other. Small bodies are read and written on the port's thread, large ones by the codec's threads, so
// that none keeps the others waiting.
#pragma once

#include <boost/asio/thread_pool.hpp>

#include <memory>

#include "http.h"
#include "kserve.h"
#include "repository.h"
#include "routes.h"

namespace server {

using Tensors = std::vector<at::Tensor>;

class Service {
 public:
  explicit Service(const Settings& settings);
  ~Service();

  int bind();              // listens; the port. std::runtime_error
  int control_port() const { return control_port_; }
  void start();            // threads that answer; what is not there yet gets 503
  void load() { repository_.load_all(); }  // the models, and makes them warm; from then on it is ready
  bool busy() const { return repository_.busy(); }  // a model is being loaded
  Door& door() { return door_; }
  void drain();            // from here on: no new requests
  void stop();             // cuts every connection and ends the threads that answer

 private:
  using Model = std::shared_ptr<Served>;

  class Port : public Handler {  // which routes a port has
   public:
    Port(Service& service, bool control) : service_(service), control_(control) {}
    void admit(const Header& header, Visit& visit) override;
    net::awaitable<Reply> answer(Request& request, Visit& visit) override;

   private:
    Service& service_;
    const bool control_;
  };

  Model named(const Route& route) const;  // Refusal where it is not there, or not yet
  bool ready() const { return repository_.complete() && !door_.closed(); }
  Reply answer_at_once(const Route& route, const Request& request) const;
  Reply ready_reply(const Route& route) const;
  Reply index(const std::string& body) const;
  std::string metrics() const;
  net::awaitable<Reply> infer(const Route& route, Request& request, Visit& visit);
  net::awaitable<Reply> infer(Served& model, Request& request, Visit& visit);
  net::awaitable<Tensors> run(escapement::Batcher& batcher, Tensors inputs, Clock::time_point deadline);
  net::awaitable<Reply> change(const Route& route, const Request& request);  // which models there are
  template <class Work>
  net::awaitable<std::invoke_result_t<Work>> coded(size_t bytes, Work work);

  const Settings settings_;
  net::thread_pool loader_{1};
  Repository repository_;
  Door door_;
  Budget budget_;
  net::thread_pool codec_;
  Port front_handler_{*this, false}, control_handler_{*this, true};
  HttpServer front_, control_;
  int control_port_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace server
