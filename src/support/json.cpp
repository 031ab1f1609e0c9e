// See json.h.
#include "support/json.h"

#include <cmath>
#include <cstdio>

namespace escapement {

void Json::separate() {
  if (!first_ && !after_key_) text_ += ',';
  first_ = false;
  after_key_ = false;
}

Json& Json::open(char begin, char end) {
  separate();
  text_ += begin;
  ends_.push_back(end);
  first_ = true;
  return *this;
}

Json& Json::close() {
  text_ += ends_.back();
  ends_.pop_back();
  first_ = false;
  return *this;
}

Json& Json::key(std::string_view name) {
  value(name);
  text_ += ':';
  after_key_ = true;
  return *this;
}

Json& Json::value(std::string_view text) {
  separate();
  text_ += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(c));
      text_ += buffer;
    } else {
      text_ += c;
    }
  }
  text_ += '"';
  return *this;
}

Json& Json::value(int64_t number) {
  separate();
  text_ += std::to_string(number);
  return *this;
}

Json& Json::value(double number) {
  if (!std::isfinite(number)) return null();  // JSON has no infinity
  separate();
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.17g", number);
  text_ += buffer;
  return *this;
}

Json& Json::value(bool truth) {
  separate();
  text_ += truth ? "true" : "false";
  return *this;
}

Json& Json::null() {
  separate();
  text_ += "null";
  return *this;
}

}  // namespace escapement
