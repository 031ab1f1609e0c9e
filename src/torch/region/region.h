// Region: one captured program and the versions compiled for it. Each call goes one of four ways (region.cpp: `answer`): the first version that
// fits; recording, where none does and the budget allows it; replay mode, where that is asked for; the program itself, counted under a Reason,
// which is also what is left whenever something of ours fails. A call that its version leaves at an exit goes on from there (region_exits.cpp).
//
// Thread safe: any number of threads may call. One records at a time; a call that would record meanwhile runs the program itself, counted
// under not_ready. Which version runs is a function of the arguments alone (version.h).
//
// A server decides with `on_miss` what becomes of calls that no version fits, hears of events through a listener, and takes versions from
// a package (`restore`) or from a region with other weights (`take_over`).
#pragma once

#include <atomic>
#include <climits>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "escapement/export.h"
#include "jit/run/object_code.h"
#include "support/error.h"
#include "support/fork.h"
#include "support/options.h"
#include "torch/record/flow.h"
#include "torch/record/recorder.h"
#include "torch/region/build_threads.h"
#include "torch/region/hooks.h"
#include "torch/region/journal.h"
#include "torch/region/recording_budget.h"
#include "torch/region/symbol_binder.h"
#include "torch/region/trace_tree.h"
#include "torch/region/version.h"
#include "torch/region/version_maker.h"
#include "torch/region/wasted_runs.h"

namespace escapement {

// Thrown where `on_miss` is refuse: the call fits no version. The text says what missed.
class WouldCompile : public UserError {
 public:
  using UserError::UserError;
};

class ReplayRegion;

class ESCAPEMENT_API Region : public Body {
 public:
  using Values = Body::Values;
  // Runs the program on tensors, SymInts and other values; appends its outputs.
  using Forward = std::function<void(const Values& arguments, Values& outputs)>;

  Region(std::string name, Forward forward, std::vector<InputSpec> inputs, Options options);
  ~Region() override;

  // --- before the first call
  Hooks& hooks() { return hooks_; }
  // The program is host code, which may ask for what nobody notices (asked_kinds.h).
  void host_may_ask() { host_may_ask_ = true; }
  // Calls that fit no version, and come after `max_recordings` or after so many recordings of one form, go on in replay mode
  // (replay_mode/) instead of eagerly.
  void replay_after_budget(int recordings_of_a_form = INT_MAX);
  void keep_traces();            // else versions().kept() is empty
  // A random generator that the program may draw from, besides torch's own. Others are got to know by a recording that is refused.
  void know(const at::Generator& generator);

  // --- calls
  void call(const Values& arguments, Values& outputs) override { answer(arguments, outputs); }
  // The same, and how the call was answered. `offers`: see Program::run; used by versions only.
  struct Answer {
    enum class How : uint8_t { version, recording, eager, replay } how = How::version;
    Reason why = Reason::not_ready;            // eager only
  };
  Answer answer(const Values& arguments, Values& outputs, std::span<const at::Tensor> offers = {});
  void call_eagerly(const Values& arguments, Values& outputs, Reason why);   // whatever versions there are
  // As `call`, if a version fits; else nothing happens, but that outputs may have grown, and the answer is no. It is also no where the call
  // has come to an exit behind which it cannot go on: then this thread's next `answer` of this region, which must be the same call, goes on
  // from there.
  bool serve(const Values& arguments, Values& outputs);
  bool serve(std::span<const Argument> arguments, Values& outputs);
  // Whether `serve` has begun a call of some region on this thread that must be gone on with.
  static bool has_begun_a_call();
  // Whether a call that `serve` has begun was not gone on with. It is forgotten.
  static bool lost_a_call();

  // --- as the body of another program's higher-order operator
  std::optional<BodyEffects> effects() const override;
  std::vector<std::vector<Dim>> output_sizes(DimTable& dims, std::span<const std::vector<Dim>> arguments) const override;

