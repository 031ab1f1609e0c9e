// What a function or a module counts about its calls, as numbers and as text that Prometheus reads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "escapement/export.h"
#include "escapement/version.h"

namespace escapement::inline ESCAPEMENT_ABI {

// Read while calls go on: each number is right, sums of them may be off by the calls in between.
struct ESCAPEMENT_API Metrics {
  int64_t calls = 0;                                // answered with results: hits + recordings + replays + eager calls
  int64_t hits = 0;                                 // by a compiled version
  int64_t recordings = 0;                           // a version was recorded in the call
  std::map<std::string, int64_t> eager_by_reason;
  std::map<std::string, int64_t> errors_by_code;
  double record_seconds = 0, compile_seconds = 0;
  int64_t in_flight = 0;
  int64_t versions = 0;
  int64_t weight_bytes = 0;
  int64_t weight_swaps = 0;
  int64_t replays = 0;                              // in replay mode; functions only
  struct Latency {                                  // of answered calls
    std::vector<double> bounds;                     // seconds; upper ends of the buckets, without the last, which has none
    std::vector<int64_t> counts;                    // per bucket, one more than bounds; not cumulative
    double sum = 0;                                 // seconds
  } latency;                                        // of modules; empty for functions, whose calls read no clock

  int64_t eager_calls() const;
};

// Of several modules, each under the label module="name".
ESCAPEMENT_API std::string prometheus_text(const std::vector<std::pair<std::string, Metrics>>& modules);

}  // namespace escapement
