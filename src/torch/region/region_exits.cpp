// What Region (region.h) does where a call comes to an exit behind which no side trace fits: the program itself goes on from there, by fast-forward,
// and what is recorded of it becomes a side trace.
#include "support/error.h"
#include "support/events.h"
#include "support/limits.h"
#include "torch/region/region.h"

namespace escapement {
namespace {

struct Left {
  const Region* region = nullptr;
  Departed departed;
};

// Per thread: what `serve` has begun, until `answer` goes on.
std::optional<Left>& left() {
  thread_local std::optional<Left> left;
  return left;
}

bool is_full(const Departed& departed) {
  if (departed.exit->sides.list().size() >= limits::sides_of_an_exit) return true;
  return departed.version->sides.load(std::memory_order_relaxed) >= limits::sides_of_a_version;
}

}  // namespace

void Region::leave(Departed departed) { left() = Left{this, std::move(departed)}; }

bool Region::take_left(Departed& departed) {
  std::optional<Left>& begun = left();
  if (!begun || begun->region != this) return false;
  departed = std::move(begun->departed);
  begun.reset();
  return true;
}

bool Region::has_begun_a_call() { return left().has_value(); }

bool Region::lost_a_call() {
  const bool lost = left().has_value();
  left().reset();
  return lost;
}

Region::Answer Region::go_on_from(Departed departed, const Values& arguments, Values& outputs) {
  count(Stat::exits);
  departed.exit->departures.fetch_add(1, std::memory_order_relaxed);
  Departure from = departed.departure(ArgumentList(arguments).span());
  departed.live.clear();   // from here on only the program holds it
  std::shared_ptr<Turn> turn = departed.forced ? nullptr : take_side_turn();
  const std::string form = form_of(arguments);
  Recorder recorder(name_, departed.version->program.device());
  recorder.go_forward(std::move(from));
  Recording recording = run_recorded(recorder, SymbolBinder(recorder, inputs_).wrapped(arguments), outputs, departed.exit->everywhere);
  if (wants_tape(std::span<const at::Tensor>(recording.captured))) recording.refused = Reason::gradient;
  if (turn) start_hang(std::move(recording), departed, form, std::move(turn));
  return {Answer::How::recording, {}};
}

// Null: the call goes on, and nothing is kept of it.
std::shared_ptr<Region::Turn> Region::take_side_turn() {
  const bool records = on_miss_.load(std::memory_order_relaxed) == OnMiss::record;
  auto turn = records ? budget_.take_for_side() : nullptr;
  if (!turn) journal_.note_fallback(records ? Reason::not_ready : Reason::serve_only);
  return turn;
}

// The call has been answered.
void Region::start_hang(Recording recording, const Departed& departed, const std::string& form, std::shared_ptr<Turn> turn) {
  if (options_.compile != "background") return hang(recording, departed, form);
  const auto shared = std::make_shared<const Recording>(std::move(recording));
  threads_.start([this, shared, version = departed.version, exit = departed.exit, form, turn = std::move(turn)] {
    hang(*shared, {version, exit, {}}, form);
  });
}

void Region::hang(const Recording& recording, const Departed& departed, const std::string& form) {
  ExitNode& node = *departed.exit;
  try {
    if (recording.refused) throw InternalError(recording.refused_detail, *recording.refused);
    if (!node.is_met_by(recording)) throw InternalError("the program did something else before the exit than it had done; mostly a number that it reads stands there", Reason::too_many_exits);
    if (is_full(departed)) return note_not_hung(departed, form, Reason::too_many_exits, "");
    node.sides.add(maker_.make_side(recording, node));
    departed.version->sides.fetch_add(1, std::memory_order_relaxed);
    count(Stat::side_traces);
  } catch (const InternalError& error) {
    note_not_hung(departed, form, error.reason, error.what());
  } catch (const std::exception& error) {
    note_not_hung(departed, form, Reason::compile_failed, error.what());
  }
}

// What cannot be kept does not come again for ever: then the function goes on in replay mode.
void Region::note_not_hung(const Departed& departed, const std::string& form, Reason why, const std::string& detail) {
  journal_.note_setback(why, detail);
  if (!is_full(departed) && ++departed.exit->refused < limits::refused_at_an_exit) return;
  departed.version->retired = true;
  budget_.refuse(form, why == Reason::too_many_exits ? why : Reason::data_dependent_guard);
}

}  // namespace escapement
