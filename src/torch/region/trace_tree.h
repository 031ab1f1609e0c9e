// The trace tree of one version. A recording whose host looked at a value behind an effect is cut at each such place (record/exits.h): the
// version's own program ends at the first, and hands what is still needed to the side trace that its entry checks choose; that may end at
// another exit, and so on. A call that finds no side trace goes on with the program itself, by fast-forward, and records one.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "torch/record/forward.h"
#include "torch/region/region_version.h"

namespace escapement {

struct Region::SideTrace {
  Program program;
  std::vector<at::Tensor> captured;        // of the recording so far: arguments, behind the caller's
  std::unique_ptr<ExitNode> exit;          // null: it ends with the program's results
  mutable std::atomic<int64_t> hits{0};
};

struct Region::ExitNode {
  using Sides = std::vector<std::shared_ptr<const SideTrace>>;
  static constexpr size_t kMostSides = 8;  // ways to go on from one exit; more is a value that differs at each call
  static constexpr int kMostRefused = 2;   // recordings from here that could not be kept

  ExitNode(const Recording& recording, size_t number, std::span<const at::Tensor> captured);

  const Exit exit;
  const std::shared_ptr<const std::vector<ScriptStep>> script;
  const std::optional<bool> inference;     // Recording::inference: what is handed on was made so
  const bool everywhere;                   // Recording::exits_everywhere
  const size_t number;                     // among the exits of its recording
  const std::vector<at::Tensor> captured;
  std::atomic<int64_t> departures{0};      // calls that found no side trace here
  int refused = 0;                         // under the region's lock
  // Only added to, under the region's lock; a list that is being walked stays.
  const Sides& sides() const { return *current_.load(std::memory_order_acquire); }
  void add(std::shared_ptr<const SideTrace> side);

 private:
  std::atomic<const Sides*> current_;
  std::vector<std::unique_ptr<const Sides>> all_;
};

// A call that came to an exit behind which no side trace fits it.
struct Region::Departed {
  const Version* version = nullptr;
  ExitNode* exit = nullptr;
  Values live;                             // what is handed on: tensors, then numbers
  bool forced = false;                     // for tests: a side trace fits
};

struct Region::Left {
  const Region* region = nullptr;
  Departed departed;
};

}  // namespace escapement
