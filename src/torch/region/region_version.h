// What the files of Region share: a version, and arguments as Program wants them.
#pragma once

#include <c10/util/SmallVector.h>

#include <atomic>
#include <bit>
#include <memory>
#include <span>

#include "torch/region/region.h"

namespace escapement {

// One version: what was recorded, compiled and bound. Immutable but for its counters.
struct Region::Version {
  Program program;
  double record_milliseconds;
  size_t ops;
  Pinned pinned;
  std::vector<ArgumentKind> kinds;       // what the arguments must be
  Ground ground;                         // recorded in such a world: under another flag the program might go another way
  std::shared_ptr<const Trace> generic;  // null unless traces are kept
  mutable std::atomic<int64_t> hits{0};
};

// Arguments as Program wants them. Small programs need no allocation.
class ArgumentList {
 public:
  explicit ArgumentList(const Region::Values& values) : arguments_(values.size()) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].isTensor()) arguments_[i].tensor = &values[i].toTensor();
      else if (values[i].isInt()) arguments_[i].integer = values[i].toInt();
      else arguments_[i] = number(values[i]);
    }
  }
  std::span<const Argument> span() const { return arguments_; }

  static Argument number(const c10::IValue& value) {
    using Kind = Argument::Kind;
    if (value.isBool()) return {nullptr, value.toBool(), true, Kind::boolean};
    if (value.isDouble()) return {nullptr, std::bit_cast<int64_t>(value.toDouble()), true, Kind::real};
    return {nullptr, 0, true, Kind::plain};
  }

 private:
  c10::SmallVector<Argument, 16> arguments_;
};

}  // namespace escapement
