// Buffers by liveness, slots by linear scan. A slot is as large as its largest buffer, so taking any free slot never costs
// more than a new one; a free slot whose size is the same expression is preferred. A kernel may write its result over an operand
// that dies there if it only reads that one, both are accessed at equal addresses and the first store is not before the last load.
#include "kernels/memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "support/error.h"

namespace escapement {
namespace {

constexpr uint32_t kNone = 0xffffffffu;

class Memory {
 public:
  Memory(LaunchPlan& plan, const CheckedVector<std::vector<ValueId>>& roots)
      : plan_(plan), trace_(plan.trace), roots_(roots), buffer_of_root_(trace_.values.size(), kNone) {}

  void run() {
    find_outputs();
    find_kept();
    add_inputs();
    for (uint32_t s = 0; s < plan_.steps.size(); ++s) visit_step(s);
    extend_outputs();
    extend_shared();
    assign_slots();
    release_calls();
    plan_.buffer_of.assign(trace_.values.size(), kNone);
    for (size_t v = 0; v < trace_.values.size(); ++v) {
      const ValueId root = trace_.values[v].type.root;
      if (root) plan_.buffer_of[v] = buffer_of_root_[root];
    }
  }

 private:
  // Roots whose memory is the host's: what leaves the call, or must be a tensor of torch's.
  void find_outputs() {
    leaves_.assign(trace_.values.size(), false);
    IdMap<Storage, bool> leaving(trace_.storage_count);
    for (const Output& o : trace_.outputs) {
      if (o.kind == Output::Kind::none || !o.value || trace_[o.value].kind == ValueKind::none) continue;
      leaves_[trace_.type(o.value).root] = true;
      leaving[trace_.type(o.value).storage] = true;
    }
    // ATen refuses operands that overlap where they are of one storage of its own: not of the arena, where each tensor seems to have another.
    for (const Instr& instr : trace_.instrs) {
      if (instr.op != Op::call || instr.why != Reason::call_overlap) continue;
      for (const ValueId operand : instr.operands)
        if (operand) leaves_[trace_.type(operand).root] = true;
    }
    // What shares memory with an output leaves with it: a call may return its argument's memory as a value of its own.
    for (uint32_t i = 0; i < trace_.values.size(); ++i) {
      const TensorType& type = trace_.type(ValueId(i));
      if (type.root == ValueId(i) && type.storage && leaving[type.storage]) leaves_[ValueId(i)] = true;
    }
  }

  // An operator of somebody else's may keep a tensor that it is given (in a list, or because a thread of its own still reads it): those get
  // memory of their own, which is theirs when the call is over. The bodies of a flow may hold such operators.
  void find_kept() {
    kept_.assign(trace_.values.size(), false);
    for (const Instr& instr : trace_.instrs) {
      if (instr.op != Op::call || instr.attrs.target.starts_with("aten::")) continue;
      for (const ValueId operand : instr.operands)
        if (operand && trace_[operand].kind == ValueKind::tensor) kept_[trace_.type(operand).root] = true;
    }
  }

  bool is_of_host(ValueId root) const { return leaves_[root] || kept_[root]; }

  uint32_t add_buffer(Buffer::Kind kind, ValueId root, uint32_t step) {
    Buffer b;
    b.kind = kind;
    b.root = root;
    b.first = b.last = step;
    if (kind == Buffer::Kind::output || kind == Buffer::Kind::temporary) b.bytes = bytes_of(trace_.dims, trace_.type(root));
    plan_.buffers.push_back(b);
    return buffer_of_root_[root] = static_cast<uint32_t>(plan_.buffers.size() - 1);
  }

  void add_inputs() {
    for (uint32_t i = 0; i < trace_.inputs.size(); ++i) {
      if (trace_.inputs[i].kind != Input::Kind::tensor) continue;
      const uint32_t b = add_buffer(Buffer::Kind::input, trace_.inputs[i].value, 0);
      plan_.buffers[b].input = i;
      plan_.buffers[b].last = static_cast<uint32_t>(plan_.steps.size());
    }
  }

  uint32_t use(ValueId root, uint32_t step) {
    uint32_t b = buffer_of_root_[root];
    if (b == kNone) b = add_buffer(is_of_host(root) ? Buffer::Kind::output : Buffer::Kind::temporary, root, step);
    plan_.buffers[b].last = std::max(plan_.buffers[b].last, step);
    return b;
  }

  void visit_step(uint32_t s) {
    if (auto* kernel = std::get_if<KernelStep>(&plan_.steps[s])) {
      for (size_t i = 0; i < kernel->operands.size(); ++i) kernel->operands[i].buffer = use(roots_[s][i], s);
    } else if (auto* call = std::get_if<CallStep>(&plan_.steps[s])) {
      visit_call(*call, s);
    }
  }

