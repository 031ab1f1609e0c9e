// See region.h.
#include "torch/region/region.h"

#include <algorithm>
#include <cstdlib>

#include "support/error.h"
#include "support/events.h"
#include "support/json.h"
#include "support/stopwatch.h"
#include "torch/program/program_info.h"
#include "torch/record/flow.h"
#include "torch/record/gradient_mirror.h"
#include "torch/record/random_mask.h"
#include "torch/record/random_state.h"
#include "torch/record/recorder_fallback.h"
#include "torch/record/recorder_tape.h"
#include "torch/region/call_arguments.h"
#include "torch/region/call_device.h"
#include "torch/replay_mode/replay_region.h"

namespace escapement {
namespace {

// Neither a tape nor a tangent is at a tensor without autograd's record, which is nearly every one without gradients.
bool has_record(const Argument& one) { return one.tensor && one.tensor->unsafeGetTensorImpl()->autograd_meta() != nullptr; }

// Compiled code carries no derivatives forward either, whether gradients are on or not.
[[gnu::noinline, gnu::cold]] bool records_ask_for_derivatives(std::span<const Argument> arguments) {
  return wants_tape(arguments) || std::any_of(arguments.begin(), arguments.end(), [](const Argument& one) { return has_record(one) && has_tangent(*one.tensor); });
}

bool wants_derivatives(std::span<const Argument> arguments) {
  for (const Argument& one : arguments) {
    if (has_record(one)) return records_ask_for_derivatives(arguments);
  }
  return false;
}

// Nobody notices whether a program asks for it.
void note_inference(Recording& recording, const Region::Values& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isTensor()) continue;
    using Question = ArgumentKind::Question;
    recording.kinds.push_back({static_cast<uint32_t>(i), Question::inference, ArgumentKind::is(Question::inference, arguments[i].toTensor())});
  }
}

}  // namespace

Region::Region(std::string name, Forward forward, std::vector<InputSpec> inputs, Options options)
    : name_(std::move(name)), forward_(std::move(forward)), inputs_(std::move(inputs)), options_(std::move(options)),
      forced_exits_(options_.force_exits), wasted_(options_.force_exits > 0), budget_(options_.max_recordings), journal_(name_, options_.strict, hooks_),
      maker_(options_, hooks_, journal_) {
  install_recorder();
  install_flow();
  install_random_state();
  install_random_mask();
}

Region::~Region() = default;

void Region::replay_after_budget(int recordings_of_a_form) {
  replays_ = true;
  budget_.limit_forms(recordings_of_a_form);
}

void Region::keep_traces() { maker_.keep_traces(); }

void Region::know(const at::Generator& generator) { budget_.know(generator); }

// --- which way

// A call that a version has answered is over; of all others nothing has happened that anybody could see, or they are at an exit.
struct Region::Way {
  enum class To : uint8_t { over, exit, recording, replay, eager, error } to = To::over;
  Reason why = Reason::not_ready;       // replay, eager
  Departed departed = {};               // exit
  std::shared_ptr<Turn> turn = {};      // recording
};

Region::Answer Region::answer(const Values& arguments, Values& outputs, std::span<const at::Tensor> offers) {
  const ListenerPause pause;
  count(Stat::calls);
  Way way = way_of(arguments, outputs, offers);
  switch (way.to) {
    case Way::To::over: return {};
    case Way::To::exit: return go_on_from(std::move(way.departed), arguments, outputs);
    case Way::To::recording: return record(arguments, outputs, std::move(way.turn));
    case Way::To::replay: return run_replaying(arguments, outputs, way.why);
    case Way::To::eager: return run_eagerly(arguments, outputs, way.why);
    case Way::To::error: return run_refused(arguments, outputs);
  }
  return {};
}

Region::Way Region::way_of(const Values& arguments, Values& outputs, std::span<const at::Tensor> offers) {
  using To = Way::To;
  Way way;
  if (take_left(way.departed)) {
    way.to = To::exit;
    return way;
  }
  if (options_.disable) return {To::eager, Reason::disabled};
  const ArgumentList list(arguments);
  if (wants_derivatives(list.span())) return {To::eager, Reason::gradient};
  const VersionList::List& tried = versions_.all();
  switch (run_version(list.span(), outputs, offers, way.departed)) {
    case Found::version: break;
    case Found::departed: way.to = To::exit; break;
    case Found::gradient: return {To::eager, Reason::gradient};
    case Found::refused: way.to = To::error; break;
    case Found::device_failed: return {To::eager, Reason::device_failed};
    case Found::none: return way_of_miss(arguments, tried);
  }
  return way;
}

