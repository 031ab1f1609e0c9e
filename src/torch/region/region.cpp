// See region.h.
#include "torch/region/region.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <thread>

#include "support/error.h"
#include "support/events.h"
#include "support/fork.h"
#include "torch/program/cpp_location.h"
#include "torch/record/gradient_mirror.h"
#include "torch/record/recorder_fallback.h"
#include "torch/record/recorder_tape.h"
#include "torch/program/program_info.h"
#include "torch/region/call_device.h"
#include "torch/region/region_version.h"
#include "torch/region/trace_tree.h"
#include "torch/replay_mode/replay_region.h"

namespace escapement {

constexpr size_t kGenerators = 8;   // that a region watches besides torch's own
constexpr int kMostFruitless = 4;   // times that so many runs were wasted while hardly a call was answered
constexpr int kMostWasted = 64;     // runs up to a check that fails, before what they have in common is kept

namespace {

using Clock = std::chrono::steady_clock;
double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

bool same_number(const Argument& a, const Argument& b) { return b.other && a.kind == b.kind && a.integer == b.integer; }

// Compiled code does not build a tape: a tensor that wants one runs eagerly.
template <class Tensors, class Tensor>
bool any_wants_tape(const Tensors& all, const Tensor& tensor) {
  if (!at::GradMode::is_enabled()) return false;
  return std::any_of(all.begin(), all.end(), [&](const auto& one) {
    const at::Tensor* const found = tensor(one);
    return found != nullptr && found->defined() && found->requires_grad();
  });
}

bool wants_tape(std::span<const Argument> arguments) {
  return any_wants_tape(arguments, [](const Argument& argument) { return argument.tensor; });
}

bool wants_tape(std::span<const at::Tensor> tensors) {
  return any_wants_tape(tensors, [](const at::Tensor& tensor) { return &tensor; });
}

// Nobody notices whether a program asks for it.
void note_inference(Recording& recording, const Region::Values& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isTensor()) continue;
    using Question = ArgumentKind::Question;
    recording.kinds.push_back({static_cast<uint32_t>(i), Question::inference, ArgumentKind::is(Question::inference, arguments[i].toTensor())});
  }
}

// Turns SizeSpecs into Dims of one recording. A symbol is made when it is first met, with the value seen there as its hint.
class SymbolBinder {
 public:
  explicit SymbolBinder(Recorder& recorder) : recorder_(recorder) {}

