// The trace tree of one version. A recording whose host looked at a value behind an effect, or anywhere where versions had run in vain (wasted_runs.h),
// is cut at each such place (record/exits.h): the version's own program ends at the first, and hands what is still needed to the side trace that its
// entry checks choose; that may end at another exit, and so on. A call that finds no side trace goes on with the program itself, by fast-forward, and
// records one (region_exits.cpp).
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "escapement/escape.h"
#include "support/grow_only.h"
#include "torch/program/program.h"
#include "torch/record/flow.h"
#include "torch/record/forward.h"

namespace escapement {

class Json;
struct ExitNode;
struct Version;

struct SideTrace {
  Program program;
  std::vector<at::Tensor> captured;        // of the recording so far: arguments, behind the caller's
  std::unique_ptr<ExitNode> exit;          // null: it ends with the program's results
  mutable std::atomic<int64_t> hits{0};
};

struct ExitNode {
  ExitNode(const Recording& recording, size_t number, std::span<const at::Tensor> captured);

  const Exit exit;
  const std::shared_ptr<const std::vector<ScriptStep>> script;
  const std::optional<bool> inference;     // Recording::inference: what is handed on was made so
  const bool everywhere;                   // Recording::exits_everywhere
  const size_t number;                     // among the exits of its recording
  const std::vector<at::Tensor> captured;
  GrowOnly<std::shared_ptr<const SideTrace>> sides;
  std::atomic<int64_t> departures{0};      // calls that found no side trace here
  int refused = 0;                         // of those who have the turn to record (recording_budget.h)

  bool wants_tape() const;                 // asked before a call begins: behind an exit it cannot run eagerly any more. Where gradients are on
  bool is_met_by(const Recording& recording) const;   // the recording did the same up to here, instruction by instruction
  void append_escapes(std::vector<Escape>& found) const;
  void write(Json& json) const;
};

// For tests: every so manieth time a call comes to an exit, it goes on as if no side trace fitted.
struct ForcedExits {
  explicit ForcedExits(int64_t period) : every(period) {}
  bool next() { return every > 0 && (met.fetch_add(1, std::memory_order_relaxed) + 1) % every == 0; }

  const int64_t every;                     // 0: never
  std::atomic<int64_t> met{0};             // counted only where it matters
};

// A call that came to an exit: its version's own program has run, and handed on `live`.
struct Departed {
  using Values = Body::Values;
  const Version* version = nullptr;
  ExitNode* exit = nullptr;
  Values live;                             // tensors, then numbers
  bool forced = false;                     // a side trace fits

  // Runs side traces from here on. No: none fits at the exit where the call is now.
  bool follow(std::span<const Argument> arguments, Values& outputs, ForcedExits& forced_exits);
  Departure departure(std::span<const Argument> arguments) const;
};

}  // namespace escapement
