// See include/escapement/jit_core.h. A call's key is its shape and torch's modes in the thread; each key has one Region.
// Calls that a version serves take no lock. Everything else is slow: one thread at a time looks for the key, and for what
// has become of it.
#include "escapement/jit_core.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <bit>
#include <map>
#include <mutex>

#include "support/error.h"
#include "support/events.h"
#include "support/json.h"
#include "support/limits.h"
#include "torch/api/api_options.h"
#include "torch/api/cpp_catches.h"
#include "torch/api/jit_modules.h"
#include "torch/program/cpp_location.h"
#include "torch/record/host_args.h"
#include "torch/record/recorder_tape.h"
#include "torch/region/region.h"
#include "torch/replay_mode/replay_region.h"

namespace escapement::inline ESCAPEMENT_ABI::detail {
namespace {

// What of the thread's state decides about a program's meaning.
struct Ambient {
  uint64_t included = 0, excluded = 0;
  int32_t modes = 0;

  static Ambient now() {
    const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
    return {local.included_.raw_repr(), local.excluded_.raw_repr(), modes_now(local)};
  }
  static int32_t modes_now(const c10::impl::LocalDispatchKeySet& local) {
    int32_t modes = static_cast<int32_t>(c10::get_default_dtype_as_scalartype()) << 1 | at::GradMode::is_enabled();
    const bool autocast = !(c10::autocast_dispatch_keyset - local.excluded_).empty();
    if (autocast) modes |= static_cast<int32_t>(at::autocast::get_autocast_dtype(at::kCPU)) << 16;
    return modes;
  }
  friend bool operator==(const Ambient&, const Ambient&) = default;

  c10::DispatchKeySet included_keys() const { return c10::DispatchKeySet(c10::DispatchKeySet::RAW, included); }
  bool records() const { return included_keys().has(kRecorderKey); }
  bool ordinary() const {
    using c10::DispatchKey;
    const auto usual = c10::DispatchKeySet({DispatchKey::BackendSelect, DispatchKey::ADInplaceOrView});
    return (included_keys() - usual - c10::autocast_dispatch_keyset).empty();
  }
};

// What the function was seen to do around its operators.
struct Habits {
  std::atomic<bool> binds{false};     // variables of its caller anew
  std::atomic<bool> catches{false};   // has handlers of exceptions

  void look() { if (!catches.load(std::memory_order_relaxed) && program_may_catch()) catches.store(true); }
  bool allow_late_errors() const { return !binds.load() && !catches.load(); }
};

// All calls of one shape.
struct Row {
  Ambient ambient;
  std::vector<uint64_t> shape;
  CppLocations locations;
  std::shared_ptr<Habits> habits = std::make_shared<Habits>();
  std::unique_ptr<Region> region;
  std::unique_ptr<ReplayRegion> replay;    // instead of the region, in replay mode

  bool serves(const Ambient& now, std::span<const uint64_t> wanted) const {
    return ambient == now && std::equal(shape.begin(), shape.end(), wanted.begin(), wanted.end());
  }
};

// The rows for one state of the module, if there is a module. Lists are never changed: a longer one takes their place.
struct Table {
  std::shared_ptr<const ModuleWatch> state;
  std::vector<Row*> rows;

