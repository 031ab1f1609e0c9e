// One version of a function, and the list of them. Versions are tried in the order in which they were made, and a version's entry checks decide, so
// which one runs is a function of the arguments alone. A version never changes, but for its counters; the list only grows.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "escapement/escape.h"
#include "support/grow_only.h"
#include "support/limits.h"
#include "torch/program/program.h"
#include "torch/region/call_arguments.h"
#include "torch/region/trace_tree.h"

namespace escapement {

class Json;

// What was recorded: the calls that a version is for, and what it cost.
struct Origin {
  Pinned pinned;
  std::vector<ArgumentKind> kinds;       // what the arguments must be
  Ground ground;                         // recorded in such a world: under another flag the program might go another way
  size_t ops = 0;
  double record_milliseconds = 0;
};

// Inlined whole: it stands in the way of every call.
[[gnu::flatten]] inline bool kinds_hold(std::span<const ArgumentKind> kinds, std::span<const Argument> arguments) {
  for (const ArgumentKind& kind : kinds) {
    const at::Tensor& tensor = *arguments.data()[kind.input].tensor;
    const bool inference = kind.question == ArgumentKind::Question::inference;   // of all arguments: without a call
    if (inference ? tensor.is_inference() != kind.answer : !kind.holds(tensor)) [[unlikely]] return false;
  }
  return true;
}

struct Version {
  Program program;
  Origin origin;
  std::shared_ptr<const Trace> generic;  // null unless traces are kept
  std::unique_ptr<ExitNode> exit;        // null: it ends with the program's results
  mutable std::atomic<int64_t> hits{0};
  mutable std::atomic<int> sides{0};          // side traces that calls have added
  mutable std::atomic<bool> retired{false};   // not tried any more: goes on from an exit in too many ways, or ran up to a check too often (wasted_runs.h)

  bool fits(const Ground& now, std::span<const Argument> arguments) const {
    if (origin.ground != now || !program.fits(arguments) || !origin.pinned.hold(arguments)) return false;
    return kinds_hold(origin.kinds, arguments);
  }
  std::string why_missed(std::span<const Argument> arguments) const;
  void append_escapes(std::vector<Escape>& found) const;
  void write(Json& json) const;
};

// The generic trace of a version, what it is bound to, and the process that it is for.
struct KeptVersion {
  std::shared_ptr<const Trace> trace;
  std::shared_ptr<const Compiled> compiled;
  std::vector<at::Tensor> captured;
  Ground ground;
};

class VersionList {
 public:
  using List = GrowOnly<std::shared_ptr<const Version>>::List;
  struct Fit {
    bool fits = false;
    std::string miss;                          // of the newest version, if none fits
    Program::Memory memory;
  };

  const List& all() const { return list_.list(); }
  size_t size() const { return all().size(); }
  void publish(std::shared_ptr<const Version> version);
  // `walked`: the list in which it was found.
  int retire_checked() const;                  // those without exits that have a check inside; how many there were
  static void count_hit(const List& walked, const Version& version) {
    if (version.hits.fetch_add(1, std::memory_order_relaxed) + 1 == limits::hits_to_be_hot) compile_guards(walked, version);
  }

  int64_t hits() const;                        // calls that versions have answered
  std::string why_missed(std::span<const c10::IValue> arguments) const;    // of the newest version
  Fit fit(std::span<const c10::IValue> arguments) const;                   // reads metadata only, no data
  std::vector<KeptVersion> kept() const;       // without versions that hold host objects or pinned numbers
  void make_all_code() const;                  // every variant of every kernel, and the guards: nothing is left for the first need
  std::vector<Escape> escapes() const;         // of all versions, in order
  void write(Json& json) const;

 private:
  static void compile_guards(const List& walked, const Version& hot);

  GrowOnly<std::shared_ptr<const Version>> list_;
};

}  // namespace escapement