  // --- what there is
  const VersionList& versions() const { return versions_; }
  std::string info() const;      // JSON: versions, kernels, calls, guards, symbols, timings, fallbacks

  // --- for servers
  enum class OnMiss : uint8_t { record, run_eagerly, refuse };
  void on_miss(OnMiss what) { on_miss_.store(what, std::memory_order_relaxed); }
  // A version from a recording made elsewhere, for calls on its ground. Throws InternalError or UserError where it is none; nothing has changed then.
  void restore(Recording recording, const ObjectCode* objects);
  // All versions of `other`, which is a region of the same program, each bound to what `replaced` gives for its captured tensors. To be
  // called before the first call.
  void take_over(const Region& other, const std::function<at::Tensor(const at::Tensor&)>& replaced);

 private:
  using Turn = RecordingBudget::Turn;
  struct Way;        // what becomes of a call
  struct Recorded;   // a recording, and what else its version is made of
  enum class Found : uint8_t { version, none, gradient, refused, device_failed, departed };

  // --- which way
  Way way_of(const Values& arguments, Values& outputs, std::span<const at::Tensor> offers);
  Way way_of_miss(const Values& arguments, const VersionList::List& tried);
  bool goes_on(Reason why) const;   // calls that cannot be recorded for that reason are replayed, not run eagerly
  // --- a version. `departed`: where the call is, if it is `departed`.
  Found run_version(std::span<const Argument> arguments, Values& outputs, std::span<const at::Tensor> offers, Departed& departed);
  Found run_program(const Version& version, std::span<const Argument> arguments, Values& outputs, std::span<const at::Tensor> offers, Departed& departed);
  void note_wasted(int runs);
  // --- the program itself
  Answer run_eagerly(const Values& arguments, Values& outputs, Reason why);
  Answer run_refused(const Values& arguments, Values& outputs);
  Answer run_replaying(const Values& arguments, Values& outputs, Reason why);
  ReplayRegion& replay_region();
  // --- recording
  Answer record(const Values& arguments, Values& outputs, std::shared_ptr<Turn> turn);
  Recording run_recorded(Recorder& recorder, Values wrapped, Values& outputs, bool exits_everywhere);
  void write_locations(Recording& recording) const;
  bool is_kept(const Recorder& recorder) const;
  void keep(Recorded recorded, const Values& arguments);
  std::optional<Reason> refusal_of(const Recording& recording) const;
  void start_build(Recorded recorded);
  void build(Recorded recorded);
  void note_refusal(const std::string& form, const Recording& recording);
  void note_unpublished(const std::string& form, Reason why, const std::string& detail);
  void note_failure(Reason why, const std::string& detail) { journal_.note_failure(why, detail, goes_on(why)); }
  void note_effects(const Recording& recording);
  // --- going on from an exit, and what is recorded there (region_exits.cpp)
  void leave(Departed departed);
  bool take_left(Departed& departed);
  Answer go_on_from(Departed departed, const Values& arguments, Values& outputs);
  std::shared_ptr<Turn> take_side_turn();
  void start_hang(Recording recording, const Departed& departed, const std::string& form, std::shared_ptr<Turn> turn);
  void hang(const Recording& recording, const Departed& departed, const std::string& form);
  void note_not_hung(const Departed& departed, const std::string& form, Reason why, const std::string& detail);

  const std::string name_;
  const Forward forward_;
  const std::vector<InputSpec> inputs_;
  const Options options_;
  Hooks hooks_;
  bool host_may_ask_ = false, replays_ = false;
  std::atomic<OnMiss> on_miss_{OnMiss::record};

  VersionList versions_;
  ForcedExits forced_exits_;
  WastedRuns wasted_;
  RecordingBudget budget_;
  Journal journal_;
  VersionMaker maker_;
  mutable ForkMutex mutex_;                           // of these two:
  std::unique_ptr<ReplayRegion> replay_;              // from the first call that goes there
  std::optional<BodyEffects> effects_;                // of all recordings
  BuildThreads threads_;                              // the last member: they use the others
};

}  // namespace escapement