  // Before anything else: symbols that only sizes of tensors bind, so that arithmetic on them may stand in an argument before theirs.
  void bind_sizes(const std::vector<InputSpec>& inputs, const Region::Values& arguments) {
    const auto is_integer = [&](const SizeSpec& symbol) {
      return std::any_of(inputs.begin(), inputs.end(), [&](const InputSpec& input) {
        return input.kind == InputSpec::Kind::integer && is_symbol(input.size) && input.size.number == symbol.number;
      });
    };
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].isTensor() || static_cast<int64_t>(inputs[i].sizes.size()) != arguments[i].toTensor().dim()) continue;
      for (size_t axis = 0; axis < inputs[i].sizes.size(); ++axis) {
        const SizeSpec& spec = inputs[i].sizes[axis];
        if (!is_symbol(spec) || is_integer(spec)) continue;
        const auto at = static_cast<int64_t>(axis);
        size(spec, arguments[i].toTensor().size(at), source(static_cast<uint32_t>(i), at));
      }
    }
  }

  // An integer has a symbol of its own. Where a tensor before it has that symbol as a size, their being equal is a guard.
  Dim integer(const InputSpec& spec, int64_t value) {
    const Dim dim = recorder_.integer(value, spec.name);
    if (!is_symbol(spec.size)) return dim;
    const auto [found, fresh] = symbols_.try_emplace(spec.size.number, dim);
    if (fresh) recorder_.declare(spec.size, dim);
    else if (dims().hint(found->second) == value) recorder_.declare_equal(dim, found->second);
    return dim;
  }

  // One Dim per axis; where nothing is known a new symbol is bound to this very size.
  std::vector<Dim> sizes(const InputSpec& spec, const at::Tensor& tensor, uint32_t position) {
    std::vector<Dim> result;
    for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
      const SizeSpec unknown;
      const bool known = static_cast<int64_t>(spec.sizes.size()) == tensor.dim();
      result.push_back(size(known ? spec.sizes[axis] : unknown, tensor.size(axis), source(position, axis)));
    }
    return result;
  }

 private:
  static bool is_symbol(const SizeSpec& spec) { return spec.kind == SizeSpec::Kind::symbol; }
  static Source source(uint32_t input, int64_t axis) { return {Source::Kind::input_size, input, {}, static_cast<uint32_t>(axis)}; }

  Dim size(const SizeSpec& spec, int64_t seen, const Source& source) {
    if (spec.kind == SizeSpec::Kind::symbol) {
      const auto found = symbols_.find(spec.number);
      if (found != symbols_.end() && dims().hint(found->second) == seen) return found->second;
      const Dim fresh = dims().new_symbol(SymbolKind::size, source, seen);
      if (found == symbols_.end()) {
        symbols_.emplace(spec.number, fresh);
        recorder_.declare(spec, fresh);
      }
      return fresh;
    }
    if (spec.kind == SizeSpec::Kind::constant && spec.number == seen) return dims().constant(seen);
    if (const Dim computed = expression(spec); computed && dims().hint(computed) == seen) return computed;
    return dims().new_symbol(SymbolKind::size, source, seen);  // what the front end said does not hold here
  }

  Dim expression(const SizeSpec& spec) {
    using Kind = SizeSpec::Kind;
    if (spec.kind == Kind::constant) return dims().constant(spec.number);
    if (spec.kind == Kind::symbol) {
      const auto found = symbols_.find(spec.number);
      return found == symbols_.end() ? Dim() : found->second;
    }
    if (spec.kind == Kind::unknown || spec.operands.empty()) return Dim();
    const Dim a = expression(spec.operands[0]);
    if (spec.kind == Kind::neg) return a ? dims().neg(a) : a;
    const Dim b = spec.operands.size() == 2 ? expression(spec.operands[1]) : Dim();
    if (!a || !b) return Dim();
    switch (spec.kind) {
      case Kind::add: return dims().add(a, b);
      case Kind::mul: return dims().mul(a, b);
      case Kind::floordiv: return dims().floordiv(a, b);
      case Kind::mod: return dims().mod(a, b);
      case Kind::min: return dims().min(a, b);
      case Kind::max: return dims().max(a, b);
      default: return Dim();
    }
  }

  DimTable& dims() { return recorder_.dims(); }

  Recorder& recorder_;
  std::map<int64_t, Dim> symbols_;
};

}  // namespace

Region::Region(std::string name, Forward forward, std::vector<InputSpec> inputs, Options options)
    : name_(std::move(name)), forward_(std::move(forward)), inputs_(std::move(inputs)), options_(std::move(options)),
      build_(std::make_shared<Build>()) {
  exits_everywhere_ = options_.force_exits > 0;
  all_versions_.push_back(std::make_unique<const Versions>());
  versions_ = all_versions_.back().get();
  install_recorder();
  install_flow();
}

Region::~Region() {
  for (std::thread& thread : build_->threads) thread.join();
}

void Region::set_location_hook(std::function<int()> hook, std::function<std::string(int)> text) {
  location_ = std::move(hook);
  location_text_ = std::move(text);
}

void Region::replay_after_budget(int recordings_of_a_form) { recordings_of_a_form_ = recordings_of_a_form; }

Region::Answer Region::answer(const Values& arguments, Values& outputs, std::span<const at::Tensor> offers) {
  const ListenerPause pause;
  count(Stat::calls);
  Departed departed;
  if (take_left(departed)) return go_on_from(std::move(departed), arguments, outputs);
  if (options_.disable) return run_eagerly(arguments, outputs, Reason::disabled);
  const ArgumentList list(arguments);
  if (wants_tape(list.span())) return run_eagerly(arguments, outputs, Reason::gradient);
  const Versions* const seen = versions_.load(std::memory_order_acquire);
  switch (run_version(list.span(), outputs, offers, departed)) {
    case Found::version: return {};
    case Found::departed: return go_on_from(std::move(departed), arguments, outputs);
    case Found::gradient: return run_eagerly(arguments, outputs, Reason::gradient);
    case Found::refused: return run_refused(arguments, outputs);
    case Found::device_failed: return run_eagerly(arguments, outputs, Reason::device_failed);
    case Found::none: break;
  }
  return missed(arguments, outputs, seen);
}

