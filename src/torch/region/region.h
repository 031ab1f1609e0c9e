// Region: one captured program and the versions compiled for it. The first call runs under the recorder and is the recording;
// later calls run the first version that fits. A call that fits none is recorded too, up to Options::max_recordings; after that, and
// whenever something of ours fails, the program itself runs eagerly, counted under a Reason.
//
// Thread safe: any number of threads may call. One records at a time; a call that would record meanwhile runs the program itself, counted
// under not_ready. Which version runs is a function of the arguments alone: versions are tried in the
// order in which they were made, and a version's entry checks decide.
//
// A server decides with `on_miss` what becomes of calls that no version fits, hears of events through a listener, and takes versions from
// a package (`restore`) or from a region with other weights (`take_over`).
#pragma once

#include <atomic>
#include <climits>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "escapement/export.h"
#include "jit/run/object_code.h"
#include "support/error.h"
#include "support/options.h"
#include "support/size_spec.h"
#include "torch/record/flow.h"
#include "torch/program/program.h"
#include "torch/record/recorder.h"
#include "torch/program/program_info.h"

namespace escapement {

struct InputSpec {
  enum class Kind : uint8_t { tensor, integer, other } kind = Kind::tensor;
  std::string name;
  std::vector<SizeSpec> sizes;   // tensor: one per dim, or empty (all unknown: a new symbol each)
  SizeSpec size;                 // integer: which symbol it binds, or what it equals
  bool parameter = false;
};

// Thrown where `on_miss` is refuse: the call fits no version. The text says what missed.
class WouldCompile : public UserError {
 public:
  using UserError::UserError;
};

class Json;
class ReplayRegion;
struct Departure;

class ESCAPEMENT_API Region : public Body {
 public:
  using Values = Body::Values;
  // Runs the program on tensors, SymInts and other values; appends its outputs.
  using Forward = std::function<void(const Values& arguments, Values& outputs)>;

  Region(std::string name, Forward forward, std::vector<InputSpec> inputs, Options options);
  ~Region() override;

  void set_location_hook(std::function<int()> hook, std::function<std::string(int)> text);
  // Asked after each recording, with the tensors that it found by itself: why it must not be kept, if so.
  using Accept = std::function<std::optional<Reason>(std::span<const at::Tensor> captured)>;
  void set_accept_hook(Accept accept) { accept_ = std::move(accept); }
  // Asked after each recording: may a version end with an error behind something that its caller can see? The program may do there what no
  // version knows of.
  void set_late_errors_hook(std::function<bool()> allowed) { late_errors_ = std::move(allowed); }
  // Asked when somebody seems to keep what the program made while it was recorded: let go of what nobody can reach, a little or `everything`.
  void set_let_go_hook(std::function<void(bool everything)> let_go) { let_go_ = std::move(let_go); }
  // The program is host code, which may ask for what nobody notices (asked_kinds.h). Before the first call.
  void host_may_ask() { host_may_ask_ = true; }
  // A random generator that the program may draw from, besides torch's own. Others are got to know by a recording that is refused.
  void know(const at::Generator& generator);
  void call(const Values& arguments, Values& outputs) override { answer(arguments, outputs); }
  // The same, and how the call was answered. `offers`: see Program::run; used by versions only.
  struct Answer {
    enum class How : uint8_t { version, recording, eager, replay } how = How::version;
    Reason why = Reason::not_ready;            // eager only
  };
  Answer answer(const Values& arguments, Values& outputs, std::span<const at::Tensor> offers = {});
  // Calls that fit no version, and come after `max_recordings` or after so many recordings of one form, go on in replay mode
  // (replay_mode/) instead of eagerly. Before the first call.
  void replay_after_budget(int recordings_of_a_form = INT_MAX);
  // As `call`, if a version fits; else nothing happens, but that outputs may have grown, and the answer is no. It is also no where the call
  // has come to an exit behind which it cannot go on: then this thread's next `answer` of this region, which must be the same call, goes on
  // from there.
  bool serve(const Values& arguments, Values& outputs);
  bool serve(std::span<const Argument> arguments, Values& outputs);
  // Whether a call that `serve` has begun was not gone on with. It is forgotten.
  static bool lost_a_call();
  // What a program may look at without a guard: calls of one form go one way, until a size or a value is looked at.
  static std::string form_of(const Values& arguments);
  // The program itself, counted under `why`.
  Answer run_eagerly(const Values& arguments, Values& outputs, Reason why);
  // As the body of another program's higher-order operator.
  std::optional<BodyEffects> effects() const override;
  std::vector<std::vector<Dim>> output_sizes(DimTable& dims, std::span<const std::vector<Dim>> arguments) const override;
  std::string info() const;      // JSON: versions, kernels, calls, guards, symbols, timings, fallbacks
  std::vector<Escape> escapes() const;  // of all versions, in order

