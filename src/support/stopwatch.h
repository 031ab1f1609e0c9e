// How long something takes, from the stopwatch's making on.
#pragma once

#include <chrono>

namespace escapement {

class Stopwatch {
 public:
  double milliseconds() const { return std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace escapement
