// ReplayRegion: replay mode. The program (host code and all) runs at every call; its operators are not run one by one but
// matched against a tree of recorded operator streams, and what was matched is launched as one compiled program when a
// segment ends: at a value that the host reads, at a memory access, at an operator that cannot be deferred, at the program's
// end.
//
// Sound for any host code, since nothing is assumed of it: globals, values, random numbers and clocks may change between
// calls and inside one. The program gets the caller's own tensors; what it computes are tensors with sizes and a dtype but
// no memory yet (deferred.h), which become ordinary tensors, in place, when their segment ends. Sizes and integers are
// inputs of a segment. A stream that no branch of the tree continues is run for real and recorded as a new branch
// (stream.h); branches, and programs for one place, are bounded, and past the bounds operators run one by one, counted.
//
// What no tracer can see is memory that is written other than by torch while an operator that reads it is still pending;
// memory that torch knows to be shared (from_blob, from_numpy, after numpy()), or that the program may fill itself (host_memory.h), is
// therefore never read late.
//
// Any number of threads may call. A call inside a call of the same thread, or inside a recording, is part of that one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "escapement/export.h"
#include "support/options.h"
#include "torch/record/flow.h"

namespace escapement {

class ReplayCall;
class StreamTree;

class ESCAPEMENT_API ReplayRegion {
 public:
  using Values = Body::Values;
  // Runs the program on the caller's values; appends its outputs. The same type as Region's.
  using Forward = std::function<void(const Values& arguments, Values& outputs)>;

  ReplayRegion(std::string name, Forward forward, Options options);
  ~ReplayRegion();
  ReplayRegion(const ReplayRegion&) = delete;
  ReplayRegion& operator=(const ReplayRegion&) = delete;

  void call(const Values& arguments, Values& outputs);   // which whoever calls counts
  std::string info() const;   // JSON: streams, launches, recordings, operators that ran at once, fallbacks
  std::string text() const;   // the tree of streams, a line for each operator

  // For hosts that run the program themselves: operators of this thread are deferred from the scope's beginning until
  // `finish`. Without `finish` (an exception of the program's own) the destructor ends the last segment, whose errors are
  // then dropped.
  class ESCAPEMENT_API Scope {
   public:
    explicit Scope(ReplayRegion& region, bool counts = true);   // as one of Stat::calls
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    void finish();

   private:
    void restore();
    ReplayRegion& region_;
    std::unique_ptr<ReplayCall> call_;   // null: part of an outer call or recording
    ReplayCall* outer_ = nullptr;
    bool included_before_ = false, excluded_before_ = false;
  };

 private:
  friend class ReplayCall;
  const std::string name_;
  const Forward forward_;
  const Options options_;
  std::unique_ptr<StreamTree> tree_;
  struct Pool;
  std::unique_ptr<Pool> pool_;         // of calls, with the memory that they have got
};

}  // namespace escapement
