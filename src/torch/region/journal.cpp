// See journal.h.
#include "torch/region/journal.h"

#include <cstdio>
#include <utility>

#include "support/error.h"
#include "support/events.h"
#include "support/limits.h"
#include "torch/program/cpp_location.h"

namespace escapement {
namespace {

std::string in_words(Reason why) { return std::string(reason_name(why)) + ": " + std::string(reason_message(why)); }

}  // namespace

void Journal::tell(RegionEvent::Kind kind, double milliseconds, std::string text) const {
  if (hooks_.listener) hooks_.listener({kind, milliseconds, std::move(text)});
}

void Journal::note_fallback(Reason why) {
  count(why);
  const std::lock_guard lock(mutex_);
  ++fallbacks_[why];
}

void Journal::note_eager(Reason why) {
  if (strict_ && why != Reason::disabled && why != Reason::not_ready)
    throw UserError("escapement: '" + name_ + "' would run eagerly (" + in_words(why) + ") and strict is set");
  count(Stat::eager_calls);
  note_fallback(why);
}

void Journal::note_setback(Reason why, const std::string& detail) {
  log_event("fallback", name_ + ": " + std::string(reason_name(why)) + " " + detail);
  note_fallback(why);
}

void Journal::note_failure(Reason why, const std::string& detail, bool replays) {
  note_setback(why, detail);
  const std::string text = "escapement: '" + name_ + "' is not compiled (" + in_words(why) + (detail.empty() ? "" : "; " + detail) + "); it " +
                           (replays ? "goes on in replay mode" : "runs eagerly");
  bool warn = false;
  {
    const std::lock_guard lock(mutex_);
    warn = !std::exchange(warned_, true);
  }
  tell(RegionEvent::Kind::not_compiled, 0, text);
  if (strict_) throw UserError(text);
  if (warn && !hooks_.listener) std::fprintf(stderr, "%s\n", text.c_str());
}

void Journal::note_miss(const std::function<std::string()>& why) {
  count(Stat::misses);
  const std::lock_guard lock(mutex_);
  if (misses_.size() < limits::misses_told) misses_.push_back(why());
}

void Journal::take_over(const Journal& other) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  fallbacks_ = other.fallbacks_;
  misses_ = other.misses_;
}

void Journal::write(Json& json) const {
  const std::lock_guard lock(mutex_);
  json.key("misses").open_array();
  for (const std::string& miss : misses_) json.value(readable_place(miss));
  json.close().key("fallbacks").open_object();
  for (const auto& [why, times] : fallbacks_) json.field(reason_name(why), times);
  json.close();
}

}  // namespace escapement
