// Running a plan: see executable.h. How the tables are made stands in plan_compiler.cpp.
#include "jit/run/executable.h"

#include <algorithm>
#include <utility>

#include "guards/check.h"
#include "jit/run/call_control.h"
#include "jit/run/plan_compiler.h"
#include "support/error.h"
#include "support/events.h"

namespace escapement {
namespace {

constexpr uint32_t kNone = Id<void>::kNone;

size_t bytes_at(const Context& context, Slot slot) { return static_cast<size_t>(std::max<int64_t>(context.table[slot], 0)); }

}  // namespace

Context::~Context() {
  for (const LateSlot& slot : late_slots) free_pages(slot.memory);
}

Executable::Executable(const LaunchPlan& plan, std::span<const std::shared_ptr<KernelCode>> code, ParallelHost parallel, int threads,
                       int64_t hot_launches, std::optional<int> device)
    : parallel_(parallel), threads_(threads), device_(device), born_(find_born_levels(plan)), shapes_(plan.trace.dims, level_of_symbols(plan, born_)) {
  PlanCompiler compiler(plan, *this);
  compiler.compile_steps(code);
  compiler.compile_memory();
  for (LaunchRecipe& recipe : recipes_) recipe.hot_launches = hot_launches;
}

bool Executable::leave_out_check(uint32_t number) {
  for (StepCode& step : steps_) {
    if (step.kind != StepCode::Kind::check || step.index + 1 != number) continue;
    step.kind = StepCode::Kind::nothing;
    return true;
  }
  return false;
}

void Executable::finish(const LaunchPlan& plan) {
  shapes_.finish();
  PlanCompiler(plan, *this).settle();
  for (uint32_t symbol = 0; symbol < shapes_.symbol_count(); ++symbol) {
    if (shapes_.level(symbol) == 0) entry_symbols_.push_back(symbol);
  }
  for (uint32_t step = 0; step < steps_.size(); ++step) {
    const StepCode& code = steps_[step];
    const bool early = code.kind == StepCode::Kind::kernel && recipes_[code.index].level > level_before(step);
    ESCAPEMENT_CHECK(!early, "a kernel runs before its sizes are known");
  }
}

uint32_t Executable::level_before(uint32_t step) const {
  uint32_t level = 0;
  for (const BornLevel& born : born_) level += born.step < step ? 1 : 0;
  return level;
}

std::unique_ptr<Context> Executable::new_context() const {
  auto context = std::make_unique<Context>();
  const size_t levels = born_.size() + 1;
  context->symbols.resize(shapes_.symbol_count());
  context->table.resize(shapes_.table_size());
  context->bases.resize(buffer_count_);
  context->epochs.assign(levels, 0);
  context->stale.assign(levels, 1);
  context->late_slots.resize(late_.empty() ? 0 : slot_count_);
  for (const LaunchRecipe& recipe : recipes_) context->launches.push_back(new_launch(recipe));
  shapes_.initialise(context->table);
  return context;
}

// Sizes known at entry, if any of them changed.
void Executable::refresh(Context& context) const {
  const auto changed = [&](uint32_t symbol) { return context.symbols[symbol] != context.table[symbol]; };
  const bool unchanged = context.stale[0] == 0 && std::none_of(entry_symbols_.begin(), entry_symbols_.end(), changed);
  if (unchanged && !context.arena.should_shrink(context.arena_bytes)) return;
  // Stale until all is done: an overflow may throw half way.
  std::fill(context.stale.begin(), context.stale.end(), uint8_t{1});
  for (const uint32_t symbol : entry_symbols_) context.table[symbol] = context.symbols[symbol];
  shapes_.evaluate(0, context.table);
  for (uint64_t& epoch : context.epochs) ++epoch;
  place_temporaries(context);
  context.stale[0] = 0;
}

// The host's number of threads may change between calls; that only cuts the launches anew.
void Executable::note_threads(Context& context) const {
  const int threads = threads_ > 0 ? threads_ : parallel_.thread_count();
  if (threads == context.threads) return;
  context.threads = threads;
  for (uint64_t& epoch : context.epochs) ++epoch;
}

Executable::Memory Executable::measure(std::span<const int64_t> symbols) const {
  Memory memory;
  memory.table.resize(shapes_.table_size());
  shapes_.initialise(memory.table);
  for (const uint32_t symbol : entry_symbols_) memory.table[symbol] = symbols[symbol];
  shapes_.evaluate(0, memory.table);
  std::vector<size_t> sizes(slot_count_, 0);
  for (const TemporaryCode& t : early_)
    sizes[t.slot] = std::max(sizes[t.slot], static_cast<size_t>(std::max<int64_t>(memory.table[t.bytes], 0)));
  for (const size_t size : sizes) memory.arena_bytes += static_cast<int64_t>(round_up(size, Arena::kAlignment));
  memory.complete = late_.empty() && born_.empty();
  return memory;
}

// Offsets of the slots whose sizes are known; the slot's size is that of its largest buffer.
void Executable::place_temporaries(Context& context) const {
  std::vector<size_t> sizes(slot_count_, 0);
  for (const TemporaryCode& t : early_) sizes[t.slot] = std::max(sizes[t.slot], bytes_at(context, t.bytes));
  size_t total = 0;
  std::vector<size_t> offsets(slot_count_, 0);
  for (uint32_t slot = 0; slot < slot_count_; ++slot) {
    offsets[slot] = total;
    total += round_up(sizes[slot], Arena::kAlignment);
  }
  context.arena_bytes = total;
  std::byte* memory = context.arena.reserve(total);
  for (const TemporaryCode& t : early_) context.bases[t.buffer] = memory + offsets[t.slot];
}

void Executable::allocate(Context& context, Host& host, const StepCode& step) const {
  for (uint32_t i = step.allocate_begin; i < step.allocate_end; ++i) {
    const uint32_t buffer = allocations_[i];
    if (late_of_buffer_[buffer] == kNone) {
      context.bases[buffer] = host.allocate(buffer);
      continue;
    }
    const TemporaryCode& temporary = late_[late_of_buffer_[buffer]];
    Context::LateSlot& slot = context.late_slots[temporary.slot];
    const size_t bytes = bytes_at(context, temporary.bytes);
    if (bytes > slot.capacity || slot.memory == nullptr) {
      free_pages(std::exchange(slot.memory, nullptr));
      slot.capacity = 0;
      slot.memory = static_cast<std::byte*>(allocate_pages(bytes + bytes / 4));
      slot.capacity = bytes + bytes / 4;
    }
    context.bases[buffer] = slot.memory;
  }
}

void Executable::read_born(Context& context, Host& host, uint32_t level) const {
  bool changed = context.stale[level] != 0;
  for (const auto& [slot, source] : born_[level - 1].symbols) {
    const int64_t value = host.read(source);
    changed |= value != context.table[slot];
    context.table[slot] = value;
  }
  if (!changed) return;
  std::fill(context.stale.begin() + level, context.stale.end(), uint8_t{1});
  shapes_.evaluate(level, context.table);
  for (size_t i = level; i < context.epochs.size(); ++i) ++context.epochs[i];
  context.stale[level] = 0;
}

void Host::launch(uint32_t, PreparedLaunch&, std::span<void* const>) { throw InternalError("this host launches nothing on a device"); }

// Out of the way of launches on this processor, which take some ten nanoseconds.
[[gnu::noinline, gnu::cold]] int64_t Executable::launch_on_device(Context& context, Host& host, uint32_t step, uint32_t index) const {
  const LaunchRecipe& recipe = recipes_[index];
  Launch& launch = context.launches[index];
  if (const uint64_t epoch = context.epochs[recipe.level]; launch.epoch != epoch) {
    launch.epoch = 0;  // an exception while preparing leaves it unprepared
    prepare_on_device(recipe, context.table, *device_, launch);
    launch.epoch = epoch;
  }
  point(recipe, context.bases, launch);
  host.launch(step, *launch.on_device, launch.data);
  return 0;
}

int64_t Executable::launch(Context& context, Host& host, uint32_t index) const {
  const LaunchRecipe& recipe = recipes_[index];
  Launch& launch = context.launches[index];
  if (const uint64_t epoch = context.epochs[recipe.level]; launch.epoch != epoch) {
    launch.epoch = 0;  // an exception while preparing leaves it unprepared
    prepare(recipe, context.table, context.threads, launch);
    launch.epoch = epoch;
  }
  if (launch.takes_long) host.takes_long();
  return escapement::run(recipe, launch, context.bases, parallel_);
}

// A size that leaves 64 bits, before anything has happened, is a call that this program does not fit: the next one may.
bool Executable::sizes_fit(Context& context, Host& host, uint32_t level, bool dirty) const {
  try {
    if (level == 0) refresh(context);
    else read_born(context, host, level);
  } catch (const UserError&) {
    if (dirty) throw;
    return false;
  }
  return true;
}

namespace {

class WatchedStep {
 public:
  WatchedStep(StepObserver* observer, uint32_t step) : observer_(observer) {
    if (observer_) [[unlikely]] observer_->begins(step);
  }
  ~WatchedStep() {
    if (observer_) [[unlikely]] observer_->ends();
  }
  WatchedStep(const WatchedStep&) = delete;
  WatchedStep& operator=(const WatchedStep&) = delete;

