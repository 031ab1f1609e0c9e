// The one place where a recording becomes a version, or a side trace of one: compiled, held against what a version must not do, and bound. A version
// that could come upon a check behind an effect is none, since it could neither go on nor start again; where the program may notice an error that comes
// later than eager's, one that could raise behind an effect is none either.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "jit/run/object_code.h"
#include "support/options.h"
#include "torch/region/hooks.h"
#include "torch/region/journal.h"
#include "torch/region/version.h"

namespace escapement {

class VersionMaker {
 public:
  VersionMaker(const Options& options, const Hooks& hooks, const Journal& journal) : options_(options), hooks_(hooks), journal_(journal) {}
  void keep_traces() { keep_traces_ = true; }
  bool keeps_traces() const { return keep_traces_; }

  // Null: it may not be replayed. InternalError: nor may another of its kind. `objects`: see compile(); not asked for where there are exits.
  std::shared_ptr<const Version> make(Recording recording, Pinned pinned, double record_milliseconds, const ObjectCode* objects = nullptr) const;
  // What goes on from an exit as the recording did, which met it. InternalError where there is no such thing.
  std::shared_ptr<const SideTrace> make_side(const Recording& recording, const ExitNode& from) const;
  // The same version for other tensors, of the same dtypes and sizes. It has no exits: its side traces would name the tensors of their own recordings.
  std::shared_ptr<const Version> rebind(const Version& version, const std::function<at::Tensor(const at::Tensor&)>& replaced) const;

 private:
  // `milliseconds` grow by what compiling took.
  std::shared_ptr<const Version> make_whole(Recording recording, Origin origin, const ObjectCode* objects, double& milliseconds) const;
  std::shared_ptr<const Version> make_tree(const Recording& recording, Origin origin, double& milliseconds) const;
  std::shared_ptr<const SideTrace> make_side(const Recording& recording, const ExitNode& from, double& milliseconds) const;
  std::unique_ptr<ExitNode> make_exit(const Recording& recording, size_t number, std::span<const at::Tensor> captured, double& milliseconds) const;
  Options options_for(const Recording& recording) const;
  std::shared_ptr<const Compiled> code_for(const Trace& trace, const Recording& recording, const ObjectCode* objects, double& milliseconds) const;
  void refuse_late_errors(const LaunchPlan& plan, bool acted) const;

  const Options& options_;
  const Hooks& hooks_;
  const Journal& journal_;
  bool keep_traces_ = false;
};

}  // namespace escapement
