// The event log: process-wide counters behind stats(), and a short list of recent events for reports.
//
// Counters are keyed by a Reason, by a row of stats.def, or by a free name. The first two are words of the thread that counts and cost a
// nanosecond, so hot paths may count; free names, events and reading take a lock. Counting never throws and never fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/reason.h"

namespace escapement {

enum class Stat : uint8_t {
#define STAT(name, doc) name,
#include "support/stats.def"
#undef STAT
};

std::string_view stat_name(Stat);
std::string_view stat_doc(Stat);

void count(Reason reason, int64_t by = 1) noexcept;
void count(Stat stat, int64_t by = 1) noexcept;
void count(std::string_view name, int64_t by = 1) noexcept;  // a name of the caller's choice

int64_t counted(Reason reason) noexcept;
int64_t counted(Stat stat) noexcept;
int64_t counted(std::string_view name) noexcept;  // any of the three kinds, by name; 0 if never counted

using Counters = std::vector<std::pair<std::string, int64_t>>;
Counters counters();    // all that are not zero: statistics, reasons, then free names in alphabetical order
void reset_counters();  // for tests and stats(reset=True); also forgets the events

// Something worth telling once in a report: what happened, and to what. Only the newest kMaxEvents are kept.
struct Event {
  uint64_t number = 0;  // counts all events since the start, so that a reader sees what was dropped
  std::string name;     // "recompile", "graph_break", ...
  std::string detail;
};
inline constexpr size_t kMaxEvents = 1024;
void log_event(std::string_view name, std::string detail) noexcept;
std::vector<Event> events();

}  // namespace escapement