  bool current() const { return !state || state->same(); }
  Row* find(const Ambient& ambient, std::span<const uint64_t> shape) const {
    for (Row* const row : rows) {
      if (row->serves(ambient, shape)) return row;
    }
    return nullptr;
  }
};

c10::IValue value_of(const Argument& argument) {
  if (argument.tensor) return *argument.tensor;
  if (argument.kind == Argument::Kind::real) return std::bit_cast<double>(argument.integer);
  return argument.integer;
}

Values values_of(const Leaves& leaves) {
  Values values;
  for (const Argument& argument : leaves.arguments()) values.push_back(value_of(argument));
  return values;
}

std::vector<InputSpec> inputs_of(const Leaves& leaves) {
  std::vector<InputSpec> inputs;
  for (const Argument& argument : leaves.arguments()) {
    InputSpec spec;
    using Kind = InputSpec::Kind;
    spec.kind = argument.tensor ? Kind::tensor : argument.other ? Kind::other : Kind::integer;
    spec.name = "arg" + std::to_string(inputs.size());
    inputs.push_back(std::move(spec));
  }
  return inputs;
}

thread_local Values t_results;   // empty, but for the memory

}  // namespace

// --- leaves and results

void Leaves::run_time_real(double value) {
  owned_.push_front(at::scalar_tensor(value, at::kDouble));
  arguments_.push_back({&owned_.front(), 0, false, Argument::Kind::plain});
}

bool recording_here() { return c10::impl::tls_is_dispatch_key_included(kRecorderKey); }

int64_t pinned_integer(const c10::IValue& value) {
  if (!value.isSymInt()) return value.toInt();
  return value.toSymInt().guard_int("an int64_t argument; a c10::SymInt stays symbolic", 0);
}

c10::SymFloat read_real(const c10::IValue& value) { return value.toTensor().item().toSymFloat(); }

bool bound_anew(const Values& before, std::span<const c10::IValue> after) {
  return !std::equal(before.begin(), before.end(), after.begin(), after.end(), [](const c10::IValue& a, const c10::IValue& b) { return a.is(b); });
}

Results::Results() : store_(t_results) { values.swap(store_); }
Results::~Results() {
  values.clear();
  values.swap(store_);
}

void watch_module(const std::type_info& type, size_t size) { declare_module_size(type, size); }

// --- calls

struct JitCore::Impl {
  Forward forward;
  Watched watched;
  std::string name;
  Options options;
  bool replays = false;                            // from the first call on
  std::atomic<const Table*> table{nullptr};
  std::atomic<int64_t> replayed{0};

  mutable std::mutex mutex;                        // of all that follows
  std::vector<std::unique_ptr<Row>> rows;
  std::vector<std::unique_ptr<const Table>> tables;  // a list that is being walked stays; there are few
  std::vector<std::shared_ptr<const ModuleWatch>> states;
  std::map<Reason, int64_t> eager;                 // that no region was asked about
  std::string detail;                              // of the last reason that has one
  Metrics slow;                                    // of recordings and eager calls
  std::shared_ptr<const Log> log;

