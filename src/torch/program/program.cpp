// See program.h. A call: bind symbols, take a context, point the input buffers at the arguments, run the plan, hand out the outputs.
#include "torch/program/program.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <unordered_map>

#include "jit/run/call_control.h"
#include "jit/run/context_pool.h"
#include "jit/run/plan_compiler.h"
#include "support/error.h"
#include "support/events.h"
#include "support/float_mode.h"
#include "support/interpreter.h"
#include "support/options.h"
#include "torch/program/calls.h"
#include "torch/program/device_call.h"
#include "torch/program/input_behind.h"
#include "torch/program/parallel.h"
#include "torch/program/profiled_call.h"
#include "torch/program/program_errors.h"
#include "torch/record/recorder_tape.h"

namespace escapement {
namespace {

struct OutputRecipe {
  Output::Kind kind = Output::Kind::none;
  uint32_t tensor = 0;         // value
  uint32_t same_as = 0;        // an earlier output with the same value, or itself
  Slot slot = 0;               // integer, boolean
  bool detached = false;       // autograd sees no view of what it lies in
  bool is_detach = false;      // ... and it is all of it (`x.detach()` of an argument)
  uint32_t behind = Id<void>::kNone;   // a library's view of this buffer
};

bool is_detached(const Trace& trace, ValueId v) {
  for (; trace[v].definition && trace[trace[v].definition].op != Op::detach; v = viewed_by(trace, v))
    if (!viewed_by(trace, v)) return false;
  return static_cast<bool>(trace[v].definition);
}

bool is_detach(const Trace& trace, ValueId v) {
  const InstrId made_by = trace[v].definition;
  return made_by && trace[made_by].op == Op::detach && !trace[trace[made_by].operands[0]].definition;
}

// ATen below autograd, without gradients, unseen by a recorder, without autocast: as the calls ran when they were recorded.
class LibraryMode {
 public:
  LibraryMode() = default;

 private:
  at::AutoDispatchBelowADInplaceOrView below_;
  c10::impl::ExcludeDispatchKeyGuard unseen_{c10::autocast_dispatch_keyset.add(kRecorderKey)};
  at::NoGradGuard no_grad_;
};

}  // namespace

struct Program::Impl {
  std::shared_ptr<const Compiled> compiled;
  std::vector<c10::IValue> host_objects;
  std::optional<bool> inference;
  EntryChecks entry;
  Executable executable;
  std::vector<TensorRecipe> tensors;
  std::vector<CallRecipe> calls;
  std::vector<uint32_t> call_of_step;        // index into calls
  std::vector<uint32_t> output_of_buffer;    // the first output that is this whole buffer, or none
  std::vector<uint32_t> output_buffers;      // per buffer: recipe of its root, for allocation
  std::vector<uint32_t> item_recipes;        // per value that a symbol is read from: its recipe
  std::vector<OutputRecipe> outputs;
  std::vector<std::pair<uint32_t, uint32_t>> inputs;  // buffer, input
  std::vector<uint32_t> written_inputs;      // by kernels
  std::vector<uint32_t> own_inputs;          // written by kernels or library calls
  std::vector<std::vector<uint32_t>> dead_before;  // on a device: per step, buffers that no later one needs
  class Call;
  mutable ContextPool<Call> pool;

  Impl(std::shared_ptr<const Compiled> given, Recording&& recording, const Options& options);
  void prepare_values(TensorRecipes& recipes);
  void prepare_outputs(TensorRecipes& recipes);
  void prepare_inputs();
  void prepare_ends();
  std::optional<int> device_number() const { return entry.device().is_cpu() ? std::nullopt : std::optional<int>(entry.device().index()); }
  const LaunchPlan& plan() const { return compiled->plan; }
};

// One running call: the executor's host.
class Program::Impl::Call final : public Host {
 public:
  explicit Call(const Impl& program)
      : program_(program), context_(program.executable.new_context()),
        tensors_(program.tensors, program.entry, *context_, program.plan().buffers.size()), states_(program.calls.size()) {
    if (program.device_number()) device_.emplace(program.entry.device());
  }

