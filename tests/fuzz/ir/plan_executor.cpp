// See plan_executor.h.
#include "fuzz/ir/plan_executor.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "fuzz/ir/guarded_memory.h"
#include "fuzz/ir/library.h"
#include "jit/run/interpreted_kernel.h"
#include "support/error.h"
#include "trace/evaluator_ops.h"
#include "trace/guard_relation.h"

namespace escapement::fuzz {
namespace {

constexpr unsigned char kPoison = 0xcd;

int thread_count = 1;

// The last chunk first.
ParallelHost backwards() {
  return {[](int64_t count, ParallelHost::Body body, void* context) {
            for (int64_t i = count; i-- > 0;) body(i, i + 1, context);
          },
          [] { return thread_count; }};
}

// The memory of one call.
class Memory : public Host {
 public:
  using Storage = std::shared_ptr<std::vector<std::byte>>;

  Memory(const LaunchPlan& plan, Context& context, GuardedMemory::Side side) : plan_(plan), trace_(plan.trace), context_(context), side_(side) {
    blocks_.resize(plan.buffers.size());
  }

  void bind(const std::vector<HostInput>& inputs) {
    for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
      if (plan_.buffers[b].kind != Buffer::Kind::input) continue;
      const auto& tensor = std::get<HostTensor>(inputs[plan_.buffers[b].input]);
      context_.bases[b] = block_of(tensor.storage).data() + tensor.offset * size_of(tensor.dtype);
      given_[b] = tensor;
    }
  }

  void* allocate(uint32_t buffer) override { return fresh(buffer, static_cast<size_t>(value(plan_.buffers[buffer].bytes))); }

  bool call(uint32_t step) override {
    const Instr& instr = trace_[std::get<CallStep>(plan_.steps[step]).instr];
    if (instr.attrs.target.ends_with("::same")) return share(instr.results[0], instr.operands[0]);
    std::vector<HostTensor> operands;
    for (const ValueId v : instr.operands) operands.push_back(gather(v));
    const std::vector<HostTensor> results = info(instr.op).kind == OpKind::contract ? contract(instr, operands) : library.call(trace_, instr, operands);
    for (const uint32_t operand : instr.writes) scatter(instr.operands[operand], operands[operand]);
    for (size_t i = 0; i < instr.results.size(); ++i) take(instr.results[i], results[i]);
    return true;
  }

  int64_t read(const Source& source) override {
    const HostTensor tensor = gather(source.value, source.kind == Source::Kind::item);
    if (source.kind == Source::Kind::value_size) return sizes_[source.value.index].at(source.dim);
    if (source.kind == Source::Kind::value_stride) return tensor.strides.at(source.dim);
    return int_from_bits(tensor.load(tensor.places().at(0)), tensor.dtype);
  }

  HostOutput output(const Output& output) {
    switch (output.kind) {
      case Output::Kind::value:
      case Output::Kind::input: return leaving(output.value);
      case Output::Kind::integer: return value(output.dim);
      case Output::Kind::boolean: return value(output.dim) != 0;
      case Output::Kind::none: break;
    }
    return std::monostate();
  }

  // What the kernels left in the inputs' memory goes back to the tensors.
  void write_back() {
    for (auto& [storage, block] : inputs_) std::copy_n(block.data(), storage->size(), reinterpret_cast<char*>(storage->data()));
  }

  bool intact() const {
    return std::all_of(inputs_.begin(), inputs_.end(), [](const auto& entry) { return entry.second.intact(); }) &&
           std::all_of(blocks_.begin(), blocks_.end(), [](const GuardedMemory& b) { return b.data() == nullptr || b.intact(); });
  }

  Library library;

 private:
  int64_t value(Dim d) const { return trace_.dims.evaluate(d, std::span(context_.table).first(trace_.dims.symbol_count())); }