// An operator of a version refused what it was given, before anything had happened: the program itself says so in its own way, and as far as
// it gets.
Region::Answer Region::run_refused(const Values& arguments, Values& outputs) {
  forward_(arguments, outputs);
  count(Reason::caught_exception);
  return {Answer::How::eager, Reason::caught_exception};
}

Region::Answer Region::missed(const Values& arguments, Values& outputs, const Versions* seen) {
  note_miss(arguments);
  const OnMiss what = on_miss_.load(std::memory_order_relaxed);
  if (what == OnMiss::refuse) refuse(arguments);
  if (what == OnMiss::run_eagerly) return run_eagerly(arguments, outputs, Reason::serve_only);
  Reason refused = Reason::not_ready;
  if (auto turn = take_turn(arguments, seen, refused)) return record(arguments, outputs, std::move(turn));
  if (goes_on(refused) && !lies_on_device(arguments)) return go_on_replaying(arguments, outputs, refused);
  return run_eagerly(arguments, outputs, refused);
}

// Where the host's own memory is read at each call, replay mode reads it in time; what it changes of torch's state, it changes; what it looks at,
// it looks at. What a replayed program may not be asked (docs/jit.md) ends no recording for these reasons, so all others run eagerly.
bool Region::goes_on(Reason why) const {
  constexpr Reason kReplayable[] = {Reason::too_many_recordings, Reason::budget_used,          Reason::made_unseen, Reason::result_read,
                                    Reason::state_changed,       Reason::data_dependent_guard, Reason::too_many_exits};
  return recordings_of_a_form_ && std::find(std::begin(kReplayable), std::end(kReplayable), why) != std::end(kReplayable);
}

Region::Answer Region::go_on_replaying(const Values& arguments, Values& outputs, Reason why) {
  count(why);
  {
    const std::lock_guard lock(mutex_);
    ++fallbacks_[why];
    if (!replay_) replay_ = std::make_unique<ReplayRegion>(name_, forward_, options_);
  }
  replay_->call(arguments, outputs);
  return {Answer::How::replay, why};
}

std::string Region::form_of(const Values& arguments) {
  std::string text(1, at::GradMode::is_enabled() ? 'g' : 'n');
  for (const c10::IValue& value : arguments) {
    if (!value.isTensor()) {
      text += value.tagKind();
      continue;
    }
    const at::Tensor& tensor = value.toTensor();
    if (!is_plain(tensor)) {  // it may not be asked for its sizes
      text += " other";
      continue;
    }
    text += ' ' + std::to_string(static_cast<int>(tensor.scalar_type())) + ':' + std::to_string(tensor.dim());
    text += tensor.is_contiguous() ? 'c' : 's';
    if (!tensor.is_cpu()) text += '@' + tensor.device().str();
  }
  return text;
}

Region::Pinned Region::pinned_values(const Values& arguments) {
  Pinned found;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isDouble() || arguments[i].isBool()) found.emplace_back(i, ArgumentList::number(arguments[i]));
  }
  return found;
}

bool Region::pinned_hold(const Pinned& pinned, std::span<const Argument> arguments) {
  return std::all_of(pinned.begin(), pinned.end(), [&](const auto& p) { return same_number(p.second, arguments[p.first]); });
}

// Inlined whole: it stands in the way of every call.
[[gnu::flatten]] bool Region::kinds_hold(std::span<const ArgumentKind> kinds, std::span<const Argument> arguments) {
  for (const ArgumentKind& kind : kinds) {
    const at::Tensor& tensor = *arguments.data()[kind.input].tensor;
    const bool inference = kind.question == ArgumentKind::Question::inference;   // of all arguments: without a call
    if (inference ? tensor.is_inference() != kind.answer : !kind.holds(tensor)) [[unlikely]] return false;
  }
  return true;
}

