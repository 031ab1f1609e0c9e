// NumberCheck: what an operator asks of the floating-point numbers that a segment takes from outside and of nothing else: that one fits in
// float32, say, where eager would raise. The recording computes it and guards the outcome; here it is computed before anything runs, so that a
// number may vary and the operator be matched all the same.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/scalar.h"
#include "trace/trace.h"

namespace escapement {

class NumberCheck {
 public:
  using RealOf = std::function<std::optional<uint32_t>(ValueId)>;   // which number an input of the recording is
  // Of a guard on a value; nothing if there is more in it than such numbers and constants.
  static std::optional<NumberCheck> of(const Trace& trace, const Guard& guard, const RealOf& real_of);
  bool holds(const double* reals) const;
  std::string text() const;
  bool operator==(const NumberCheck& other) const;   // the same steps on the same numbers

 private:
  ScalarProgram program_;
  Reg result_ = 0;
  std::vector<uint32_t> reals_;   // of the segment, per input of the program
  std::string because_;
};

}  // namespace escapement