  Outcome run(std::span<const Argument> arguments, std::vector<c10::IValue>& outputs, std::span<const at::Tensor> offers, bool acted);
  Outcome run_profiled(std::span<const Argument> arguments, std::vector<c10::IValue>& outputs, std::span<const at::Tensor> offers, bool acted);
  Outcome run_on_device(std::span<const Argument> arguments, std::vector<c10::IValue>& outputs, std::span<const at::Tensor> offers, bool acted);
  Outcome run_plainly(std::span<const Argument> arguments, std::vector<c10::IValue>& outputs, std::span<const at::Tensor> offers, bool acted);
  void end() { tensors_.end(); }

  void* allocate(uint32_t buffer) override { return tensors_.allocate(program_.output_buffers[buffer]); }

  void takes_long() override {
    if (without_interpreter_) return;
    if (interpreter_lock().let_go != nullptr) tensors_.hold();
    without_interpreter_.emplace();
  }

  bool call(uint32_t step) override {
    takes_long();
    drop_dead(step);
    const uint32_t number = program_.call_of_step[step];
    return run_call(program_.calls[number], states_[number], tensors_, *context_, program_.tensors);
  }

  int64_t read(const Source& source) override;
  void launch(uint32_t step, PreparedLaunch& launch, std::span<void* const> data) override {
    drop_dead(step);
    device_->launch(launch, data);
  }

 private:
  void drop_dead(uint32_t step) {
    if (!device_) [[likely]] return;
    for (const uint32_t buffer : program_.dead_before[step]) tensors_.drop(buffer);
  }
  void bind(std::span<const Argument> arguments);
  RunResult execute();
  std::optional<RunResult> try_execute(Outcome& refused);
  void bump_versions() const;
  void deliver(std::vector<c10::IValue>& outputs);
  at::Tensor output(const OutputRecipe& wanted);