void Region::refuse(const Values& arguments) const {
  count(Reason::serve_only);
  const Versions* const versions = versions_.load(std::memory_order_acquire);
  throw WouldCompile(versions->empty() ? "nothing has been recorded" : why_missed(*versions->back(), arguments));
}

Region::Found Region::run_version(std::span<const Argument> arguments, Values& outputs, std::span<const at::Tensor> offers, Departed& departed) {
  const Versions* const versions = versions_.load(std::memory_order_acquire);
  const Ground ground = Ground::now();
  int wasted = 0;
  for (const auto& version : *versions) {
    if (version->ground != ground || !version->program.fits(arguments) || !pinned_hold(version->pinned, arguments)) continue;
    if (!kinds_hold(version->kinds, arguments)) continue;
    if (version->retired.load(std::memory_order_relaxed)) [[unlikely]] continue;
    if (wants_tape(version->program.captured())) return Found::gradient;
    if (version->exit) {
      if (at::GradMode::is_enabled() && wants_tape_behind(*version->exit)) return Found::gradient;
    }
    const Found found = run_program(*version, arguments, outputs, offers, departed);
    if (found == Found::none) {   // a check inside failed
      ++wasted;
      continue;
    }
    if (wasted > 0) [[unlikely]] note_wasted(wasted);
    if (found == Found::version && version->hits.fetch_add(1, std::memory_order_relaxed) + 1 == kHotHits) compile_guards(*versions, *version);
    return found;
  }
  if (wasted > 0) note_wasted(wasted);
  return Found::none;
}

// Versions that differ by what their values were do the same up to the check that tells them apart, one after the other. Where that comes again
// and again they are recorded anew with exits there, so that what they have in common is one trace. If that does not end it (they go too many
// ways), or hardly any call finds its values again, no version is tried any more.
void Region::note_wasted(int runs) {
  if (wasted_.fetch_add(runs, std::memory_order_relaxed) + runs < kMostWasted) return;
  if (keep_traces_ || on_miss_.load(std::memory_order_relaxed) != OnMiss::record) return;   // packages hold no exits, and nothing is to be recorded
  const std::lock_guard lock(mutex_);
  if (wasted_.exchange(0) < kMostWasted) return;   // another thread was here
  const int64_t answered = hits(), lately = answered - std::exchange(hits_before_, answered);
  if (lately > 2 * kMostWasted) return;   // most calls meet the right version first
  const bool fruitless = lately < kMostWasted / 16;
  if (fruitless && ++fruitless_ < kMostFruitless) return;   // the first calls record, and values may come again
  const int retired = retire_checked();
  if (fruitless) return;
  if (exits_everywhere_.exchange(true)) goes_many_ways_ = true;
  given_back_ += retired;
  for (auto& [form, spent] : spent_) spent = 0;
}

// Under the lock.
int Region::retire_checked() {
  int retired = 0;
  for (const auto& version : *versions_.load(std::memory_order_relaxed)) {
    const auto& steps = version->program.compiled()->plan.steps;
    const bool checks = std::any_of(steps.begin(), steps.end(), [](const Step& step) { return std::holds_alternative<CheckStep>(step); });
    if (!version->exit && checks && !version->retired.exchange(true)) ++retired;
  }
  return retired;
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
    // A version whose checks could fail after an effect is never published: see build().
    ESCAPEMENT_CHECK(outcome == Program::Outcome::check_failed_clean, "a check failed after an effect");
    return Found::none;
  }
  if (version.exit) {
    departed.version = &version;
    departed.exit = version.exit.get();
    if (!follow(arguments, departed, outputs)) return Found::departed;
  }
  count(Stat::hits);
  return Found::version;
}

bool Region::serve(const Values& arguments, Values& outputs) { return serve(ArgumentList(arguments).span(), outputs); }

bool Region::serve(std::span<const Argument> arguments, Values& outputs) {
  const ListenerPause pause;
  if (options_.disable || wants_tape(arguments)) return false;
  Departed departed;
  const Found found = run_version(arguments, outputs, {}, departed);
  if (found == Found::departed) left() = Left{this, std::move(departed)};
  if (found == Found::device_failed) count(Reason::device_failed);   // `answer` tries once more
  if (found != Found::version) return false;
  count(Stat::calls);
  return true;
}

