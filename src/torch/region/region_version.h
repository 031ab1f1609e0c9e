// What the files of Region share: a version, and arguments as Program wants them.
#pragma once

#include <c10/util/SmallVector.h>

#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

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
  std::unique_ptr<ExitNode> exit;        // null: it ends with the program's results (trace_tree.h)
  mutable std::atomic<bool> retired{false};   // goes on from an exit in too many ways
};

// A version that has been chosen so often will be chosen again: its guards get machine code.
inline constexpr int64_t kHotHits = 64;

// Background compiles of one region: waited for when the region dies.
struct Region::Build {
  std::vector<std::thread> threads;
};

// The right to record. It ends when the code is published or given up, in whatever thread that happens; a recording that an exception
// of the program's own ended does not count.
class Region::Turn {
 public:
  Turn(Region& region, int* spent) : region_(region), spent_(spent) {}
  explicit Turn(Region& region) : recorded(true), region_(region), spent_(nullptr) {}   // of a side trace: it is not limited here
  ~Turn() {
    const std::lock_guard lock(region_.mutex_);
    region_.busy_ = false;
    if (recorded) return;
    --region_.recordings_;
    if (spent_) --*spent_;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool recorded = false;

 private:
  Region& region_;
  int* const spent_;   // recordings of this form, if they are limited
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