  const Impl& program_;
  std::unique_ptr<Context> context_;
  TensorTable tensors_;
  std::vector<CallState> states_;
  std::optional<DeviceCall> device_;
  std::optional<WithoutInterpreter> without_interpreter_;   // from the first step that takes long
  bool acted_ = false;                       // before this program began
};

namespace {

constexpr uint32_t kNone = Id<void>::kNone;

int64_t load_integer(const void* memory, DType type) {
  const uint64_t bits = load_bits(memory, type);
  return is_float(type) ? static_cast<int64_t>(double_from_bits(bits, compute_type(type))) : int_from_bits(bits, type);
}

}  // namespace

namespace {

int64_t output_bytes(const TensorRecipe& recipe, std::span<const int64_t> table) {
  int64_t last = 0;
  for (size_t d = 0; d < recipe.sizes.size(); ++d) {
    if (table[recipe.sizes[d]] == 0) return 0;
    last += (table[recipe.sizes[d]] - 1) * table[recipe.strides[d]];
  }
  return (last + 1) * static_cast<int64_t>(recipe.dtype.itemsize());
}

}  // namespace

// --- preparing

Program::Impl::Impl(std::shared_ptr<const Compiled> given, Recording&& recording, const Options& options)
    : compiled(std::move(given)), host_objects(std::move(recording.host_objects)), inference(recording.inference),
      entry(compiled->plan, std::move(recording.captured), static_cast<uint32_t>(options.drop_guard), recording.device),
      executable(compiled->plan, compiled->code, torch_parallel_host(), static_cast<int>(options.threads), options.hot_launches, device_number()) {
  const CallForms forms = device_number() ? CallForms::own : options.pack_weights ? CallForms::packed : CallForms::planned;
  const auto entry_relations = static_cast<uint32_t>(entry.relations().size());
  const auto drop_guard = static_cast<uint32_t>(options.drop_guard);
  if (drop_guard > entry_relations && executable.leave_out_check(drop_guard - entry_relations)) count(Stat::dropped_guards);
  TensorRecipes recipes(plan(), executable);
  call_of_step.assign(plan().steps.size(), 0);
  for (uint32_t step = 0; step < plan().steps.size(); ++step) {
    const auto* call = std::get_if<CallStep>(&plan().steps[step]);
    if (call == nullptr) continue;
    call_of_step[step] = static_cast<uint32_t>(calls.size());
    calls.push_back(make_call(plan(), *call, recipes, executable, host_objects, forms, static_cast<size_t>(options.pack_limit) << 20));
  }
  prepare_values(recipes);
  prepare_outputs(recipes);
  prepare_inputs();
  if (device_number()) prepare_ends();
  executable.finish(plan());
  recipes.settle();
  for (uint32_t step = 0; step < plan().steps.size(); ++step) {
    if (std::holds_alternative<CallStep>(plan().steps[step])) settle_call(calls[call_of_step[step]], step, recipes, executable);
  }
  tensors = std::move(recipes).take();
}

// Roots of output buffers, and the values that symbols are read from.
void Program::Impl::prepare_values(TensorRecipes& recipes) {
  output_buffers.assign(plan().buffers.size(), kNone);
  for (uint32_t buffer = 0; buffer < plan().buffers.size(); ++buffer) {
    if (plan().buffers[buffer].kind == Buffer::Kind::output) output_buffers[buffer] = recipes.add(plan().buffers[buffer].root);
  }
  item_recipes.assign(plan().trace.values.size(), kNone);
  for (const BornLevel& level : find_born_levels(plan())) {
    for (const auto& [slot, source] : level.symbols) item_recipes[source.value.index] = recipes.add(source.value);
  }
}

void Program::Impl::prepare_outputs(TensorRecipes& recipes) {
  const std::vector<Output>& wanted = plan().trace.outputs;
  std::unordered_map<uint32_t, uint32_t> first_of;   // by value: an output that repeats another is the same tensor
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    OutputRecipe recipe{wanted[i].kind, 0, i, 0};
    if (recipe.kind == Output::Kind::value || recipe.kind == Output::Kind::input) {
      recipe.kind = plan().trace[wanted[i].value].kind == ValueKind::none ? Output::Kind::none : Output::Kind::value;
      if (recipe.kind == Output::Kind::value) {
        recipe.tensor = recipes.add(wanted[i].value);
        recipe.detached = is_detached(plan().trace, wanted[i].value);
        recipe.is_detach = is_detach(plan().trace, wanted[i].value);
        if (recipes[recipe.tensor].kind == Buffer::Kind::call) recipe.behind = buffer_behind(plan(), wanted[i].value);
        recipe.same_as = first_of.try_emplace(wanted[i].value.index, i).first->second;
      }
    } else if (recipe.kind != Output::Kind::none) {
      recipe.slot = executable.slot(wanted[i].dim);
    }
    outputs.push_back(recipe);
  }
  output_of_buffer.assign(plan().buffers.size(), kNone);
  for (auto i = static_cast<uint32_t>(outputs.size()); i-- > 0;) {
    if (outputs[i].kind != Output::Kind::value) continue;
    const TensorRecipe& recipe = recipes[outputs[i].tensor];
    if (recipe.kind == Buffer::Kind::output && recipe.whole) output_of_buffer[recipe.buffer] = i;
  }
}

void Program::Impl::prepare_inputs() {
  for (uint32_t buffer = 0; buffer < plan().buffers.size(); ++buffer) {
    if (plan().buffers[buffer].kind == Buffer::Kind::input) inputs.emplace_back(buffer, plan().buffers[buffer].input);
  }
  for (const Step& step : plan().steps) {
    const auto* kernel = std::get_if<KernelStep>(&step);
    if (kernel == nullptr) continue;
    const LoopNest& nest = plan().kernels[kernel->kernel].nest;
    for (size_t i = 0; i < nest.params.size(); ++i) {
      if (!nest.params[i].written) continue;
      if (const auto input = input_behind(plan(), plan().buffers[kernel->operands[i].buffer].root)) written_inputs.push_back(*input);
    }
  }
  own_inputs = written_inputs;
  for (const CallRecipe& call : calls) own_inputs.insert(own_inputs.end(), call.written_inputs.begin(), call.written_inputs.end());
}

