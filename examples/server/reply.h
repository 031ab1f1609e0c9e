// An answer, and the exception that becomes one.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace server {

struct Reply {
  int status = 200;
  std::string body;
  const char* type = "application/json";
  int64_t json_length = -1;  // of the JSON that the body begins with, where bytes follow; negative: no bytes follow
  int retry_after = 0;       // seconds; 0: the header is left out
  const char* allow = nullptr;
};

// What cannot be answered otherwise: the status, and a text that names cause and remedy.
struct Refusal : std::runtime_error {
  Refusal(int status_, const std::string& text, int retry_after_ = 0)
      : std::runtime_error(text), status(status_), retry_after(retry_after_) {}
  int status, retry_after;
};

struct BadRequest : Refusal {  // the client's mistake
  explicit BadRequest(const std::string& text) : Refusal(400, text) {}
};

// {"error": text}. Bytes that are not UTF-8 are replaced: a text may hold what a client sent.
Reply error_reply(int status, const std::string& text, int retry_after = 0);
inline Reply error_reply(const Refusal& refusal) { return error_reply(refusal.status, refusal.what(), refusal.retry_after); }

}  // namespace server