void Region::note_miss(const Values& arguments) {
  const Versions* const versions = versions_.load(std::memory_order_acquire);
  if (versions->empty()) return;
  count(Stat::misses);
  const std::lock_guard lock(mutex_);
  if (misses_.size() < 32) misses_.push_back(why_missed(*versions->back(), arguments));
}

// Those of the versions that are asked before it, too.
void Region::compile_guards(const Versions& versions, const Version& hot) {
  for (const auto& version : versions) {
    version->program.compile_guards();
    if (version.get() == &hot) return;
  }
}

std::string Region::why_missed(const Version& version, const Values& arguments) {
  if (version.ground != Ground::now()) return "the call: expected torch's flags and default dtype as they were when recorded";
  const ArgumentList list(arguments);
  const Miss miss = version.program.explain_miss(list.span());
  if (miss) return describe(miss);
  for (const ArgumentKind& kind : version.kinds) {
    if (kind.holds(*list.span()[kind.input].tensor)) continue;
    return version.program.compiled()->plan.trace.inputs[kind.input].name + ": expected that it " + kind.text() + ", seen otherwise";
  }
  if (pinned_hold(version.pinned, list.span())) return describe_inner_miss(version.program.compiled()->plan.trace);
  return "the call: expected the numbers and truth values seen when recorded, seen others";
}

std::shared_ptr<Region::Turn> Region::take_turn(const Values& arguments, const Versions* seen, Reason& refused) {
  const std::lock_guard lock(mutex_);
  refused = Reason::not_ready;
  if (versions_.load(std::memory_order_relaxed) != seen) return nullptr;  // one was made meanwhile, and may well fit
  if (busy_ && busy_in_ != forks()) busy_ = false;  // a fork left that thread behind
  refused = busy_ ? Reason::not_ready : goes_many_ways_ ? Reason::too_many_exits : Reason::too_many_recordings;
  if (goes_many_ways_) return nullptr;
  if (busy_ || recordings_ - given_back_ >= options_.max_recordings) return nullptr;
  if (!refused_.empty()) {
    const auto known = refused_.find(form_of(arguments));
    if (known != refused_.end() && !known->second.again) {
      refused = known->second.why;
      return nullptr;
    }
  }
  int* spent = nullptr;
  if (recordings_of_a_form_.value_or(INT_MAX) < INT_MAX) {
    spent = &spent_[form_of(arguments)];
    if (*spent >= *recordings_of_a_form_) return refused = Reason::budget_used, nullptr;
    ++*spent;
  }
  busy_ = true;
  busy_in_ = forks();
  ++recordings_;
  return std::make_shared<Turn>(*this, spent);
}

// A recording that looked at no size and no value before it was refused ends so for every call of this form. One that did may go
// another way: it gets a second chance. So does one that drew from generators which are known now, or one that found the world changed:
// another thread may have done that. What raised at one call does not at others, for all that is known.
void Region::note_refusal(const std::string& form, const Recording& recording) {
  {
    const std::lock_guard lock(mutex_);
    const auto [known, fresh] = refused_.try_emplace(form, Refused{*recording.refused});
    const bool otherwise = !recording.trace.guards.empty() || *recording.refused == Reason::state_changed;
    const bool by_chance = *recording.refused == Reason::caught_exception;
    known->second = {*recording.refused, recording.learned || by_chance || (fresh && otherwise)};
    for (const at::Generator& generator : recording.unknown_generators) note_generator(generator);
    decided_.insert(recording.decided.begin(), recording.decided.end());
  }
  if (recording.learned) count_failure(*recording.refused, recording.refused_detail);   // the next one will do better: nothing to tell yet
  else note_failure(*recording.refused, recording.refused_detail);
}