  GuardedMemory& block_of(const Storage& storage) {
    const auto [entry, inserted] = inputs_.try_emplace(storage);
    if (inserted) {
      entry->second = GuardedMemory(storage->size(), side_);
      std::copy_n(reinterpret_cast<const char*>(storage->data()), storage->size(), entry->second.data());
    }
    return entry->second;
  }

  void* fresh(uint32_t buffer, size_t bytes) {
    blocks_[buffer] = GuardedMemory(bytes, side_);
    std::memset(blocks_[buffer].data(), kPoison, bytes);
    return context_.bases[buffer] = blocks_[buffer].data();
  }

  // Where a value lies now: its root's first byte, and its layout.
  HostTensor layout_of(ValueId v) const {
    const TensorType& type = trace_.type(v);
    HostTensor t;
    t.dtype = type.dtype;
    t.offset = value(type.offset);
    for (const Dim d : type.sizes) t.sizes.push_back(value(d));
    for (const Dim d : type.strides) t.strides.push_back(value(d));
    return t;
  }
  char* address(ValueId v, int64_t place, DType type) const {
    return static_cast<char*>(context_.bases[plan_.buffer_of[v.index]]) + place * size_of(type);
  }

  // A dense copy of a value's elements.
  HostTensor gather(ValueId v, bool wanted = true) const {
    if (!wanted) return {};
    const HostTensor from = layout_of(v);
    HostTensor to = HostTensor::make(from.dtype, from.sizes);
    int64_t at = 0;
    for (const int64_t place : from.places()) std::memcpy(to.element(at++), address(v, place, from.dtype), static_cast<size_t>(size_of(from.dtype)));
    return to;
  }
  void scatter(ValueId v, const HostTensor& from) const {
    const HostTensor to = layout_of(v);
    int64_t at = 0;
    for (const int64_t place : to.places()) std::memcpy(address(v, place, to.dtype), from.element(at++), static_cast<size_t>(size_of(to.dtype)));
  }

  // A result: into the memory that was planned for it, or memory of its own.
  void take(ValueId v, const HostTensor& result) {
    const uint32_t buffer = plan_.buffer_of[v.index];
    if (buffer == Id<void>::kNone) return;
    sizes_[v.index] = result.sizes;
    if (plan_.buffers[buffer].kind == Buffer::Kind::call) fresh(buffer, result.storage->size());
    const auto* const from = reinterpret_cast<const char*>(result.storage->data());
    std::copy_n(from, result.storage->size(), static_cast<char*>(context_.bases[buffer]));
  }

  bool share(ValueId result, ValueId operand) {
    const uint32_t buffer = plan_.buffer_of[result.index];
    if (buffer == Id<void>::kNone) return true;
    const HostTensor layout = layout_of(operand);
    sizes_[result.index] = layout.sizes;
    context_.bases[buffer] = address(operand, layout.offset, layout.dtype);
    shared_[buffer] = {plan_.buffer_of[operand.index], layout.offset};
    return true;
  }

  // The buffer whose memory a buffer really is, and from which element on.
  std::pair<uint32_t, int64_t> owner(uint32_t buffer) const {
    int64_t offset = 0;
    for (auto of = shared_.find(buffer); of != shared_.end(); of = shared_.find(buffer)) buffer = of->second.first, offset += of->second.second;
    return {buffer, offset};
  }

  std::vector<HostTensor> contract(const Instr& instr, const std::vector<HostTensor>& operands) const {
    std::vector<const TensorType*> types;
    for (const ValueId v : instr.operands) types.push_back(&trace_.type(v));
    const HostTensor layout = layout_of(instr.results[0]);
    const HostTensor result = HostTensor::make(layout.dtype, layout.sizes, layout.strides);
    reference::contract({instr, types, operands, result, [this](Dim d) { return value(d); }});
    return {result};
  }