  // --- for servers
  enum class OnMiss : uint8_t { record, run_eagerly, refuse };
  void on_miss(OnMiss what) { on_miss_.store(what, std::memory_order_relaxed); }
  struct Event {
    enum class Kind : uint8_t { recorded, compiled, not_compiled } kind;
    double milliseconds = 0;
    std::string text;
  };
  // Called on the thread where it happens, no lock held; must not throw. Set before the first call.
  void set_listener(std::function<void(const Event&)> listener) { listener_ = std::move(listener); }
  void keep_traces() { keep_traces_ = true; }  // before the first call: else `kept` is empty
  // The generic trace of a version, what it is bound to, and the process that it is for.
  struct Kept {
    std::shared_ptr<const Trace> trace;
    std::shared_ptr<const Compiled> compiled;
    std::vector<at::Tensor> captured;
    Ground ground;
  };
  std::vector<Kept> kept() const;              // without versions that hold host objects or pinned numbers
  int64_t hits() const;   // calls that versions have answered
  size_t version_count() const { return versions_.load(std::memory_order_acquire)->size(); }
  // A version from a recording made elsewhere, for calls on its ground. Throws InternalError or UserError where it is none; nothing has changed then.
  void restore(Recording recording, const ObjectCode* objects);
  // All versions of `other`, which is a region of the same program, each bound to what `replaced` gives for its captured tensors. To be
  // called before the first call.
  void take_over(const Region& other, const std::function<at::Tensor(const at::Tensor&)>& replaced);
  void make_all_code() const;                  // every variant of every kernel, and the guards: nothing is left for the first need
  struct Fit {
    bool fits = false;
    std::string miss;                          // of the newest version, if none fits
    Program::Memory memory;
  };
  Fit fit(const Values& arguments) const;      // reads metadata only, no data

 private:
  struct Version;
  struct Build;
  struct SideTrace;
  struct ExitNode;
  struct Departed;
  struct Left;
  class Turn;
  using Versions = std::vector<std::shared_ptr<const Version>>;
  // Arguments by position that are numbers or truth values without a symbol: the trace holds what was seen.
  using Pinned = std::vector<std::pair<size_t, Argument>>;
  // Kinds of calls whose recording was refused: recording them again would end in the same way.
  struct Refused {
    Reason why;
    bool again = false;   // another one may end otherwise
  };

  enum class Found : uint8_t { version, none, gradient, refused, device_failed, departed };
  // `departed`: where the call is, if it is `departed`.
  Found run_version(std::span<const Argument> arguments, Values& outputs, std::span<const at::Tensor> offers, Departed& departed);
  Found run_program(const Version& version, std::span<const Argument> arguments, Values& outputs, std::span<const at::Tensor> offers, Departed& departed);
  void note_wasted(int runs);
  int retire_checked();
  Answer run_refused(const Values& arguments, Values& outputs);
  Answer missed(const Values& arguments, Values& outputs, const Versions* seen);
  [[noreturn]] void refuse(const Values& arguments) const;
  ProgramOptions program_options() const;
  static Target target_of(const Recording& recording);
  std::shared_ptr<const Version> make_version(Recording recording, Pinned pinned, double record_milliseconds, const ObjectCode* objects);
  // --- trace_tree.cpp
  std::shared_ptr<const Version> make_tree(Recording recording, Pinned pinned, double record_milliseconds);
  std::unique_ptr<ExitNode> make_exit(const Recording& recording, size_t number, std::span<const at::Tensor> captured) const;
  std::shared_ptr<const SideTrace> make_side(const Recording& recording, const ExitNode& from) const;
  static void refuse_other_mode(const Recording& recording, const ExitNode& from, bool ends);
  static bool wants_tape_behind(const ExitNode& node);
  void refuse_late(const LaunchPlan& plan) const;
  static const SideTrace* run_side(const ExitNode& exit, std::span<const Argument> arguments, const Values& live, Values& outputs);
  bool follow(std::span<const Argument> arguments, Departed& departed, Values& outputs) const;
  Departure departure(const Departed& departed, std::span<const Argument> arguments) const;
  static std::optional<Left>& left();
  bool take_left(Departed& departed);
  Answer go_on_from(Departed departed, const Values& arguments, Values& outputs);
  std::shared_ptr<Turn> take_side_turn();
  void start_hang(Recording recording, const Departed& departed, const std::string& form, std::shared_ptr<Turn> turn);
  void hang(const Recording& recording, const Departed& departed, const std::string& form);
  static void append_escapes_behind(std::vector<Escape>& found, const ExitNode& node);
  void write_exits(Json& json, const ExitNode& node) const;