Region::Answer Region::record(const Values& arguments, Values& outputs, std::shared_ptr<Turn> turn) {
  for (const c10::IValue& value : arguments)
    if (value.isGenerator()) know(value.toGenerator());
  const CallDevice home = device_of_call(arguments);
  if (home.refused) {
    turn.reset();
    log_event("fallback", name_ + ": " + std::string(reason_name(*home.refused)) + " " + home.detail);
    return run_eagerly(arguments, outputs, *home.refused);
  }
  const Clock::time_point start = Clock::now();
  std::optional<Recorder> recorder;
  Values given;
  try {
    recorder.emplace(name_, home.device);
    given = wrapped(*recorder, arguments);
  } catch (const UserError&) {
    throw;  // what was said of the sizes does not hold
  } catch (const std::exception& error) {  // nothing has run yet
    recorder.reset();
    turn.reset();
    log_event("fallback", error.what());
    return run_eagerly(arguments, outputs, Reason::internal_error);
  }
  const std::string form = form_of(arguments);   // the program may leave other modes than it found
  Recording recording = run_recorded(*recorder, std::move(given), outputs, exits_everywhere_.load(std::memory_order_relaxed));
  const double milliseconds = milliseconds_since(start);
  turn->recorded = true;
  try {
    keep(std::move(recording), form, arguments, std::move(turn), milliseconds);
  } catch (const UserError&) {
    throw;  // `strict`
  } catch (const std::exception& error) {
    note_failure(Reason::internal_error, error.what());
  }
  return {Answer::How::recording, {}};
}

// The call has been answered; what is left decides about later ones.
void Region::keep(Recording recording, const std::string& form, const Values& arguments, std::shared_ptr<Turn> turn, double milliseconds) {
  tell(Event::Kind::recorded, milliseconds, std::to_string(recording.ops) + " operators");
  count(Stat::recordings);
  count(Stat::specialisations, static_cast<int64_t>(recording.specialised.size()));
  if (!recording.refused && wants_tape(std::span<const at::Tensor>(recording.captured))) {
    recording.refused = Reason::gradient;
  }
  if (recording.refused == Reason::gradient) recording.trace.guards.clear();  // whichever way it goes
  if (!recording.refused && accept_) recording.refused = accept_(recording.captured);
  note_effects(recording);
  if (recording.refused) return note_refusal(form, recording);
  if (host_may_ask_) note_inference(recording, arguments);
  Pinned pinned = pinned_values(arguments);
  if (options_.compile == "background") start_build(std::move(recording), form, std::move(pinned), milliseconds, std::move(turn));
  else build(std::move(recording), form, std::move(pinned), milliseconds);
}

void Region::know(const at::Generator& generator) {
  const std::lock_guard lock(mutex_);
  note_generator(generator);
}

void Region::note_generator(const at::Generator& generator) {
  const bool known = std::find(generators_.begin(), generators_.end(), generator) != generators_.end();
  if (!known && generators_.size() < kGenerators) generators_.push_back(generator);
}

std::set<size_t> Region::decided() const {
  const std::lock_guard lock(mutex_);
  return decided_;
}

std::vector<at::Generator> Region::known_generators() const {
  const std::lock_guard lock(mutex_);
  return generators_;
}

void Region::start_build(Recording recording, const std::string& form, Pinned pinned, double milliseconds, std::shared_ptr<Turn> turn) {
  const auto shared = std::make_shared<Recording>(std::move(recording));
  const auto work = [this, shared, form, pinned = std::move(pinned), milliseconds, turn = std::move(turn)] {
    try {
      build(std::move(*shared), form, pinned, milliseconds);
    } catch (const std::exception&) {  // `strict` has nobody here to tell; the next call raises
    }
  };
  try {
    const std::lock_guard lock(mutex_);
    build_->threads.emplace_back(work);
    return;
  } catch (const std::system_error&) {  // no thread is to be had
  }
  work();
}

Region::Values Region::wrapped(Recorder& recorder, const Values& arguments) const {
  SymbolBinder binder(recorder);
  binder.bind_sizes(inputs_, arguments);
  Values wrapped;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const InputSpec& spec = inputs_.at(i);
    if (arguments[i].isTensor()) {
      const at::Tensor& tensor = arguments[i].toTensor();
      auto sizes = binder.sizes(spec, tensor, static_cast<uint32_t>(i));
      wrapped.emplace_back(recorder.tensor(tensor, std::move(sizes), spec.name, spec.parameter));
    } else if (arguments[i].isInt() && spec.kind == InputSpec::Kind::integer) {
      wrapped.emplace_back(recorder.as_symint(binder.integer(spec, arguments[i].toInt())));
    } else {
      recorder.opaque_input(spec.name);
      wrapped.push_back(arguments[i]);
    }
  }
  return wrapped;
}