  void visit_call(CallStep& call, uint32_t s) {
    const Instr& instr = trace_[call.instr];
    for (ValueId v : instr.operands) {
      if (v && trace_[v].kind == ValueKind::tensor) use(trace_.type(v).root, s);
    }
    call.into_planned = can_plan_result(instr);
    for (ValueId v : instr.results) {
      if (trace_[v].kind != ValueKind::tensor || trace_.type(v).root != v) continue;
      if (call.into_planned) {
        use(v, s);
      } else {
        add_buffer(Buffer::Kind::call, v, s);
      }
    }
  }

  // The size is known before the call, ATen has an out= form, and the memory does not leave the call.
  bool can_plan_result(const Instr& instr) const {
    if (info(instr.op).kind != OpKind::contract || instr.op == Op::attention || instr.results.size() != 1) return false;
    const ValueId v = instr.results[0];
    return trace_.type(v).root == v && !is_of_host(v);
  }

  void extend_outputs() {
    for (Buffer& b : plan_.buffers) {
      if (leaves_[b.root]) b.last = static_cast<uint32_t>(plan_.steps.size());
    }
  }

  // A call may return its argument's memory as a value of its own (a view in another dtype): while one of them lives, all do.
  void extend_shared() {
    IdMap<Storage, uint32_t> last(trace_.storage_count, 0);
    for (const Buffer& b : plan_.buffers) {
      uint32_t& of_storage = last[trace_.type(b.root).storage];
      of_storage = std::max(of_storage, b.last);
    }
    for (Buffer& b : plan_.buffers) b.last = last[trace_.type(b.root).storage];
  }

  // --- slots
  struct Slot {
    Dim bytes;
    bool free = false;
  };

  void assign_slots() {
    CheckedVector<std::vector<uint32_t>> starts(plan_.steps.size() + 1), ends(plan_.steps.size() + 1);
    for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
      if (plan_.buffers[b].kind != Buffer::Kind::temporary) continue;
      starts[plan_.buffers[b].first].push_back(b);
      ends[plan_.buffers[b].last].push_back(b);
    }
    for (uint32_t s = 0; s < plan_.steps.size(); ++s) {
      std::vector<uint32_t> taken;  // dying operands whose slot a result of this step has taken over
      for (uint32_t b : starts[s]) {
        const uint32_t over = operand_to_overwrite(s, b, ends[s], taken);
        if (over != kNone) taken.push_back(over);
        plan_.buffers[b].slot = over != kNone ? plan_.buffers[over].slot : free_slot(plan_.buffers[b].bytes);
      }
      for (uint32_t b : ends[s]) {
        if (std::find(taken.begin(), taken.end(), b) == taken.end()) slots_[plan_.buffers[b].slot].free = true;
      }
    }
    plan_.slot_count = static_cast<uint32_t>(slots_.size());
  }

  uint32_t free_slot(Dim bytes) {
    uint32_t any = kNone;
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      if (!slots_[i].free) continue;
      if (trace_.dims.same(slots_[i].bytes, bytes)) {
        any = i;
        break;
      }
      any = i;
    }
    if (any == kNone) {
      slots_.push_back({bytes, false});
      return static_cast<uint32_t>(slots_.size() - 1);
    }
    slots_[any] = {bytes, false};
    return any;
  }

  uint32_t operand_to_overwrite(uint32_t s, uint32_t result, const std::vector<uint32_t>& dying, const std::vector<uint32_t>& taken) const {
    const auto* step = std::get_if<KernelStep>(&plan_.steps[s]);
    if (!step) return kNone;
    for (uint32_t b : dying) {
      const bool fits = b != result && plan_.buffers[b].first < s && trace_.dims.same(plan_.buffers[b].bytes, plan_.buffers[result].bytes);
      if (fits && std::find(taken.begin(), taken.end(), b) == taken.end() && may_overwrite(*step, b, result)) return b;
    }
    return kNone;
  }

  std::optional<uint32_t> only_operand(const KernelStep& step, uint32_t buffer) const {
    std::optional<uint32_t> found;
    for (uint32_t i = 0; i < step.operands.size(); ++i) {
      if (step.operands[i].buffer != buffer) continue;
      if (found) return {};
      found = i;
    }
    return found;
  }

