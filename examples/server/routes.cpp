// See routes.h.
#include "routes.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace server {

namespace {

using To = Route::To;

std::optional<std::string> decode(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    unsigned char byte = 0;
    const char* const end = text.data() + std::min(i + 3, text.size());
    if (std::from_chars(text.data() + i + 1, end, byte, 16).ptr != text.data() + i + 3) return {};
    plain += static_cast<char>(byte);
    i += 2;
  }
  return plain;
}

// The parts between slashes. Empty where it is no path, or a part is not well encoded.
std::vector<std::string> parts_of(std::string_view path) {
  if (!path.starts_with('/')) return {};
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t length = std::min(path.find('/'), path.size());
    const std::optional<std::string> part = decode(path.substr(0, length));
    if (!part) return {};
    parts.push_back(*part);
    path.remove_prefix(length);
  }
  return parts;
}

struct Fixed {
  std::string_view path;
  To to;
};
constexpr Fixed kFixed[] = {{"/v2", To::server},
                            {"/v2/health/live", To::live},
                            {"/v2/health/ready", To::ready},
                            {"/v2/repository/index", To::index},
                            {"/metrics", To::metrics}};

std::optional<To> model_route(const std::vector<std::string>& parts, size_t at) {
  if (parts.size() == at) return To::model;
  if (parts.size() != at + 1) return {};
  if (parts[at] == "ready") return To::model_ready;
  if (parts[at] == "infer") return To::infer;
  return {};
}

// v2/repository/models/NAME/load
std::optional<Route> repository_route(const std::vector<std::string>& parts) {
  if (parts.size() != 5 || parts[1] != "repository" || parts[2] != "models" || parts[3].empty()) return {};
  if (parts[4] == "load") return Route{To::load, parts[3]};
  if (parts[4] == "unload") return Route{To::unload, parts[3]};
  return {};
}

}  // namespace

std::optional<Route> find_route(std::string_view target) {
  const std::string_view path = target.substr(0, target.find_first_of("?#"));
  for (const Fixed& row : kFixed) {
    if (path == row.path) return Route{row.to};
  }
  const std::vector<std::string> parts = parts_of(path);
  if (parts.size() < 3 || parts[0] != "v2") return {};
  if (parts[1] == "repository") return repository_route(parts);
  if (parts[1] != "models" || parts[2].empty()) return {};
  const bool versioned = parts.size() > 4 && parts[3] == "versions";
  const std::optional<To> to = model_route(parts, versioned ? 5 : 3);
  if (!to) return {};
  return Route{*to, parts[2], versioned ? parts[4] : ""};
}

}  // namespace server
