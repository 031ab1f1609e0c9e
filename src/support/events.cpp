// Each thread counts in a tally of its own, since a word that all threads add to costs a hot call more than the rest of its entry; a counter
// is the sum over all tallies, less what it was when it was reset. Everything else lives behind one mutex. The state is never destroyed, so
// that threads which outlive main() may still count.
#include "support/events.h"

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <vector>

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

// Reasons stand behind the statistics.
constexpr size_t kCounters = kStats.size() + kReasons;
constexpr size_t index_of(Stat stat) { return static_cast<size_t>(stat); }
constexpr size_t index_of(Reason reason) { return kStats.size() + static_cast<size_t>(reason); }

struct alignas(64) Tally {
  std::array<std::atomic<int64_t>, kCounters> counts{};
};

struct State {
  Tally common;     // of threads that have ended as far as their own tally goes
  ForkMutex mutex;  // guards everything below
  std::deque<Tally> tallies;                    // one a thread; those of ended threads keep their counts and serve again
  std::vector<Tally*> free;
  std::array<int64_t, kCounters> forgotten{};   // what the sums were at the last reset
  std::map<std::string, int64_t, std::less<>> named;
  std::deque<Event> events;
  uint64_t next_event = 0;
};

State& state() {
  static State* const instance = new State;
  return *instance;
}

thread_local constinit Tally* own_tally = nullptr;

// Held from a thread's first count to its end.
struct Lease {
  Tally* tally;

  Lease() {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.free.reserve(s.tallies.size() + 1);       // so that giving back never fails
    tally = s.free.empty() ? &s.tallies.emplace_back() : s.free.back();
    if (!s.free.empty()) s.free.pop_back();
  }
  ~Lease() {
    own_tally = nullptr;
    const std::lock_guard lock(state().mutex);
    state().free.push_back(tally);
  }
};

// Before a thread's first count, and after its last destructor; also where there is no memory for a tally.
[[gnu::noinline, gnu::cold]] void count_slowly(size_t index, int64_t by) noexcept {
  static thread_local constinit bool leased = false;
  if (!leased) try {
      leased = true;
      static thread_local const Lease lease;
      own_tally = lease.tally;
    } catch (...) {
      // This thread counts in the common tally.
    }
  Tally& tally = own_tally != nullptr ? *own_tally : state().common;
  tally.counts[index].fetch_add(by, std::memory_order_relaxed);
}

void count_at(size_t index, int64_t by) noexcept {
  Tally* const tally = own_tally;
  if (tally == nullptr) return count_slowly(index, by);
  auto& word = tally->counts[index];            // nobody else writes it
  word.store(word.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

// Under the state's lock.
int64_t sum_at(const State& s, size_t index) {
  int64_t sum = s.common.counts[index].load(std::memory_order_relaxed);
  for (const Tally& tally : s.tallies) sum += tally.counts[index].load(std::memory_order_relaxed);
  return sum;
}

int64_t counted_at(size_t index) noexcept {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return sum_at(s, index) - s.forgotten[index];
}

}  // namespace

std::string_view stat_name(Stat stat) { return kStats[static_cast<size_t>(stat)].name; }
std::string_view stat_doc(Stat stat) { return kStats[static_cast<size_t>(stat)].doc; }

void count(Reason reason, int64_t by) noexcept { count_at(index_of(reason), by); }
void count(Stat stat, int64_t by) noexcept { count_at(index_of(stat), by); }

void count(std::string_view name, int64_t by) noexcept try {
  State& s = state();
  std::lock_guard lock(s.mutex);
  auto found = s.named.find(name);
  if (found == s.named.end()) found = s.named.emplace(std::string(name), 0).first;
  found->second += by;
} catch (...) {
  // Out of memory while counting: the count is lost, the program goes on.
}

int64_t counted(Reason reason) noexcept { return counted_at(index_of(reason)); }
int64_t counted(Stat stat) noexcept { return counted_at(index_of(stat)); }

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
  std::lock_guard lock(s.mutex);
  for (size_t i = 0; i < kCounters; ++i) s.forgotten[i] = sum_at(s, i);
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