// Wrappers and symbols hold the tape. Whoever has one by now (a list, a cache, a gradient, an attribute that nobody watches) would not get another
// one at later calls.
bool Region::is_kept(const Recorder& recorder) const {
  const auto is_held = [&] { return recorder.tape().use_count() > 1; };
  for (const bool everything : {false, true})
    if (let_go_ && is_held()) let_go_(everything);
  return is_held();
}

Recording Region::run_recorded(Recorder& recorder, Values wrapped, Values& outputs, bool exits_everywhere) {
  if (location_) recorder.set_location_hook(location_);
  recorder.tape()->choices.decide_at(decided());
  recorder.enter(known_generators(), exits_everywhere);
  forward_(wrapped, outputs);  // an exception of the program's own passes through; ~Recorder restores the thread
  recorder.leave();
  hand_over_requests(*recorder.tape(), wrapped);
  Recording recording = recorder.finish(outputs);
  if (location_text_) {
    const auto write_out = [&](Trace& trace) {
      for (std::string& text : trace.locations) text = location_text_(std::atoi(text.c_str()));
    };
    write_out(recording.trace);
    for (const Exit& exit : recording.exits) write_out(*exit.before);
  }
  wrapped.clear();
  if (host_may_ask_ && !recording.refused && is_kept(recorder)) {
    recording.refused = Reason::state_changed;
    recording.refused_detail = "somebody keeps a tensor or a size that the program made or was given, otherwise than as its result";
  }
  return recording;
}

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
  const Versions* const versions = versions_.load(std::memory_order_acquire);
  if (versions->empty()) return {};
  return translated_sizes(versions->back()->program.compiled()->plan.trace, dims, arguments);
}

// Null: it may not be replayed.
std::shared_ptr<const Region::Version> Region::make_version(Recording recording, Pinned pinned, double record_milliseconds,
                                                            const ObjectCode* objects) {
  if (!recording.exits.empty()) return make_tree(std::move(recording), std::move(pinned), record_milliseconds);
  const Clock::time_point start = Clock::now();
  if (!options_.dump.empty()) make_readable(recording.trace.locations);
  std::shared_ptr<const Compiled> compiled = compile(recording.trace, options_, objects, target_of(recording));
  const double milliseconds = milliseconds_since(start);
  count(Stat::compile_nanoseconds, static_cast<int64_t>(milliseconds * 1e6));
  if (checks_follow_effects(compiled->plan)) return nullptr;
  if (late_errors_ && !late_errors_() && errors_follow_effects(compiled->plan))
    throw InternalError("an operator may refuse behind what the caller can see, and the program catches errors or binds variables anew", Reason::data_dependent_guard);
  const Ground ground = recording.ground;
  const std::vector<ArgumentKind> kinds = recording.kinds;
  const size_t ops = recording.ops, kernels = compiled->plan.kernels.size();
  std::shared_ptr<const Trace> generic;
  if (keep_traces_) generic = std::make_shared<const Trace>(std::move(recording.trace));
  std::shared_ptr<const Version> version(new Version{Program(std::move(compiled), std::move(recording), program_options()),
                                                     record_milliseconds, ops, std::move(pinned), kinds, ground, std::move(generic), {}, nullptr, {}});
  tell(Event::Kind::compiled, milliseconds, std::to_string(kernels) + " kernels");
  return version;
}

Target Region::target_of(const Recording& recording) { return recording.device.is_cpu() ? Target::processor : Target::device; }

ProgramOptions Region::program_options() const {
  return {options_.pack_weights, static_cast<int>(options_.threads), static_cast<uint32_t>(options_.drop_guard), options_.hot_launches};
}

void Region::build(Recording recording, const std::string& form, Pinned pinned, double record_milliseconds) {
  try {
    if (auto version = make_version(std::move(recording), std::move(pinned), record_milliseconds, nullptr))
      publish(std::move(version));
    else
      note_unpublished(form, Reason::data_dependent_guard, "");
  } catch (const InternalError& error) {
    note_unpublished(form, error.reason, error.what());
  } catch (const std::exception& error) {
    note_failure(Reason::compile_failed, error.what());
  }
}

