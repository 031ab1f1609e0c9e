// Launch plans as text, for golden tests and the explain report; and their invariants.
#include <sstream>

#include "kernels/plan.h"
#include "support/error.h"
#include "trace/guard_relation.h"

namespace escapement {
namespace {

constexpr uint32_t kNone = 0xffffffffu;

class Printer {
 public:
  explicit Printer(const LaunchPlan& plan) : plan_(plan) {}

  std::string run() {
    out_ << "plan " << plan_.trace.name << "\n";
    for (uint32_t g : plan_.entry) out_ << "entry " << guard(g) << "\n";
    for (size_t b = 0; b < plan_.buffers.size(); ++b) buffer(b);
    for (const Step& step : plan_.steps) std::visit([&](const auto& s) { print_step(s); }, step);
    for (const Output& o : plan_.trace.outputs) output(o);
    print_apart();
    for (const Kernel& k : plan_.kernels) out_ << "\nkernel " << k.name << "\n" << print(k.nest);
    return out_.str();
  }

  std::string run_steps() {
    for (const Step& step : plan_.steps) {
      if (const auto* kernel = std::get_if<KernelStep>(&step)) {
        out_ << "launch " << plan_.kernels[kernel->kernel].name << " " << text(kernel->extents);
        for (ValueId v : kernel->writes) out_ << " -> " << name(v);
        out_ << "\n";
      } else {
        std::visit([&](const auto& s) { print_step(s); }, step);
      }
    }
    print_apart();
    return out_.str();
  }

 private:
  void print_apart() {
    for (const Apart& a : plan_.apart) out_ << "apart " << name(a.producer) << " " << name(a.consumer) << ": " << reason_name(a.why) << "\n";
  }

  static std::string name(ValueId v) { return "%" + std::to_string(v.index); }
  std::string text(Dim d) const { return d ? plan_.trace.dims.to_string(d) : "none"; }
  std::string text(const std::vector<Dim>& dims) const {
    std::string all = "[";
    for (size_t i = 0; i < dims.size(); ++i) all += (i ? ", " : "") + text(dims[i]);
    return all + "]";
  }
  std::string text(const Number& n) const {
    switch (n.kind) {
      case Number::Kind::dim: return text(n.dim);
      case Number::Kind::real: return std::to_string(n.real);
      default: return std::to_string(n.integer);
    }
  }

  std::string guard(uint32_t number) const {
    const Guard& g = plan_.trace.guards[number];
    return "#" + std::to_string(number) + ": " + text(g.left) + " " + std::string(relation_text(g.kind)) + " " + text(g.right);
  }

  void buffer(size_t b) {
    static constexpr const char* kKinds[] = {"input", "output", "temporary", "call"};
    const Buffer& buffer = plan_.buffers[b];
    out_ << "buffer " << b << " " << kKinds[static_cast<int>(buffer.kind)] << " of " << name(buffer.root);
    if (buffer.kind == Buffer::Kind::temporary) out_ << " slot " << buffer.slot;
    if (buffer.bytes) out_ << " bytes " << text(buffer.bytes);
    if (buffer.kind != Buffer::Kind::input) out_ << " steps " << buffer.first << ".." << buffer.last;
    out_ << "\n";
  }

  void print_step(const KernelStep& s) {
    const Kernel& kernel = plan_.kernels[s.kernel];
    out_ << "launch " << kernel.name << " " << text(s.extents);
    for (size_t i = 0; i < s.operands.size(); ++i) operand(s.operands[i], kernel.nest.params[i].written);
    for (const Number& n : s.scalars) out_ << " scalar " << text(n);
    for (ValueId v : s.writes) out_ << " -> " << name(v);
    out_ << (s.failure.empty() ? "" : " or fail " + s.failure) << "\n";
  }
  void operand(const KernelOperand& o, bool written) {
    out_ << "\n  " << (written ? "out " : "in ") << o.buffer << " " << name_of(o.dtype) << " " << text(o.strides);
    if (plan_.trace.dims.as_constant(o.offset) != 0) out_ << " offset " << text(o.offset);
    if (o.gathered) out_ << " gathered " << text(o.gathered);
  }
  void print_step(const CallStep& s) {
    const Instr& instr = plan_.trace[s.instr];
    out_ << "call " << (instr.attrs.target.empty() ? std::string(name_of(instr.op)) : instr.attrs.target);
    for (ValueId v : instr.operands) out_ << " " << (v ? name(v) : "none");
    out_ << (s.into_planned ? " into" : " ->");
    for (ValueId v : instr.results) out_ << " " << name(v);
    for (ValueId v : s.dead_before) out_ << " gone " << name(v);
    for (ValueId v : s.dead_after) out_ << " dead " << name(v);
    out_ << "\n";
  }
  void print_step(const CheckStep& s) { out_ << "check " << guard(s.guard) << "\n"; }