  void call_slowly(const Ambient& ambient, const Leaves& leaves, Values& results);
  const Table* current_table(Reason& refused);
  const Table* publish(Table next);
  Row* row_for(const Ambient& ambient, const Leaves& leaves, Reason& refused);
  Region::Forward forward_of(const Row& row) const;
  std::unique_ptr<Row> new_row(const Ambient& ambient, const Leaves& leaves, const Table& of);
  void answer(Row& row, const Values& arguments, Values& results);
  void run_eagerly(const Leaves& leaves, const Values& arguments, Values& results, Reason why);
  void note_eager(Reason why);                     // throws in strict mode
  void note_answer(const Region::Answer& answer);
  void heard(const RegionEvent& event);
  void tell(LogLine::Level level, const char* event, const std::string& text, double milliseconds = 0);
};

const Table* JitCore::Impl::publish(Table next) {
  tables.push_back(std::make_unique<const Table>(std::move(next)));
  table.store(tables.back().get(), std::memory_order_release);
  return tables.back().get();
}

// The rows for what the module is now. A module that comes back to an earlier state (train(), eval()) finds the rows of
// then.
const Table* JitCore::Impl::current_table(Reason& refused) {
  const Table* const last = table.load(std::memory_order_relaxed);
  if (last && last->current()) return last;
  for (auto known = tables.rbegin(); known != tables.rend(); ++known) {
    if (!(*known)->current()) continue;
    table.store(known->get(), std::memory_order_release);
    return known->get();
  }
  refused = Reason::state_changed;
  if (states.size() == limits::states_of_a_module) return nullptr;
  Table next;
  if (!replays) {  // in replay mode the program's own code runs
    if (watched.module) next.state = ModuleWatch::of(watched.module, detail);
    else if (!watched.callable.empty()) next.state = ModuleWatch::of(watched.callable);
    refused = Reason::unwatched_module;
    if (watched.module && !next.state) return nullptr;
    if (next.state) states.push_back(next.state);
  }
  return publish(std::move(next));
}

Region::Forward JitCore::Impl::forward_of(const Row& row) const {
  return [this, shape = row.shape, habits = row.habits](const Values& arguments, Values& results) {
    LeafReader reader(shape, arguments);
    if (forward(reader, results)) habits->binds.store(true);
  };
}

std::unique_ptr<Row> JitCore::Impl::new_row(const Ambient& ambient, const Leaves& leaves, const Table& of) {
  auto row = std::make_unique<Row>();
  row->ambient = ambient;
  row->shape.assign(leaves.shape().begin(), leaves.shape().end());
  row->region = std::make_unique<Region>(name, forward_of(*row), inputs_of(leaves), options);
  row->region->replay_after_budget(limits::versions_of_a_form);
  row->region->host_may_ask();
  if (replays) row->replay = std::make_unique<ReplayRegion>(name, forward_of(*row), options);
  Hooks& hooks = row->region->hooks();
  hooks.listener = [this](const RegionEvent& event) { heard(event); };
  hooks.late_errors = [habits = row->habits] { return habits->allow_late_errors(); };
  CppLocations* const locations = &row->locations;
  hooks.location = [locations, habits = row->habits.get()] { return habits->look(), locations->here(); };
  hooks.location_text = [locations](int number) { return locations->text(number); };
  if (of.state) hooks.accept = [state = of.state](auto captured) { return state->refuses(captured); };
  return row;
}

Row* JitCore::Impl::row_for(const Ambient& ambient, const Leaves& leaves, Reason& refused) {
  const std::lock_guard lock(mutex);
  refused = Reason::other_tracer;
  if (!ambient.ordinary()) return nullptr;
  const Table* const now = current_table(refused);
  if (!now) return nullptr;
  if (Row* const known = now->find(ambient, leaves.shape())) return known;
  refused = Reason::too_many_recordings;
  if (now->rows.size() == limits::kinds_of_calls) return nullptr;
  rows.push_back(new_row(ambient, leaves, *now));
  Table next = *now;
  next.rows.push_back(rows.back().get());
  publish(std::move(next));
  return rows.back().get();
}

void JitCore::Impl::call_slowly(const Ambient& ambient, const Leaves& leaves, Values& results) {
  const Values arguments = values_of(leaves);
  Reason refused = Reason::other_tracer;
  Row* const row = row_for(ambient, leaves, refused);
  if (row == nullptr) return run_eagerly(leaves, arguments, results, refused);
  answer(*row, arguments, results);
}

void JitCore::Impl::answer(Row& row, const Values& arguments, Values& results) {
  if (row.replay) {
    count(Stat::calls);
    row.replay->call(arguments, results);
    return note_answer({Region::Answer::How::replay});
  }
  note_answer(row.region->answer(arguments, results));
}

// Those that a version answered are counted by it.
void JitCore::Impl::note_answer(const Region::Answer& answer) {
  using How = Region::Answer::How;
  if (answer.how == How::version) return;
  if (answer.how == How::replay) {
    replayed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::lock_guard lock(mutex);
  if (answer.how == How::recording) ++slow.recordings;
  if (answer.how == How::eager) ++slow.eager_by_reason[std::string(reason_name(answer.why))];
}

// --- what is told

const char* event_name(RegionEvent::Kind kind) {
  switch (kind) {
    case RegionEvent::Kind::recorded: return "recorded";
    case RegionEvent::Kind::compiled: return "compiled";
    case RegionEvent::Kind::not_compiled: return "not_compiled";
  }
  return "";
}

void JitCore::Impl::heard(const RegionEvent& event) {
  using Kind = RegionEvent::Kind;
  {
    const std::lock_guard lock(mutex);
    if (event.kind == Kind::recorded) slow.record_seconds += event.milliseconds / 1e3;
    if (event.kind == Kind::compiled) slow.compile_seconds += event.milliseconds / 1e3;
  }
  tell(event.kind == Kind::not_compiled ? LogLine::Level::warning : LogLine::Level::info, event_name(event.kind), event.text, event.milliseconds);
}

void JitCore::Impl::tell(LogLine::Level level, const char* event, const std::string& text, double milliseconds) {
  std::shared_ptr<const Log> listener;
  {
    const std::lock_guard lock(mutex);
    listener = log;
  }
  if (!listener || !*listener) return;
  try {
    (*listener)({level, name, event, text, milliseconds});
  } catch (...) {   // a callback's own trouble must not become a call's
  }
}

void JitCore::Impl::note_eager(Reason why) {
  if (options.strict) {
    const std::lock_guard lock(mutex);   // of the detail, which another thread may be writing
    throw UserError("escapement: '" + name + "' would run eagerly (" + std::string(reason_name(why)) + ": " +
                    std::string(reason_message(why)) + (detail.empty() ? "" : "; " + detail) + ") and strict is set");
  }
  count(why);
  count(Stat::eager_calls);
  bool first = false;
  {
    const std::lock_guard lock(mutex);
    first = ++eager[why] == 1;
    ++slow.eager_by_reason[std::string(reason_name(why))];
  }
  if (first) tell(LogLine::Level::warning, "eager", std::string(reason_name(why)) + ": " + std::string(reason_message(why)));
}

void JitCore::Impl::run_eagerly(const Leaves& leaves, const Values& arguments, Values& results, Reason why) {
  note_eager(why);
  LeafReader reader(leaves.shape(), arguments);
  forward(reader, results);
}

namespace {

// The mode is the front end's own; everything else is in the option table.
bool take_replay_mode(OptionList& options) {
  bool replay = false;
  for (const auto& [name, value] : options) {
    if (name != "mode") continue;
    if (value != "call" && value != "replay")
      throw std::invalid_argument("escapement: mode is \"call\" or \"replay\", not \"" + value + "\"");
    replay = value == "replay";
  }
  std::erase_if(options, [](const auto& option) { return option.first == "mode"; });
  return replay;
}

}  // namespace

JitCore::JitCore(Forward forward, Watched watched, JitSettings settings) : impl_(new Impl) {
  impl_->replays = take_replay_mode(settings.options);
  impl_->forward = std::move(forward);
  impl_->watched = std::move(watched);
  impl_->name = std::move(settings.name);
  impl_->options = parse_options(settings.options);
  set_log(std::move(settings.log));
  install_recorder();
}

JitCore::~JitCore() = default;

void JitCore::note_eager_for_aliases() { impl_->note_eager(Reason::aliased_references); }

bool JitCore::call(const Leaves& leaves, Values& results) {
  const Ambient ambient = Ambient::now();
  if (ambient.records()) return false;
  const Table* const table = impl_->table.load(std::memory_order_acquire);
  if (table && table->current()) {
    Row* const row = table->find(ambient, leaves.shape());
    if (row && !impl_->replays && row->region->serve(leaves.arguments(), results)) return true;
    results.clear();
  }
  try {
    impl_->call_slowly(ambient, leaves, results);
    ESCAPEMENT_CHECK(!Region::lost_a_call(), "a call was begun by one version and ended by another");
  } catch (...) {
    Region::lost_a_call();
    for (c10::IValue& value : results) value = concrete(value);   // what the caller's variables are bound to
    throw;
  }
  return true;
}

void JitCore::set_log(Log log) {
  auto listener = log ? std::make_shared<const Log>(std::move(log)) : nullptr;
  const std::lock_guard lock(impl_->mutex);
  impl_->log.swap(listener);
}

Metrics JitCore::metrics() const {
  const std::lock_guard lock(impl_->mutex);
  Metrics metrics = impl_->slow;
  metrics.replays = impl_->replayed.load(std::memory_order_relaxed);
  for (const auto& row : impl_->rows) {
    metrics.hits += row->region->versions().hits();
    metrics.versions += static_cast<int64_t>(row->region->versions().size());
  }
  metrics.calls = metrics.hits + metrics.recordings + metrics.replays + metrics.eager_calls();
  return metrics;
}

std::vector<Escape> JitCore::escapes() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Escape> all;
  for (const auto& row : impl_->rows) {
    for (Escape& escape : row->region->versions().escapes()) all.push_back(std::move(escape));
  }
  return all;
}

std::string JitCore::explain() const {
  const std::vector<Escape> found = escapes();
  const std::lock_guard lock(impl_->mutex);
  Json json;
  json.open_object().field("name", impl_->name).key("escapes").open_array();
  for (const Escape& escape : found)
    json.open_object().field("relation", escape.relation).field("because", escape.because)
        .field("where", escape.where).close();
  json.close().key("eager").open_object();
  for (const auto& [why, times] : impl_->eager) json.field(reason_name(why), times);
  json.close().field("unwatched", impl_->detail).close();
  std::string text = json.text();
  text.pop_back();
  text += ",\"keys\":[";
  for (const auto& row : impl_->rows) text += (row == impl_->rows.front() ? "" : ",") + row->region->info();
  return text + "]}";
}

}  // namespace escapement::detail