Region::Way Region::way_of_miss(const Values& arguments, const VersionList::List& tried) {
  using To = Way::To;
  if (versions_.size() > 0) journal_.note_miss([&] { return versions_.why_missed(arguments); });
  switch (on_miss_.load(std::memory_order_relaxed)) {
    case OnMiss::refuse: count(Reason::serve_only); throw WouldCompile(versions_.why_missed(arguments));
    case OnMiss::run_eagerly: return {To::eager, Reason::serve_only};
    case OnMiss::record: break;
  }
  Reason refused = Reason::not_ready;
  if (auto turn = budget_.take(arguments, [&] { return &versions_.all() != &tried; }, refused)) return {To::recording, refused, {}, std::move(turn)};
  return {goes_on(refused) && !lies_on_device(arguments) ? To::replay : To::eager, refused};
}

// Where the host's own memory is read at each call, replay mode reads it in time; what it changes of torch's state, it changes; what it looks at,
// it looks at. What a replayed program may not be asked (docs/jit.md) ends no recording for these reasons, so all others run eagerly.
bool Region::goes_on(Reason why) const {
  constexpr Reason kReplayable[] = {Reason::too_many_recordings, Reason::budget_used,          Reason::made_unseen, Reason::result_read,
                                    Reason::state_changed,       Reason::data_dependent_guard, Reason::too_many_exits};
  return replays_ && std::find(std::begin(kReplayable), std::end(kReplayable), why) != std::end(kReplayable);
}

// --- a version

Region::Found Region::run_version(std::span<const Argument> arguments, Values& outputs, std::span<const at::Tensor> offers, Departed& departed) {
  const VersionList::List& versions = versions_.all();
  const Ground ground = Ground::now();
  int wasted = 0;
  for (const auto& version : versions) {
    if (!version->fits(ground, arguments) || version->retired.load(std::memory_order_relaxed)) continue;
    if (wants_tape(version->program.captured())) return Found::gradient;
    if (version->exit && at::GradMode::is_enabled() && version->exit->wants_tape()) return Found::gradient;
    const Found found = run_program(*version, arguments, outputs, offers, departed);
    if (found == Found::none) {   // a check inside failed
      ++wasted;
      continue;
    }
    if (wasted > 0) [[unlikely]] note_wasted(wasted);
    if (found == Found::version) VersionList::count_hit(versions, *version);
    return found;
  }
  if (wasted > 0) note_wasted(wasted);
  return Found::none;
}

// Packages hold no exits; and where nothing is recorded, all that there is stays.
void Region::note_wasted(int runs) {
  using Verdict = WastedRuns::Verdict;
  if (maker_.keeps_traces() || on_miss_.load(std::memory_order_relaxed) != OnMiss::record) return;
  const Verdict verdict = wasted_.note(runs, versions_);
  if (verdict == Verdict::go_on) return;
  const int retired = versions_.retire_checked();
  if (verdict == Verdict::share) budget_.give_back(retired);
  if (verdict == Verdict::too_many_ways) budget_.close(Reason::too_many_exits);
}

Region::Found Region::run_program(const Version& version, std::span<const Argument> arguments, Values& outputs, std::span<const at::Tensor> offers,
                                  Departed& departed) {
  Values& handed = version.exit ? departed.live : outputs;
  const Program::Outcome outcome = version.program.run(arguments, handed, version.exit ? std::span<const at::Tensor>() : offers);
  if (outcome != Program::Outcome::done) {
    handed.clear();
    count(Stat::exits);
    if (outcome == Program::Outcome::refused_clean) return Found::refused;
    if (outcome == Program::Outcome::device_failed) return Found::device_failed;
    // A version whose checks could fail after an effect is never published (version_maker.h).
    ESCAPEMENT_CHECK(outcome == Program::Outcome::check_failed_clean, "a check failed after an effect");
    return Found::none;
  }
  if (version.exit) {
    departed.version = &version;
    departed.exit = version.exit.get();
    if (!departed.follow(arguments, outputs, forced_exits_)) return Found::departed;
  }
  count(Stat::hits);
  return Found::version;
}

bool Region::serve(const Values& arguments, Values& outputs) { return serve(ArgumentList(arguments).span(), outputs); }

bool Region::serve(std::span<const Argument> arguments, Values& outputs) {
  const ListenerPause pause;
  if (options_.disable || wants_derivatives(arguments)) return false;
  Departed departed;
  const Found found = run_version(arguments, outputs, {}, departed);
  if (found == Found::departed) leave(std::move(departed));
  if (found == Found::device_failed) count(Reason::device_failed);   // `answer` tries once more
  if (found != Found::version) return false;
  count(Stat::calls);
  return true;
}