  void tell(Event::Kind kind, double milliseconds, std::string text) const;
  void note_miss(const Values& arguments);
  // `seen`: the versions that the call did not fit. Null: refused says why.
  std::shared_ptr<Turn> take_turn(const Values& arguments, const Versions* seen, Reason& refused);
  Answer record(const Values& arguments, Values& outputs, std::shared_ptr<Turn> turn);
  std::vector<at::Generator> known_generators() const;
  std::set<size_t> decided() const;
  void note_generator(const at::Generator& generator);  // under the lock
  Values wrapped(Recorder& recorder, const Values& arguments) const;
  Recording run_recorded(Recorder& recorder, Values wrapped, Values& outputs, bool exits_everywhere);
  bool is_kept(const Recorder& recorder) const;
  void keep(Recording recording, const std::string& form, const Values& arguments, std::shared_ptr<Turn> turn, double milliseconds);
  void start_build(Recording recording, const std::string& form, Pinned pinned, double milliseconds, std::shared_ptr<Turn> turn);
  void note_effects(const Recording& recording);
  void build(Recording recording, const std::string& form, Pinned pinned, double record_milliseconds);
  void note_unpublished(const std::string& form, Reason why, const std::string& detail);
  static Pinned pinned_values(const Values& arguments);
  static void compile_guards(const Versions& versions, const Version& hot);
  static std::string why_missed(const Version& version, const Values& arguments);
  static bool kinds_hold(std::span<const ArgumentKind> kinds, std::span<const Argument> arguments);
  static bool pinned_hold(const Pinned& pinned, std::span<const Argument> arguments);
  void note_refusal(const std::string& form, const Recording& recording);
  void publish(std::shared_ptr<const Version> version);
  bool goes_on(Reason why) const;   // calls that cannot be recorded for that reason are replayed, not run eagerly
  Answer go_on_replaying(const Values& arguments, Values& outputs, Reason why);
  void count_failure(Reason why, const std::string& detail);
  void note_failure(Reason why, const std::string& detail);

  const std::string name_;
  const Forward forward_;
  const std::vector<InputSpec> inputs_;
  const Options options_;
  std::optional<int> recordings_of_a_form_;           // then replay mode
  std::function<int()> location_;
  std::function<std::string(int)> location_text_;
  Accept accept_;
  std::function<void(bool)> let_go_;
  std::function<bool()> late_errors_;
  std::function<void(const Event&)> listener_;
  bool keep_traces_ = false, host_may_ask_ = false;
  std::atomic<OnMiss> on_miss_{OnMiss::record};

  std::atomic<int> wasted_{0};                        // runs of versions that ended at a failed check
  std::atomic<bool> exits_everywhere_{false};         // of recordings to come: too many were
  int64_t hits_before_ = 0;                           // when they were last counted
  int fruitless_ = 0;                                 // times that hardly any call found its values again
  bool goes_many_ways_ = false;                       // exits everywhere did not end it
  mutable std::atomic<int64_t> exits_met_{0};         // counted where Options::force_exits asks for it
  mutable std::mutex mutex_;
  std::atomic<const Versions*> versions_;             // the last of:
  std::vector<std::unique_ptr<const Versions>> all_versions_;  // a list that is being walked stays; there are few
  std::map<Reason, int64_t> fallbacks_;
  std::map<std::string, Refused> refused_;            // by form_of the call
  std::vector<at::Generator> generators_;             // that recordings drew from
  std::set<size_t> decided_;                          // Recording::decided
  std::map<std::string, int> spent_;                  // recordings by form, if they are limited
  std::unique_ptr<ReplayRegion> replay_;              // from the first call beyond the limits
  std::vector<std::string> misses_;
  std::optional<BodyEffects> effects_;                // of all recordings
  int recordings_ = 0, given_back_ = 0;               // of versions that were retired for exits everywhere
  bool busy_ = false;                                 // somebody records, or code is being made in the background
  int busy_in_ = 0;                                   // the process, by its forks()
  bool warned_ = false;
  std::shared_ptr<Build> build_;
};

}  // namespace escapement
