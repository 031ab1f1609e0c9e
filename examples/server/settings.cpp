// See settings.h.
#include "settings.h"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string_view>

#include "model_settings.h"

namespace server {

namespace {

using Set = void (*)(Settings&, int64_t);

struct Text {
  const char* name;
  std::string Settings::*member;
  const char* meaning;
};
constexpr Text kTexts[] = {
    {"--model", &Settings::model, "the exported program or package to serve"},
    {"--name", &Settings::name, "its name in paths; else the file's"},
    {"--models", &Settings::models, "a folder of such, NAME.pt2 or NAME.package, with settings of their own in NAME.json"},
    {"--host", &Settings::host, "the address to listen on (127.0.0.1)"},
};

struct Number {
  const char* name;
  int64_t least, most;
  Set set;
  const char* meaning;
};
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
constexpr Number kNumbers[] = {
    {"--port", 0, 65535, [](Settings& s, int64_t v) { s.port = static_cast<int>(v); }, "8000; 0: any free one"},
    {"--control-port", 0, 65535, [](Settings& s, int64_t v) { s.control_port = static_cast<int>(v); },
     "health and metrics on a thread of their own (the next port; 0: any free one)"},
    {"--threads", 0, 1024, [](Settings& s, int64_t v) { s.threads = static_cast<int>(v); }, "of the model (0: torch's)"},
    {"--codec-threads", 1, 256, [](Settings& s, int64_t v) { s.codec_threads = static_cast<int>(v); },
     "that read and write large bodies (2)"},
    {"--max-batch", 1, kMost, [](Settings& s, int64_t v) { s.batch.max_requests = static_cast<size_t>(v); },
     "requests of a batch (32)"},
    {"--max-rows", 1, kMost, [](Settings& s, int64_t v) { s.batch.max_rows = static_cast<size_t>(v); }, "rows of one (4096)"},
    {"--queue", 1, kMost, [](Settings& s, int64_t v) { s.batch.max_queued = static_cast<size_t>(v); },
     "requests that wait; more get 503 (256)"},
    {"--trust-packages", 0, 1, [](Settings& s, int64_t v) { s.trust_packages = v != 0; },
     "1: machine code of packages that only their owner may write is used (0)"},
    {"--repository-control", 0, 1, [](Settings& s, int64_t v) { s.repository_control = v != 0; },
     "1: models may be loaded and unloaded at the control port (0)"},
    {"--timeout-ms", 0, kMost, [](Settings& s, int64_t v) { s.timeout = Milliseconds(v); },
     "of a request from the end of its header (0: none)"},
    {"--connections", 1, kMost, [](Settings& s, int64_t v) { s.http.connections = static_cast<size_t>(v); },
     "open at once; more get 503 (1024)"},
    {"--body-kb", 1, kMost, [](Settings& s, int64_t v) { s.http.body_bytes = static_cast<size_t>(v) << 10; },
     "of a request (65536)"},
    {"--memory-mb", 1, kMost, [](Settings& s, int64_t v) { s.memory_bytes = static_cast<size_t>(v) << 20; },
     "of all requests and answers held at once; more get 503 (1024)"},
    {"--header-ms", 1, kMost, [](Settings& s, int64_t v) { s.http.header_time = Milliseconds(v); },
     "for the header to arrive (10000)"},
    {"--body-ms", 1, kMost, [](Settings& s, int64_t v) { s.http.body_time = Milliseconds(v); },
     "for the body to arrive (30000)"},
    {"--write-ms", 1, kMost, [](Settings& s, int64_t v) { s.http.write_time = Milliseconds(v); },
     "for the client to take its answer (30000)"},
    {"--idle-ms", 1, kMost, [](Settings& s, int64_t v) { s.http.idle_time = Milliseconds(v); },
     "between two requests of a connection (60000)"},
    {"--drain-ms", 0, kMost, [](Settings& s, int64_t v) { s.drain_time = Milliseconds(v); },
     "from SIGTERM to the end, at the latest (10000)"},
};

bool set_number(const Number& row, std::string_view text, Settings& settings) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < row.least || value > row.most) return false;
  row.set(settings, value);
  return true;
}

bool set(std::string_view name, const char* value, Settings& settings) {
  if (name == "--batching") {
    const auto batching = read_batching(value);
    if (batching) settings.batch.batching = *batching;
    return batching.has_value();
  }
  for (const Text& row : kTexts) {
    if (name == row.name) return settings.*row.member = value, true;
  }
  for (const Number& row : kNumbers) {
    if (name == row.name) return set_number(row, value, settings);
  }
  return false;
}

void usage() {
  std::fprintf(stderr, "server --model FILE | --models FOLDER [--OPTION VALUE] ...\n");
  std::fprintf(stderr, "  %-20s %s\n", "--batching", "automatic, none, rows (each row of a request is on its own) or lengths (automatic)");
  for (const Text& row : kTexts) std::fprintf(stderr, "  %-20s %s\n", row.name, row.meaning);
  for (const Number& row : kNumbers) std::fprintf(stderr, "  %-20s %s\n", row.name, row.meaning);
}

}  // namespace

bool read_settings(int count, char** arguments, Settings& settings) {
  bool right = count % 2 == 1;
  for (int i = 1; right && i + 1 < count; i += 2) {
    right = set(arguments[i], arguments[i + 1], settings);
    if (!right) std::fprintf(stderr, "server: %s %s: no such option, or no such value\n", arguments[i], arguments[i + 1]);
  }
  if (right && !(settings.model.empty() && settings.models.empty())) return true;
  usage();
  return false;
}

}  // namespace server