// --- the program itself

void Region::call_eagerly(const Values& arguments, Values& outputs, Reason why) {
  const ListenerPause pause;
  count(Stat::calls);
  run_eagerly(arguments, outputs, why);
}

Region::Answer Region::run_eagerly(const Values& arguments, Values& outputs, Reason why) {
  journal_.note_eager(why);
  forward_(arguments, outputs);
  return {Answer::How::eager, why};
}

// An operator of a version refused what it was given, before anything had happened: the program itself says so in its own way, and as far as
// it gets.
Region::Answer Region::run_refused(const Values& arguments, Values& outputs) {
  forward_(arguments, outputs);
  count(Reason::caught_exception);
  return {Answer::How::eager, Reason::caught_exception};
}

// Made outside of the lock, which a fork may want (support/fork.h).
ReplayRegion& Region::replay_region() {
  {
    const std::lock_guard lock(mutex_);
    if (replay_) return *replay_;
  }
  auto made = std::make_unique<ReplayRegion>(name_, forward_, options_);
  const std::lock_guard lock(mutex_);
  if (!replay_) replay_ = std::move(made);
  return *replay_;
}

Region::Answer Region::run_replaying(const Values& arguments, Values& outputs, Reason why) {
  journal_.note_fallback(why);
  replay_region().call(arguments, outputs);
  return {Answer::How::replay, why};
}

// --- recording

struct Region::Recorded {
  Recording recording;
  std::string form;
  double milliseconds = 0;
  std::shared_ptr<Turn> turn;
  Pinned pinned = {};
};

Region::Answer Region::record(const Values& arguments, Values& outputs, std::shared_ptr<Turn> turn) {
  for (const c10::IValue& value : arguments)
    if (value.isGenerator()) know(value.toGenerator());
  const CallDevice home = device_of_call(arguments);
  if (home.refused) {
    turn.reset();
    log_event("fallback", name_ + ": " + std::string(reason_name(*home.refused)) + " " + home.detail);
    return run_eagerly(arguments, outputs, *home.refused);
  }
  const Stopwatch watch;
  std::optional<Recorder> recorder;
  Values given;
  try {
    recorder.emplace(name_, home.device);
    given = SymbolBinder(*recorder, inputs_).wrapped(arguments);
  } catch (const UserError&) {
    throw;  // what was said of the sizes does not hold
  } catch (const std::exception& error) {  // nothing has run yet
    recorder.reset();
    turn.reset();
    log_event("fallback", error.what());
    return run_eagerly(arguments, outputs, Reason::internal_error);
  }
  const std::string form = form_of(arguments);   // the program may leave other modes than it found
  Recording recording = run_recorded(*recorder, std::move(given), outputs, wasted_.exits_everywhere());
  turn->recorded = true;
  try {
    keep({std::move(recording), form, watch.milliseconds(), std::move(turn)}, arguments);
  } catch (const UserError&) {
    throw;  // `strict`
  } catch (const std::exception& error) {
    note_failure(Reason::internal_error, error.what());
  }
  return {Answer::How::recording, {}};
}

Recording Region::run_recorded(Recorder& recorder, Values wrapped, Values& outputs, bool exits_everywhere) {
  if (hooks_.location) recorder.set_location_hook(hooks_.location);
  recorder.tape()->choices.decide_at(budget_.decided());
  recorder.enter(budget_.generators(), exits_everywhere);
  forward_(wrapped, outputs);  // an exception of the program's own passes through; ~Recorder restores the thread
  recorder.leave();
  hand_over_requests(*recorder.tape(), wrapped);
  Recording recording = recorder.finish(outputs);
  write_locations(recording);
  wrapped.clear();
  if (host_may_ask_ && !recording.refused && is_kept(recorder)) {
    recording.refused = Reason::state_changed;
    recording.refused_detail = "somebody keeps a tensor or a size that the program made or was given, otherwise than as its result";
  }
  return recording;
}

void Region::write_locations(Recording& recording) const {
  if (!hooks_.location_text) return;
  const auto write_out = [&](Trace& trace) {
    for (std::string& text : trace.locations) text = hooks_.location_text(std::atoi(text.c_str()));
  };
  write_out(recording.trace);
  for (const Exit& exit : recording.exits) write_out(*exit.before);
}

// Wrappers and symbols hold the tape. Whoever has one by now (a list, a cache, a gradient, an attribute that nobody watches) would not get another
// one at later calls.
bool Region::is_kept(const Recorder& recorder) const {
  const auto is_held = [&] { return recorder.tape().use_count() > 1; };
  for (const bool everything : {false, true})
    if (hooks_.let_go && is_held()) hooks_.let_go(everything);
  return is_held();
}