 private:
  StepObserver* const observer_;
};

}  // namespace

RunResult Executable::run(Context& context, Host& host) const {
  bool& dirty = context.dirty;
  dirty = false;
  const auto failed = [&](uint32_t step) {
    return RunResult{dirty ? RunStatus::check_failed_dirty : RunStatus::check_failed_clean, step};
  };
  if (!sizes_fit(context, host, 0, dirty)) return failed(0);
  note_threads(context);
  ControlledRun control;
  for (uint32_t step = 0; step < steps_.size(); ++step) {
    const StepCode& code = steps_[step];
    const WatchedStep watched(context.observer, step);
    control.step(code.dirties || code.dirties_when_done);
    if (code.allocate_begin != code.allocate_end) allocate(context, host, code);
    dirty |= code.dirties;
    switch (code.kind) {
      case StepCode::Kind::kernel:
        count(Stat::launches);
        if ((device_ ? launch_on_device(context, host, step, code.index) : launch(context, host, code.index)) != 0) return {RunStatus::gather_failed, step};
        break;
      case StepCode::Kind::call:
        count(Stat::library_calls);
        if (const bool fits = host.call(step); dirty |= code.dirties_when_done, !fits) return failed(step);
        break;
      case StepCode::Kind::check: {
        const CheckCode& check = checks_[code.index];
        if (!holds(check.kind, context.table[check.left], context.table[check.right])) return failed(step);
        break;
      }
      case StepCode::Kind::nothing: break;
    }
    if (code.level != 0 && !sizes_fit(context, host, code.level, dirty)) return failed(step);
  }
  return {};
}

}  // namespace escapement
