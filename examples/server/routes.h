// Paths of the protocol, and of the metrics.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace server {

struct Route {
  enum class To { server, live, ready, model, model_ready, infer, index, metrics } to;
  std::string model = {}, version = {};  // empty: any
  const char* method() const { return to == To::infer || to == To::index ? "POST" : "GET"; }
};

// Of the target of a request; nothing where there is no such path. Names may be percent-encoded.
std::optional<Route> find_route(std::string_view target);

}  // namespace server