// The call has been answered; what is left decides about later ones.
void Region::keep(Recorded recorded, const Values& arguments) {
  Recording& recording = recorded.recording;
  journal_.tell(RegionEvent::Kind::recorded, recorded.milliseconds, std::to_string(recording.ops) + " operators");
  count(Stat::recordings);
  count(Stat::specialisations, static_cast<int64_t>(recording.specialised.size()));
  recording.refused = refusal_of(recording);
  if (recording.refused == Reason::gradient) recording.trace.guards.clear();  // whichever way it goes
  note_effects(recording);
  if (recording.refused) return note_refusal(recorded.form, recording);
  if (host_may_ask_) note_inference(recording, arguments);
  recorded.pinned = Pinned::of(arguments);
  if (options_.compile == "background") start_build(std::move(recorded));
  else build(std::move(recorded));
}

std::optional<Reason> Region::refusal_of(const Recording& recording) const {
  if (recording.refused) return recording.refused;
  if (wants_tape(std::span<const at::Tensor>(recording.captured))) return Reason::gradient;
  return hooks_.accept ? hooks_.accept(recording.captured) : std::nullopt;
}

void Region::start_build(Recorded recorded) {
  const auto shared = std::make_shared<Recorded>(std::move(recorded));
  threads_.start([this, shared] {
    try {
      build(std::move(*shared));
    } catch (const std::exception&) {  // `strict` has nobody here to tell; the next call raises
    }
  });
}

void Region::build(Recorded recorded) {
  try {
    if (auto version = maker_.make(std::move(recorded.recording), std::move(recorded.pinned), recorded.milliseconds))
      versions_.publish(std::move(version));
    else
      note_unpublished(recorded.form, Reason::data_dependent_guard, "");
  } catch (const InternalError& error) {
    note_unpublished(recorded.form, error.reason, error.what());
  } catch (const std::exception& error) {
    note_failure(Reason::compile_failed, error.what());
  }
}

// Of what the next recording will do better nothing is told yet.
void Region::note_refusal(const std::string& form, const Recording& recording) {
  budget_.note_refusal(form, recording);
  if (recording.learned) journal_.note_setback(*recording.refused, recording.refused_detail);
  else note_failure(*recording.refused, recording.refused_detail);
}

// A check behind an effect is there again at the next recording: the function goes on in replay mode, where it may. So is a kernel that no device takes.
void Region::note_unpublished(const std::string& form, Reason why, const std::string& detail) {
  if (why == Reason::data_dependent_guard || why == Reason::device_kernel) budget_.refuse(form, why);
  note_failure(why, detail);
}

// --- as a body

void Region::note_effects(const Recording& recording) {
  BodyEffects found = recording.refused ? BodyEffects() : effects_of(recording.trace);
  const std::lock_guard lock(mutex_);
  if (effects_) found = {found.writes_arguments || effects_->writes_arguments, found.other || effects_->other};
  effects_ = found;
}

std::optional<BodyEffects> Region::effects() const {
  const std::lock_guard lock(mutex_);
  return effects_;
}

std::vector<std::vector<Dim>> Region::output_sizes(DimTable& dims, std::span<const std::vector<Dim>> arguments) const {
  const VersionList::List& versions = versions_.all();
  if (versions.empty()) return {};
  return translated_sizes(versions.back()->program.compiled()->plan.trace, dims, arguments);
}

// --- reports and servers

std::string Region::info() const {
  Json json;
  json.open_object().field("name", name_).field("recordings", static_cast<int64_t>(budget_.recordings()));
  versions_.write(json);
  journal_.write(json);
  json.close();
  return json.text();
}

void Region::restore(Recording recording, const ObjectCode* objects) {
  note_effects(recording);
  if (auto version = maker_.make(std::move(recording), {}, 0, objects)) {
    versions_.publish(std::move(version));
    count(Stat::package_versions);
  }
}

void Region::take_over(const Region& other, const std::function<at::Tensor(const at::Tensor&)>& replaced) {
  for (const auto& version : other.versions_.all()) {
    if (!version->exit) versions_.publish(maker_.rebind(*version, replaced));
  }
  on_miss(other.on_miss_.load());
  if (on_miss_.load() != OnMiss::record) versions_.make_all_code();  // the guards' code is each version's own
  budget_.take_over(other.budget_);
  journal_.take_over(other.journal_);
  auto effects = other.effects();
  const std::lock_guard lock(mutex_);
  effects_ = effects;
}

}  // namespace escapement