// What a step has made may be read when it is done: so a buffer goes when the next step begins that could need its memory.
void Program::Impl::prepare_ends() {
  const auto end = static_cast<uint32_t>(plan().steps.size());
  dead_before.resize(end);
  for (uint32_t buffer = 0; buffer < plan().buffers.size(); ++buffer) {
    uint32_t step = plan().buffers[buffer].last + 1;
    while (step < end && std::holds_alternative<CheckStep>(plan().steps[step])) ++step;
    if (plan().buffers[buffer].kind == Buffer::Kind::output && step < end) dead_before[step].push_back(buffer);
  }
}

// --- running

int64_t Program::Impl::Call::read(const Source& source) {
  const uint32_t index = program_.item_recipes[source.value.index];
  const TensorRecipe& recipe = program_.tensors[index];
  if (source.kind == Source::Kind::item) {
    if (device_) return read_integer(tensors_.get(index));
    return load_integer(tensors_.address(index), program_.plan().trace.type(source.value).dtype);
  }
  const at::Tensor& tensor = tensors_.owner(recipe.buffer);
  ESCAPEMENT_CHECK(tensor.defined(), "a size is read from a value that no call returned");
  return source.kind == Source::Kind::value_size ? tensor.size(source.dim) : tensor.stride(source.dim);
}

void Program::Impl::Call::bind(std::span<const Argument> arguments) {
  tensors_.begin(arguments);
  program_.entry.bind(arguments, context_->symbols);
  // A copy that torch makes when it is written (`_lazy_clone`) moves: before addresses are taken.
  for (const uint32_t input : program_.own_inputs) static_cast<void>(tensors_.input(input).mutable_data_ptr());
  for (const auto& [buffer, input] : program_.inputs) {
    context_->bases[buffer] = const_cast<void*>(tensors_.input(input).const_data_ptr());
  }
}

// The interpreter's lock is let go of at most once in a run, and taken again at its end.
RunResult Program::Impl::Call::execute() {
  struct End {
    std::optional<WithoutInterpreter>& without;
    ~End() { without.reset(); }
  } end{without_interpreter_};
  if (program_.calls.empty() && !device_) return program_.executable.run(*context_, *this);
  const LibraryMode mode;
  return program_.executable.run(*context_, *this);
}

// Nothing: an operator or the device's driver refused, and nothing had happened.
std::optional<RunResult> Program::Impl::Call::try_execute(Outcome& refused) {
  refused = Outcome::refused_clean;
  try {
    const RunResult result = execute();
    if (result.status == RunStatus::gather_failed && !context_->dirty && !acted_) return {};
    return result;
  } catch (const CallStopped&) {
    throw;
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    if (dynamic_cast<const DeviceFailure*>(&error) != nullptr) {
      log_event("device", error.what());
      refused = Outcome::device_failed;
    }
    if (!context_->dirty && !acted_) return {};
    bump_versions();
    throw;
  }
}

// A write by a kernel is a write like any other: autograd and packed weights look at the counter.
void Program::Impl::Call::bump_versions() const {
  for (const uint32_t input : program_.written_inputs) {
    const at::Tensor& written = tensors_.input(input);
    if (!written.is_inference()) written.unsafeGetTensorImpl()->bump_version();
  }
}

