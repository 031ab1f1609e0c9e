// What a region tells of itself: calls that fell back, by reason, which calls no version fitted, and events for the listener. A function that
// is not compiled is told of once, on stderr where nobody listens; with Options::strict it raises. Any number of threads may note.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "support/fork.h"
#include "support/json.h"
#include "torch/region/hooks.h"

namespace escapement {

class Journal {
 public:
  Journal(const std::string& name, bool strict, const Hooks& hooks) : name_(name), strict_(strict), hooks_(hooks) {}

  void tell(RegionEvent::Kind kind, double milliseconds, std::string text) const;
  void note_fallback(Reason why);                                   // counted, and no more
  void note_eager(Reason why);                                      // a call that is about to run eagerly; UserError where that is not wanted
  void note_setback(Reason why, const std::string& detail);         // a recording that was for nothing; a later one may do better
  // The call itself has been answered by the recording run; only later calls are affected. UserError where `strict`.
  void note_failure(Reason why, const std::string& detail, bool replays);
  void note_miss(const std::function<std::string()>& why);
  void take_over(const Journal& other);
  void write(Json& json) const;                                     // the fields misses and fallbacks

 private:

  const std::string& name_;
  const bool strict_;
  const Hooks& hooks_;
  mutable ForkMutex mutex_;
  std::map<Reason, int64_t> fallbacks_;
  std::vector<std::string> misses_;
  bool warned_ = false;
};

}  // namespace escapement