  bool may_overwrite(const KernelStep& step, uint32_t from, uint32_t to) const {
    const auto read = only_operand(step, from), write = only_operand(step, to);
    if (!read || !write || reads_elsewhere(step, from)) return false;
    const KernelOperand& r = step.operands[*read];
    const KernelOperand& w = step.operands[*write];
    if (r.gathered || r.dtype != w.dtype || !trace_.dims.same(r.offset, w.offset)) return false;
    for (size_t a = 0; a < r.strides.size(); ++a) {
      if (!trace_.dims.same(r.strides[a], w.strides[a])) return false;
    }
    const LoopNest& nest = plan_.kernels[step.kernel].nest;
    if (nest.params[*read].written) return false;  // a write that nobody reads is made all the same
    return last_load(nest, *read) <= first_store(nest, *write);
  }

  // A call may have returned the memory as a value of its own, of which the step reads other elements.
  bool reads_elsewhere(const KernelStep& step, uint32_t buffer) const {
    const Storage storage = trace_.type(plan_.buffers[buffer].root).storage;
    return std::any_of(step.operands.begin(), step.operands.end(), [&](const KernelOperand& o) {
      return o.buffer != buffer && trace_.type(plan_.buffers[o.buffer].root).storage == storage;
    });
  }

  static size_t last_load(const LoopNest& nest, uint32_t param) {
    size_t last = 0;
    for (size_t s = 0; s < nest.stages.size(); ++s) {
      for (const LoopInput& i : nest.stages[s].inputs) {
        if (i.kind == LoopInput::Kind::load && i.number == param) last = s;
      }
    }
    return last;
  }
  static size_t first_store(const LoopNest& nest, uint32_t param) {
    for (size_t s = 0; s < nest.stages.size(); ++s) {
      for (const LoopStore& store : nest.stages[s].stores) {
        if (store.param == param) return s;
      }
    }
    return 0;
  }

  // --- results of calls are dropped by the first call step at or after their last use
  // Where a kernel was the last to need it, memory is given back when the next call may ask for some.
  void release_calls() {
    CheckedVector<std::vector<ValueId>> ends(plan_.steps.size() + 1);
    for (const Buffer& b : plan_.buffers) {
      if (may_be_of_host(b)) ends[b.last].push_back(b.root);
    }
    std::vector<ValueId> waiting;
    for (uint32_t s = 0; s < plan_.steps.size(); ++s) {
      auto* call = std::get_if<CallStep>(&plan_.steps[s]);
      if (!call) {
        waiting.insert(waiting.end(), ends[s].begin(), ends[s].end());
        continue;
      }
      call->dead_before = std::exchange(waiting, {});
      call->dead_after = std::move(ends[s]);
    }
  }

  // Memory beside the arena. A library that would not write into planned memory brings its own (torch/program/calls_linear.cpp).
  bool may_be_of_host(const Buffer& buffer) const {
    if (buffer.kind == Buffer::Kind::call) return true;
    if (buffer.kind == Buffer::Kind::output) return !leaves_[buffer.root];
    const InstrId made = trace_[buffer.root].definition;
    return buffer.kind == Buffer::Kind::temporary && made && info(trace_[made].op).kind == OpKind::contract;
  }

  LaunchPlan& plan_;
  Trace& trace_;
  const CheckedVector<std::vector<ValueId>>& roots_;
  IdMap<ValueId, uint32_t> buffer_of_root_;
  IdMap<ValueId, bool> leaves_, kept_;
  CheckedVector<Slot> slots_;
};

// The dims in the order of a dense layout, innermost first, cover the whole memory without gaps.
bool is_dense(const DimTable& dims, DimTable& making, const TensorType& type) {
  std::vector<size_t> left;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (dims.as_constant(type.sizes[d]) != 1) left.push_back(d);
  }
  Dim next = making.constant(1);
  while (!left.empty()) {
    const auto found = std::find_if(left.rbegin(), left.rend(), [&](size_t d) { return dims.same(type.strides[d], next); });
    if (found == left.rend()) return false;
    next = making.mul(next, type.sizes[*found]);
    left.erase(std::next(found).base());
  }
  return true;
}

}  // namespace

Dim bytes_of(DimTable& dims, const TensorType& type) {
  const Dim size = dims.constant(size_of(type.dtype));
  if (is_dense(dims, dims, type)) return dims.mul(dims.product(type.sizes), size);
  const Dim one = dims.constant(1), zero = dims.constant(0);
  Dim last = one;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    last = dims.add(last, dims.mul(dims.max(dims.sub(type.sizes[d], one), zero), type.strides[d]));
  }
  return dims.mul(last, size);
}

void assign_buffers(LaunchPlan& plan, const CheckedVector<std::vector<ValueId>>& roots) { Memory(plan, roots).run(); }

}  // namespace escapement
