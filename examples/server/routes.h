// Paths of the protocol, and of the metrics.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace server {

struct Route {
  enum class To { server, live, ready, model, model_ready, infer, index, metrics, load, unload } to;
  std::string model = {}, version = {};  // empty: any
  const char* method() const { return is_post() ? "POST" : "GET"; }
  bool is_post() const { return to == To::infer || to == To::index || changes(); }
  bool changes() const { return to == To::load || to == To::unload; }  // which models there are
};

// Of the target of a request; nothing where there is no such path. Names may be percent-encoded.
std::optional<Route> find_route(std::string_view target);

}  // namespace server