// Autograd has not seen the library make it: writes through it count as those to what it is a view of, and the caller sees that it is one where it has that dtype.
at::Tensor as_view_of(const at::Tensor& base, at::Tensor seen, bool detached) {
  if (seen.is_same(base) || !base.defined() || !seen.has_storage() || !seen.storage().is_alias_of(base.storage())) return seen;
  if (seen.is_inference() || base.is_inference()) return seen;
  const bool alike = seen.dtype() == base.dtype() && seen.is_conj() == base.is_conj() && seen.is_neg() == base.is_neg();
  if (alike) return at::as_strided(detached ? base.detach() : base, seen.sizes(), seen.strides(), seen.storage_offset());
  seen.unsafeGetTensorImpl()->set_version_counter(base.unsafeGetTensorImpl()->version_counter());
  return seen;
}

at::Tensor Program::Impl::Call::output(const OutputRecipe& wanted) {
  const TensorRecipe& recipe = program_.tensors[wanted.tensor];
  if (recipe.kind == Buffer::Kind::input && !recipe.whole) {
    // A view that autograd and the caller see as a view of their tensor.
    const at::Tensor base = wanted.detached ? tensors_.input(recipe.input).detach() : tensors_.input(recipe.input);
    if (wanted.is_detach) return base;
    if (recipe.alike) return at::as_strided(base, base.sizes(), base.strides(), base.storage_offset());
    return at::as_strided(base, tensors_.sizes(recipe), tensors_.strides(recipe), base.storage_offset() + tensors_.offset(recipe));
  }
  at::Tensor tensor = tensors_.get(wanted.tensor);
  if (is_borrowed(tensor)) return tensor.clone();
  if (wanted.behind == kNone || wanted.behind == recipe.buffer) return tensor;
  const Buffer& behind = program_.plan().buffers[wanted.behind];
  return as_view_of(behind.kind == Buffer::Kind::input ? tensors_.input(behind.input) : tensors_.owner(wanted.behind), std::move(tensor), wanted.detached);
}

void Program::Impl::Call::deliver(std::vector<c10::IValue>& outputs) {
  const size_t first = outputs.size();
  for (uint32_t i = 0; i < program_.outputs.size(); ++i) {
    const OutputRecipe& recipe = program_.outputs[i];
    switch (recipe.kind) {
      case Output::Kind::none: outputs.emplace_back(); break;
      case Output::Kind::integer: outputs.emplace_back(context_->table[recipe.slot]); break;
      case Output::Kind::boolean: outputs.emplace_back(context_->table[recipe.slot] != 0); break;
      default:
        if (recipe.same_as != i) outputs.push_back(c10::IValue(outputs[first + recipe.same_as]));
        else outputs.emplace_back(output(recipe));
    }
  }
}

Program::Outcome Program::Impl::Call::run(std::span<const Argument> arguments, std::vector<c10::IValue>& outputs,
                                          std::span<const at::Tensor> offers, bool acted) {
  if (device_) [[unlikely]] return run_on_device(arguments, outputs, offers, acted);
  return profiles_calls() ? run_profiled(arguments, outputs, offers, acted) : run_plainly(arguments, outputs, offers, acted);
}

[[gnu::noinline, gnu::cold]] Program::Outcome Program::Impl::Call::run_on_device(std::span<const Argument> arguments, std::vector<c10::IValue>& outputs,
                                                                                 std::span<const at::Tensor> offers, bool acted) {
  const c10::DeviceGuard there(program_.entry.device());
  device_->begin();
  return profiles_calls() ? run_profiled(arguments, outputs, offers, acted) : run_plainly(arguments, outputs, offers, acted);
}

[[gnu::noinline, gnu::cold]] Program::Outcome Program::Impl::Call::run_profiled(std::span<const Argument> arguments, std::vector<c10::IValue>& outputs,
                                                                                std::span<const at::Tensor> offers, bool acted) {
  std::optional<ProfiledCall> profiled;
  if (auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION)) profiled.emplace(std::move(*callbacks), program_.plan(), *context_);
  return run_plainly(arguments, outputs, offers, acted);
}

