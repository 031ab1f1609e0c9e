// See trace_tree.h.
#include "torch/region/trace_tree.h"

#include <algorithm>
#include <system_error>
#include <thread>

#include "support/error.h"
#include "support/events.h"
#include "support/fork.h"
#include "torch/program/cpp_location.h"
#include "torch/program/program_info.h"

namespace escapement {
namespace {

using Values = Region::Values;

// The arguments of a side trace: the caller's, the tensors captured so far, and what was handed on.
class SideArguments {
 public:
  SideArguments(std::span<const Argument> given, std::span<const at::Tensor> captured, const Values& live) {
    list_.append(given.begin(), given.end());
    for (const at::Tensor& tensor : captured) list_.push_back({&tensor});
    for (const c10::IValue& value : live) {
      if (value.isTensor()) list_.push_back({&value.toTensor()});
      else list_.push_back({nullptr, value.toInt()});
    }
  }
  std::span<const Argument> span() const { return list_; }

 private:
  c10::SmallVector<Argument, 24> list_;
};

// What a part of a recording needs of it beside its trace.
Recording part_of(const Recording& whole, std::span<const at::Tensor> captured) {
  Recording part;
  part.device = whole.device;
  part.captured.assign(captured.begin(), captured.end());
  part.host_objects = whole.host_objects;
  part.inference = whole.inference;
  return part;
}

// Of the recording's tensors those that it had captured where `before` ends.
std::vector<at::Tensor> captured_before(const Recording& recording, const Trace& before) {
  const size_t given = recording.trace.inputs.size() - recording.captured.size();
  const auto first = recording.captured.begin();
  return {first, first + static_cast<std::ptrdiff_t>(before.inputs.size() - given)};
}

int64_t read(const Source& source, std::span<const Argument> arguments) {
  const Argument& from = arguments[source.input];
  switch (source.kind) {
    case Source::Kind::input_size: return from.tensor->size(source.dim);
    case Source::Kind::input_stride: return from.tensor->stride(source.dim);
    case Source::Kind::input_offset: return from.tensor->storage_offset();
    case Source::Kind::input_value: return from.integer;
    default: return 0;   // a number that nothing tells: nothing that is known at the exit is made of it
  }
}

}  // namespace

Region::ExitNode::ExitNode(const Recording& recording, size_t at, std::span<const at::Tensor> tensors)
    : exit(recording.exits[at]), script(recording.script), inference(recording.inference), everywhere(recording.exits_everywhere),
      number(at), captured(tensors.begin(), tensors.end()) {
  all_.push_back(std::make_unique<const Sides>());
  current_ = all_.back().get();
}

void Region::ExitNode::add(std::shared_ptr<const SideTrace> side) {
  auto next = std::make_unique<Sides>(sides());
  next->push_back(std::move(side));
  all_.push_back(std::move(next));
  current_.store(all_.back().get(), std::memory_order_release);
}

// --- making

// Behind an effect a check cannot start again, and where the program catches errors none may come that it does not expect.
void Region::refuse_late(const LaunchPlan& plan) const {
  const auto is_check = [](const Step& step) { return std::holds_alternative<CheckStep>(step); };
  if (std::any_of(plan.steps.begin(), plan.steps.end(), is_check))
    throw InternalError("a relation of values is needed inside of an operator, behind an effect", Reason::data_dependent_guard);
  if (late_errors_ && !late_errors_() && errors_follow_effects(plan, true))
    throw InternalError("an operator may refuse behind what the caller can see, and the program catches errors or binds variables anew", Reason::data_dependent_guard);
}

// What is handed on was made in the mode of the results that the way taken before has. Where this way has them in the other mode, it may hand back
// nothing of that.
void Region::refuse_other_mode(const Recording& recording, const ExitNode& from, bool ends) {
  if (recording.inference == from.inference) return;
  const Trace& trace = recording.trace;
  const std::vector<ValueId>& live = from.exit.at.live;
  const auto was_made = [&](const Output& output) {
    return output.value && std::find(live.begin(), live.end(), trace.type(output.value).root) != live.end();
  };
  if (ends && std::none_of(trace.outputs.begin(), trace.outputs.end(), was_made)) return;
  throw InternalError("one way behind an exit makes its results in inference mode, another does not", Reason::state_changed);
}

std::shared_ptr<const Region::SideTrace> Region::make_side(const Recording& recording, const ExitNode& from) const {
  const size_t next = from.number + 1;
  const bool ends = next == recording.exits.size();
  const Trace& whole = ends ? recording.trace : *recording.exits[next].before;
  refuse_other_mode(recording, from, ends);
  std::shared_ptr<const Compiled> compiled = compile(side_trace(whole, from.exit.at), options_, nullptr, target_of(recording));
  refuse_late(compiled->plan);
  auto captured = captured_before(recording, whole);
  std::unique_ptr<ExitNode> exit;
  if (!ends) exit = make_exit(recording, next, captured);
  Recording part = part_of(recording, {});
  return std::shared_ptr<const SideTrace>(
      new SideTrace{Program(std::move(compiled), std::move(part), program_options()), std::move(captured), std::move(exit), {}});
}

std::unique_ptr<Region::ExitNode> Region::make_exit(const Recording& recording, size_t number, std::span<const at::Tensor> captured) const {
  auto exit = std::make_unique<ExitNode>(recording, number, captured);
  exit->add(make_side(recording, *exit));
  return exit;
}

// Null: a check before the first exit stands behind an effect.
std::shared_ptr<const Region::Version> Region::make_tree(Recording recording, Pinned pinned, double record_milliseconds) {
  const Trace& first = *recording.exits.front().before;
  std::shared_ptr<const Compiled> compiled = compile(first, options_, nullptr, target_of(recording));
  if (checks_follow_effects(compiled->plan)) return nullptr;
  if (late_errors_ && !late_errors_() && errors_follow_effects(compiled->plan, false)) refuse_late(compiled->plan);
  const auto captured = captured_before(recording, first);
  auto exit = make_exit(recording, 0, captured);
  Recording part = part_of(recording, captured);
  const size_t kernels = compiled->plan.kernels.size();
  std::shared_ptr<const Version> version(new Version{Program(std::move(compiled), std::move(part), program_options()), record_milliseconds,
                                                     recording.ops, std::move(pinned), recording.kinds, recording.ground, nullptr, {}, std::move(exit), {}});
  tell(Event::Kind::compiled, 0, std::to_string(kernels) + " kernels, and " + std::to_string(recording.exits.size()) + " exits");
  return version;
}

// --- running

// Asked before the call begins: behind an exit it cannot run eagerly any more.
bool Region::wants_tape_behind(const ExitNode& node) {
  const auto wants = [](const at::Tensor& tensor) { return tensor.requires_grad(); };
  return std::any_of(node.sides().begin(), node.sides().end(), [&](const auto& side) {
    return std::any_of(side->captured.begin(), side->captured.end(), wants) || (side->exit && wants_tape_behind(*side->exit));
  });
}

// The first that fits, each asked with the tensors that its own recording had captured. Null: none does.
const Region::SideTrace* Region::run_side(const ExitNode& exit, std::span<const Argument> arguments, const Values& live, Values& outputs) {
  for (const auto& side : exit.sides()) {
    const SideArguments list(arguments, side->captured, live);
    if (!side->program.fits(list.span())) continue;
    const Program::Outcome outcome = side->program.run(list.span(), outputs, {}, true);
    ESCAPEMENT_CHECK(outcome == Program::Outcome::done, "a check failed after an effect");
    if (side->hits.fetch_add(1, std::memory_order_relaxed) + 1 == kHotHits) side->program.compile_guards();
    return side.get();
  }
  return nullptr;
}

// The version's own program has run, and handed on `departed.live`.
bool Region::follow(std::span<const Argument> arguments, Departed& departed, Values& outputs) const {
  while (departed.exit != nullptr) {
    departed.forced = options_.force_exits > 0 && (exits_met_.fetch_add(1, std::memory_order_relaxed) + 1) % options_.force_exits == 0;
    if (departed.forced) [[unlikely]] return false;
    Values next;
    const SideTrace* const side = run_side(*departed.exit, arguments, departed.live, next);
    if (side == nullptr) return false;
    departed.exit = side->exit.get();
    departed.live = std::move(next);
  }
  for (c10::IValue& value : departed.live) outputs.push_back(std::move(value));
  return true;
}

Departure Region::departure(const Departed& departed, std::span<const Argument> arguments) const {
  const ExitNode& node = *departed.exit;
  const Trace& before = *node.exit.before;
  const SideArguments list(arguments, node.captured, departed.live);
  Departure from{node.script, node.exit.before, node.exit.at, node.exit.steps, {}, {}, {}, departed.version->program.device()};
  for (size_t i = 0; i < before.inputs.size(); ++i) from.inputs.push_back(list.span()[i].tensor ? *list.span()[i].tensor : at::Tensor());
  for (uint32_t s = 0; s < before.dims.symbol_count(); ++s) from.symbols.push_back(read(before.dims.info(Symbol(s)).source, list.span()));
  const size_t tensors = node.exit.at.live.size();
  for (size_t i = 0; i < tensors; ++i) from.live.push_back(departed.live[i].toTensor());
  for (size_t i = 0; i < node.exit.at.born.size(); ++i) from.symbols[node.exit.at.born[i].index] = departed.live[tensors + i].toInt();
  return from;
}

// --- going on where no side trace fits

// Per thread: what `serve` has begun, until `answer` goes on.
std::optional<Region::Left>& Region::left() {
  thread_local std::optional<Left> left;
  return left;
}

bool Region::take_left(Departed& departed) {
  std::optional<Left>& begun = left();
  if (!begun || begun->region != this) return false;
  departed = std::move(begun->departed);
  begun.reset();
  return true;
}

bool Region::lost_a_call() {
  const bool lost = left().has_value();
  left().reset();
  return lost;
}

Region::Answer Region::go_on_from(Departed departed, const Values& arguments, Values& outputs) {
  count(Stat::exits);
  departed.exit->departures.fetch_add(1, std::memory_order_relaxed);
  Departure from = departure(departed, ArgumentList(arguments).span());
  departed.live.clear();   // from here on only the program holds it
  std::shared_ptr<Turn> turn = departed.forced ? nullptr : take_side_turn();
  const std::string form = form_of(arguments);
  Recorder recorder(name_, departed.version->program.device());
  recorder.go_forward(std::move(from));
  Values given = wrapped(recorder, arguments);
  Recording recording = run_recorded(recorder, std::move(given), outputs, departed.exit->everywhere);
  const auto wants = [](const at::Tensor& tensor) { return tensor.requires_grad(); };
  if (at::GradMode::is_enabled() && std::any_of(recording.captured.begin(), recording.captured.end(), wants)) recording.refused = Reason::gradient;
  if (turn) start_hang(std::move(recording), departed, form, std::move(turn));
  return {Answer::How::recording, {}};
}

// The call has been answered.
void Region::start_hang(Recording recording, const Departed& departed, const std::string& form, std::shared_ptr<Turn> turn) {
  if (options_.compile != "background") return hang(recording, departed, form);
  const auto shared = std::make_shared<const Recording>(std::move(recording));
  const auto work = [this, shared, version = departed.version, exit = departed.exit, form, turn = std::move(turn)] {
    hang(*shared, {version, exit, {}}, form);
  };
  try {
    const std::lock_guard lock(mutex_);
    build_->threads.emplace_back(work);
    return;
  } catch (const std::system_error&) {  // no thread is to be had
  }
  work();
}

// Null: the call goes on, and nothing is kept of it.
std::shared_ptr<Region::Turn> Region::take_side_turn() {
  const bool records = on_miss_.load(std::memory_order_relaxed) == OnMiss::record;
  const std::lock_guard lock(mutex_);
  if (busy_ && busy_in_ != forks()) busy_ = false;
  if (busy_ || !records) {
    const Reason why = records ? Reason::not_ready : Reason::serve_only;
    count(why);
    ++fallbacks_[why];
    return nullptr;
  }
  busy_ = true;
  busy_in_ = forks();
  return std::make_shared<Turn>(*this);
}

namespace {

// Whether the recording did the same up to the exit, instruction by instruction.
bool same_until(const Exit& exit, const Recording& recording, size_t number) {
  if (number >= recording.exits.size()) return false;
  const Exit& other = recording.exits[number];
  const Trace &a = *exit.before, &b = *other.before;
  if (other.at.instrs != exit.at.instrs || other.steps != exit.steps || a.inputs.size() != b.inputs.size()) return false;
  if (a.values.size() != b.values.size() || a.dims.symbol_count() != b.dims.symbol_count()) return false;
  for (uint32_t i = 0; i < exit.at.instrs; ++i) {
    if (to_string(a, InstrId(i)) != to_string(b, InstrId(i))) return false;
  }
  return true;
}

}  // namespace

// What cannot be kept does not come again for ever: then the function goes on in replay mode.
void Region::hang(const Recording& recording, const Departed& departed, const std::string& form) {
  ExitNode& node = *departed.exit;
  Reason why = Reason::too_many_exits;
  std::string detail;
  try {
    if (recording.refused) throw InternalError(recording.refused_detail, *recording.refused);
    if (!same_until(node.exit, recording, node.number)) throw InternalError("a number that was read stands in what comes before the exit", Reason::too_many_exits);
    if (node.sides().size() < ExitNode::kMostSides) {
      auto side = make_side(recording, node);
      const std::lock_guard lock(mutex_);
      node.add(std::move(side));
      return count(Stat::side_traces);
    }
  } catch (const InternalError& error) {
    why = error.reason;
    detail = error.what();
  } catch (const std::exception& error) {
    why = Reason::compile_failed;
    detail = error.what();
  }
  count_failure(why, detail);
  const std::lock_guard lock(mutex_);
  const bool full = node.sides().size() >= ExitNode::kMostSides;
  if (!full && ++node.refused < ExitNode::kMostRefused) return;
  departed.version->retired = true;
  refused_[form] = {why == Reason::too_many_exits ? why : Reason::data_dependent_guard, false};
}

// Side traces say again what the trace before them has asked.
void Region::append_escapes_behind(std::vector<Escape>& found, const ExitNode& node) {
  for (const auto& side : node.sides()) {
    std::vector<Escape> own;
    append_escapes(own, side->program.compiled()->plan.trace);
    for (Escape& escape : own) {
      const auto same = [&](const Escape& other) { return other.relation == escape.relation && other.where == escape.where; };
      if (std::none_of(found.begin(), found.end(), same)) found.push_back(std::move(escape));
    }
    if (side->exit) append_escapes_behind(found, *side->exit);
  }
}

void Region::write_exits(Json& json, const ExitNode& node) const {
  json.open_object();
  json.field("because", node.exit.because).field("departures", node.departures.load());
  json.field("handed_on", static_cast<int64_t>(node.exit.at.live.size() + node.exit.at.born.size()));
  const Trace& before = *node.exit.before;
  if (node.exit.location.index < before.locations.size()) json.field("location", readable_place(before.locations[node.exit.location.index]));
  json.key("sides").open_array();
  for (const auto& side : node.sides()) {
    json.open_object().field("hits", side->hits.load());
    write_program(json, side->program);
    if (side->exit) json.key("exit"), write_exits(json, *side->exit);
    json.close();
  }
  json.close().close();
}

}  // namespace escapement