// A check behind an effect is there again at the next recording: the function goes on in replay mode, where it may. So is a kernel that no device takes.
void Region::note_unpublished(const std::string& form, Reason why, const std::string& detail) {
  if (why == Reason::data_dependent_guard || why == Reason::device_kernel) {
    const std::lock_guard lock(mutex_);
    refused_[form] = {why, false};
  }
  note_failure(why, detail);
}

void Region::publish(std::shared_ptr<const Version> version) {
  const std::lock_guard lock(mutex_);
  auto next = std::make_unique<Versions>(*versions_.load(std::memory_order_relaxed));
  next->push_back(std::move(version));
  if (next->size() > 1) count(Stat::recompiles);
  all_versions_.push_back(std::move(next));
  versions_.store(all_versions_.back().get(), std::memory_order_release);
}

void Region::tell(Event::Kind kind, double milliseconds, std::string text) const {
  if (listener_) listener_({kind, milliseconds, std::move(text)});
}

Region::Answer Region::run_eagerly(const Values& arguments, Values& outputs, Reason why) {
  if (options_.strict && why != Reason::disabled && why != Reason::not_ready)
    throw UserError("escapement: '" + name_ + "' would run eagerly (" + std::string(reason_name(why)) + ": " +
                    std::string(reason_message(why)) + ") and strict is set");
  count(why);
  count(Stat::eager_calls);
  {
    const std::lock_guard lock(mutex_);
    ++fallbacks_[why];
  }
  forward_(arguments, outputs);
  return {Answer::How::eager, why};
}

void Region::count_failure(Reason why, const std::string& detail) {
  count(why);
  log_event("fallback", name_ + ": " + std::string(reason_name(why)) + " " + detail);
  const std::lock_guard lock(mutex_);
  ++fallbacks_[why];
}

// The call itself has been answered by the recording run; only later calls are affected.
void Region::note_failure(Reason why, const std::string& detail) {
  count_failure(why, detail);
  const std::string text = "escapement: '" + name_ + "' is not compiled (" + std::string(reason_name(why)) + ": " +
                           std::string(reason_message(why)) + (detail.empty() ? "" : "; " + detail) + "); it " + (goes_on(why) ? "goes on in replay mode" : "runs eagerly");
  bool warn = false;
  {
    const std::lock_guard lock(mutex_);
    warn = !std::exchange(warned_, true);
  }
  tell(Event::Kind::not_compiled, 0, text);
  if (options_.strict) throw UserError(text);
  if (warn && !listener_) std::fprintf(stderr, "%s\n", text.c_str());
}

int64_t Region::hits() const {
  int64_t sum = 0;
  for (const auto& version : *versions_.load(std::memory_order_acquire)) sum += version->hits.load(std::memory_order_relaxed);
  return sum;
}

std::vector<Escape> Region::escapes() const {
  std::vector<Escape> found;
  for (const auto& version : *versions_.load(std::memory_order_acquire)) {
    append_escapes(found, version->program.compiled()->plan.trace);
    if (version->exit) append_escapes_behind(found, *version->exit);
  }
  return found;
}

std::string Region::info() const {
  const Versions* const versions = versions_.load(std::memory_order_acquire);
  const std::lock_guard lock(mutex_);
  Json json;
  json.open_object().field("name", name_).field("recordings", static_cast<int64_t>(recordings_));
  json.key("versions").open_array();
  for (const auto& version : *versions) {
    json.open_object();
    json.field("hits", version->hits.load()).field("ops", static_cast<int64_t>(version->ops));
    json.field("record_ms", version->record_milliseconds);
    json.field("retired", version->retired.load());
    write_program(json, version->program);
    if (version->exit) json.key("exit"), write_exits(json, *version->exit);
    json.close();
  }
  json.close().key("misses").open_array();
  for (const std::string& miss : misses_) json.value(readable_place(miss));
  json.close().key("fallbacks").open_object();
  for (const auto& [why, times] : fallbacks_) json.field(reason_name(why), times);
  json.close().close();
  return json.text();
}

}  // namespace escapement
