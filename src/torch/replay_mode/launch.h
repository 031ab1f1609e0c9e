// SegmentLaunch: what one place of a stream runs: the segment's recording, and the programs compiled from it. A program
// returns the tensors that were still held when the segment ended; other tensors held mean another program of the same
// recording, and a tensor that the recording does not know as a result means another recording.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "support/fork.h"
#include "support/json.h"
#include "torch/program/program.h"

namespace escapement {

using Slots = std::vector<uint32_t>;   // numbers of produced tensors, ascending

class SegmentLaunch {
 public:
  // `results`: which tensor each output of the recording is.
  SegmentLaunch(Recording recording, Slots results);
  ~SegmentLaunch();

  struct Ready {
    Slots results;
    Program program;
    std::atomic<int64_t> hits{0};
    std::atomic<Ready*> next{nullptr};
    Ready(Slots slots, Program code) : results(std::move(slots)), program(std::move(code)) {}
  };
  // A program that returns at least `live`; compiled when first asked for. Null if there can be none.
  Ready* ready(const Slots& live, const Options& options, std::string& failure);

  size_t operators() const { return recording_.ops; }
  const Slots& results() const { return results_; }
  std::vector<std::string> relations() const;   // that its sizes and numbers must stand in, as text
  const Ready* first() const { return programs_.load(std::memory_order_acquire); }
  std::optional<Reason> failed() const {
    const int why = failed_.load(std::memory_order_acquire);
    return why < 0 ? std::nullopt : std::optional(static_cast<Reason>(why));
  }
  void write(Json& json) const;

  std::atomic<SegmentLaunch*> next{nullptr};

 private:
  void fail(Reason why) { failed_.store(static_cast<int>(why), std::memory_order_release); }
  Ready* find(const Slots& live) const;
  std::unique_ptr<Ready> compile_for(const Slots& live, const Options& options) const;

  const Recording recording_;
  const Slots results_;
  ForkTurn making_;
  std::atomic<Ready*> programs_{nullptr};
  int count_ = 0;
  std::atomic<int> failed_{-1};   // a Reason; read by threads that hold no lock
};

}  // namespace escapement