  HostTensor leaving(ValueId v) {
    const auto [buffer, offset] = owner(plan_.buffer_of[v.index]);
    HostTensor t = layout_of(v);
    t.offset += offset;
    if (const auto given = given_.find(buffer); given != given_.end()) {
      t.storage = given->second.storage;
      t.offset += given->second.offset;
      return t;
    }
    Storage& storage = leaving_[buffer];
    if (!storage) storage = plan_.buffers[buffer].kind == Buffer::Kind::temporary ? copy_of_temporary(buffer) : copy_of_block(buffer);
    t.storage = storage;
    return t;
  }

  Storage copy_of_block(uint32_t buffer) const {
    const auto* begin = reinterpret_cast<const std::byte*>(blocks_[buffer].data());
    return std::make_shared<std::vector<std::byte>>(begin, begin + blocks_[buffer].size());
  }
  // Lives until the end, since something that leaves the call shares its memory.
  Storage copy_of_temporary(uint32_t buffer) const {
    const auto* begin = static_cast<const std::byte*>(context_.bases[buffer]);
    return std::make_shared<std::vector<std::byte>>(begin, begin + value(plan_.buffers[buffer].bytes));
  }

  const LaunchPlan& plan_;
  const Trace& trace_;
  Context& context_;
  GuardedMemory::Side side_;
  std::vector<GuardedMemory> blocks_;            // per buffer that is no input and no temporary
  std::map<Storage, GuardedMemory> inputs_;
  std::map<uint32_t, HostTensor> given_;         // per buffer of an input
  std::map<uint32_t, Storage> leaving_;          // per buffer of an output
  std::map<uint32_t, std::pair<uint32_t, int64_t>> shared_;  // per buffer of a call's result: the operand's, and where in it
  std::map<uint32_t, std::vector<int64_t>> sizes_;  // per result of a call
};

bool entry_guards_hold(const LaunchPlan& plan, std::span<const int64_t> symbols) {
  return std::all_of(plan.entry.begin(), plan.entry.end(), [&](uint32_t g) {
    const Guard& guard = plan.trace.guards[g];
    return holds(guard.kind, plan.trace.dims.evaluate(guard.left, symbols), plan.trace.dims.evaluate(guard.right, symbols));
  });
}

}  // namespace

PlanExecutor::PlanExecutor(const LaunchPlan& plan, std::span<const std::shared_ptr<KernelCode>> code)
    : plan_(plan), executable_(std::make_unique<Executable>(plan, code, backwards(), 0)) {
  executable_->finish(plan);
  context_ = executable_->new_context();
}

PlanExecutor::~PlanExecutor() = default;

Result PlanExecutor::run(const std::vector<HostInput>& inputs, const std::vector<int64_t>& symbols, int threads) {
  Result result;
  result.inputs = deep_copy(inputs);
  if (!entry_guards_hold(plan_, symbols)) {
    result.failed_guard = 0;
    return result;
  }
  thread_count = threads;
  for (const uint32_t symbol : executable_->entry_symbols()) context_->symbols[symbol] = symbols[symbol];
  Memory memory(plan_, *context_, threads % 2 == 0 ? GuardedMemory::Side::before : GuardedMemory::Side::after);
  memory.bind(result.inputs);
  const RunResult done = executable_->run(*context_, memory);
  ESCAPEMENT_CHECK(memory.intact(), "something was written outside of its memory");
  if (done.status == RunStatus::gather_failed) result.refused = true;
  else if (done.status != RunStatus::done) result.failed_guard = 0;
  else for (const Output& output : plan_.trace.outputs) result.outputs.push_back(memory.output(output));
  memory.write_back();
  return result;
}

std::vector<std::shared_ptr<KernelCode>> interpreted(const std::vector<Kernel>& kernels) {
  std::vector<std::shared_ptr<KernelCode>> code;
  for (const Kernel& kernel : kernels) code.push_back(std::make_shared<InterpretedKernel>(kernel.nest));
  return code;
}

}  // namespace escapement::fuzz