Program::Outcome Program::Impl::Call::run_plainly(std::span<const Argument> arguments, std::vector<c10::IValue>& outputs,
                                                  std::span<const at::Tensor> offers, bool acted) {
  acted_ = acted;
  std::optional<c10::InferenceMode> mode;
  if (program_.inference) [[unlikely]] mode.emplace(*program_.inference);
  bind(arguments);
  tensors_.offer(offers, program_.output_of_buffer);
  Outcome refused;
  const std::optional<RunResult> result = try_execute(refused);
  if (!result) return refused;
  if (result->status != RunStatus::check_failed_clean) bump_versions();
  switch (result->status) {
    case RunStatus::check_failed_clean: return Outcome::check_failed_clean;
    case RunStatus::check_failed_dirty: return Outcome::check_failed_dirty;
    case RunStatus::gather_failed: raise_gather_failure(std::get<KernelStep>(program_.plan().steps[result->step]).failure);
    case RunStatus::done: break;
  }
  deliver(outputs);
  return Outcome::done;
}

Program::Program(std::shared_ptr<const Compiled> compiled, Recording&& recording)
    : Program(std::move(compiled), std::move(recording), default_options()) {}
Program::Program(std::shared_ptr<const Compiled> compiled, Recording&& recording, const Options& options)
    : impl_([&] {
        const FloatModeGuard plain(kPlainFloatMode);  // of the constants that kernels are given
        return std::make_unique<Impl>(std::move(compiled), std::move(recording), options);
      }()) {}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

bool Program::fits(std::span<const Argument> arguments) const { return impl_->entry.fits(arguments); }
void Program::compile_guards() const {
  const GuardCompiler compiler = impl_->compiled->guards;
  if (compiler == nullptr) return;
  try {
    if (impl_->entry.compile(compiler)) count(Stat::guards_compiled);
  } catch (const InternalError&) {
    count(Reason::guards_interpreted);  // slower, and as right as before
  }
}
Miss Program::explain_miss(std::span<const Argument> arguments) const { return impl_->entry.explain(arguments); }
const std::shared_ptr<const Compiled>& Program::compiled() const { return impl_->compiled; }
std::span<const at::Tensor> Program::captured() const { return impl_->entry.captured(); }
const std::vector<c10::IValue>& Program::host_objects() const { return impl_->host_objects; }
c10::Device Program::device() const { return impl_->entry.device(); }
std::optional<bool> Program::inference() const { return impl_->inference; }

Program::Memory Program::measure(std::span<const Argument> arguments) const {
  std::vector<int64_t> symbols(impl_->executable.shapes().symbol_count());
  impl_->entry.bind(arguments, symbols);
  const Executable::Memory found = impl_->executable.measure(symbols);
  Memory memory{0, found.arena_bytes, found.complete};
  for (const uint32_t index : impl_->output_buffers) {
    if (index == kNone) continue;
    const TensorRecipe& recipe = impl_->tensors[index];
    if (recipe.level == 0) memory.output_bytes += output_bytes(recipe, found.table);
    else memory.complete = false;
  }
  return memory;
}

Program::Outcome Program::run(std::span<const Argument> arguments, std::vector<c10::IValue>& outputs,
                              std::span<const at::Tensor> offers, bool acted) const {
  struct Lease {  // gives the context back, emptied, however the call ends
    const Impl& impl;
    std::unique_ptr<Impl::Call> call;
    ~Lease() {
      call->end();
      impl.pool.give(std::move(call));
    }
  } lease{*impl_, impl_->pool.take([&] { return std::make_unique<Impl::Call>(*impl_); })};
  return lease.call->run(arguments, outputs, offers, acted);
}

std::vector<std::string> Program::relations() const {
  std::vector<std::string> lines;
  for (const Relation& relation : impl_->entry.relations()) lines.push_back(to_string(impl_->plan().trace, relation));
  return lines;
}

std::string Program::describe_calls() const {
  std::string text;
  for (const CallRecipe& call : impl_->calls) text += describe(call) + "\n";
  return text;
}

}  // namespace escapement
