// Counters of the two tables are arrays of atomics; everything else lives behind one mutex. The state is never destroyed, so
// that threads which outlive main() may still count.
#include "support/events.h"

#include <array>
#include <atomic>
#include <deque>
#include <map>

#include "support/fork.h"

namespace escapement {
namespace {

struct StatRow {
  std::string_view name, doc;
};

constexpr auto kStats = std::to_array<StatRow>({
#define STAT(name, doc) {#name, doc},
#include "support/stats.def"
#undef STAT
});

constexpr size_t kReasons = 0
#define REASON(name, message) +1
#include "support/reason.def"
#undef REASON
    ;

struct State {
  std::array<std::atomic<int64_t>, kStats.size()> stats{};
  std::array<std::atomic<int64_t>, kReasons> reasons{};
  ForkMutex mutex;  // guards everything below
  std::map<std::string, int64_t, std::less<>> named;
  std::deque<Event> events;
  uint64_t next_event = 0;
};

State& state() {
  static State* const instance = new State;
  return *instance;
}

}  // namespace

std::string_view stat_name(Stat stat) { return kStats[static_cast<size_t>(stat)].name; }
std::string_view stat_doc(Stat stat) { return kStats[static_cast<size_t>(stat)].doc; }

void count(Reason reason, int64_t by) noexcept {
  state().reasons[static_cast<size_t>(reason)].fetch_add(by, std::memory_order_relaxed);
}

void count(Stat stat, int64_t by) noexcept {
  state().stats[static_cast<size_t>(stat)].fetch_add(by, std::memory_order_relaxed);
}

void count(std::string_view name, int64_t by) noexcept try {
  State& s = state();
  std::lock_guard lock(s.mutex);
  auto found = s.named.find(name);
  if (found == s.named.end()) found = s.named.emplace(std::string(name), 0).first;
  found->second += by;
} catch (...) {
  // Out of memory while counting: the count is lost, the program goes on.
}

int64_t counted(Reason reason) noexcept { return state().reasons[static_cast<size_t>(reason)].load(std::memory_order_relaxed); }
int64_t counted(Stat stat) noexcept { return state().stats[static_cast<size_t>(stat)].load(std::memory_order_relaxed); }

int64_t counted(std::string_view name) noexcept {
  for (size_t i = 0; i < kStats.size(); ++i)
    if (kStats[i].name == name) return counted(static_cast<Stat>(i));
  if (std::optional<Reason> reason = reason_from_name(name)) return counted(*reason);
  State& s = state();
  std::lock_guard lock(s.mutex);
  auto found = s.named.find(name);
  return found == s.named.end() ? 0 : found->second;
}

Counters counters() {
  Counters result;
  auto add = [&](std::string_view name, int64_t value) {
    if (value != 0) result.emplace_back(std::string(name), value);
  };
  for (size_t i = 0; i < kStats.size(); ++i) add(kStats[i].name, counted(static_cast<Stat>(i)));
  for (size_t i = 0; i < kReasons; ++i) add(reason_name(static_cast<Reason>(i)), counted(static_cast<Reason>(i)));
  State& s = state();
  std::lock_guard lock(s.mutex);
  for (const auto& [name, value] : s.named) add(name, value);
  return result;
}

void reset_counters() {
  State& s = state();
  for (auto& counter : s.stats) counter.store(0, std::memory_order_relaxed);
  for (auto& counter : s.reasons) counter.store(0, std::memory_order_relaxed);
  std::lock_guard lock(s.mutex);
  s.named.clear();
  s.events.clear();
}

void log_event(std::string_view name, std::string detail) noexcept try {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.events.push_back(Event{s.next_event++, std::string(name), std::move(detail)});
  if (s.events.size() > kMaxEvents) s.events.pop_front();
} catch (...) {
  // As in count().
}

std::vector<Event> events() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  return {s.events.begin(), s.events.end()};
}

}  // namespace escapement