  void output(const Output& o) {
    out_ << "output ";
    if (o.value) {
      out_ << name(o.value) << " in buffer " << plan_.buffer_of[o.value.index] << "\n";
    } else {
      out_ << text(o.dim) << "\n";
    }
  }

  const LaunchPlan& plan_;
  std::ostringstream out_;
};

// --- verify

void verify_kernel_step(const LaunchPlan& plan, const KernelStep& s, uint32_t at) {
  ESCAPEMENT_CHECK(s.kernel < plan.kernels.size(), "kernel exists");
  const LoopNest& nest = plan.kernels[s.kernel].nest;
  ESCAPEMENT_CHECK(s.extents.size() == nest.axes.size(), "an extent per axis");
  ESCAPEMENT_CHECK(s.operands.size() == nest.params.size(), "an operand per parameter");
  ESCAPEMENT_CHECK(s.scalars.size() == nest.scalars.size(), "a number per scalar");
  for (size_t i = 0; i < s.operands.size(); ++i) {
    const KernelOperand& o = s.operands[i];
    ESCAPEMENT_CHECK(o.buffer < plan.buffers.size(), "buffer exists");
    ESCAPEMENT_CHECK(o.strides.size() == nest.axes.size(), "a stride per axis");
    ESCAPEMENT_CHECK(o.dtype == nest.params[i].dtype, "operand has its parameter's type");
    const Buffer& b = plan.buffers[o.buffer];
    ESCAPEMENT_CHECK(b.first <= at && at <= b.last, "a buffer is used while it lives");
    ESCAPEMENT_CHECK(b.first < at || b.kind == Buffer::Kind::input || nest.params[i].written, "memory is written before it is read");
  }
}

void verify_slots(const LaunchPlan& plan) {
  std::vector<std::vector<const Buffer*>> by_slot(plan.slot_count);
  for (const Buffer& b : plan.buffers) {
    if (b.kind != Buffer::Kind::temporary) continue;
    ESCAPEMENT_CHECK(b.slot < plan.slot_count, "slot exists");
    for (const Buffer* other : by_slot[b.slot]) {
      ESCAPEMENT_CHECK(other->last <= b.first || b.last <= other->first, "buffers of one slot never live at once");
    }
    by_slot[b.slot].push_back(&b);
  }
}

}  // namespace

std::string print(const LaunchPlan& plan) { return Printer(plan).run(); }
std::string print_steps(const LaunchPlan& plan) { return Printer(plan).run_steps(); }

void verify(const LaunchPlan& plan) {
  for (const Kernel& k : plan.kernels) verify(k.nest);
  for (uint32_t s = 0; s < plan.steps.size(); ++s) {
    if (const auto* kernel = std::get_if<KernelStep>(&plan.steps[s])) verify_kernel_step(plan, *kernel, s);
    if (const auto* check = std::get_if<CheckStep>(&plan.steps[s])) ESCAPEMENT_CHECK(check->guard < plan.trace.guards.size(), "guard exists");
  }
  for (const Output& o : plan.trace.outputs) {
    if (o.value) ESCAPEMENT_CHECK(plan.buffer_of[o.value.index] != kNone, "every output lives somewhere");
  }
  verify_slots(plan);
}

}  // namespace escapement
