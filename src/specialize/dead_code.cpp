// Dead-code removal. Roots are outputs, effects, library calls, guards, and whatever binds a symbol that something live mentions. A library
// call stays although nobody wants its results: which arguments it refuses is known to the library alone, and eager calls it. (Memory like a
// tensor's is refused to nobody: gradients take its sizes and leave it.) So does what looks up positions, which may lie outside.
#include <vector>

#include "specialize/passes.h"
#include "trace/copier.h"

namespace escapement {
namespace {

bool may_refuse(const Instr& instr) {
  return (instr.op == Op::call && instr.attrs.target != "aten::empty_like") || info(instr.op).kind == OpKind::index;
}

class Marker {
 public:
  explicit Marker(const Trace& trace) : trace_(trace), live_(trace.instrs.size()), dim_seen_(trace.dims.size()) {}

  IdMap<InstrId, bool> run() {
    for (const Output& output : trace_.outputs) {
      mark(output.value);
      mark(output.dim);
    }
    for (const Guard& guard : trace_.guards) {
      mark(guard.left);
      mark(guard.right);
      if (guard.after) mark(guard.after);
    }
    for (size_t i = 0; i < trace_.instrs.size(); ++i) {
      const Instr& instr = trace_.instrs[i];
      if (instr.effect || !instr.writes.empty() || may_refuse(instr)) mark(InstrId(static_cast<uint32_t>(i)));
    }
    while (!work_.empty()) {
      const InstrId id = work_.back();
      work_.pop_back();
      visit(trace_[id]);
    }
    return std::move(live_);
  }

 private:
  void mark(InstrId id) {
    if (live_[id]) return;
    live_[id] = true;
    work_.push_back(id);
  }

  void mark(ValueId value) {
    if (!value) return;
    if (const InstrId definition = trace_[value].definition) mark(definition);
    if (const ValueId root = trace_.type(value).root; root && root != value) mark(root);
  }

  void mark(Dim dim) {
    if (!dim || dim_seen_[dim]) return;  // sums of hundreds of lengths stand in many types
    dim_seen_[dim] = true;
    for (const Symbol symbol : trace_.dims.new_symbols(dim, symbols_seen_)) mark(trace_.dims.info(symbol).source.value);
  }

  void mark(const Number& number) {
    if (number.kind == Number::Kind::dim) mark(number.dim);
  }

  void visit(const Instr& instr) {
    for (const ValueId operand : instr.operands) mark(operand);
    for (const ValueId result : instr.results) {
      for (const Dim size : trace_.type(result).sizes) mark(size);
      for (const Dim stride : trace_.type(result).strides) mark(stride);
      mark(trace_.type(result).offset);
    }
    for (const Dim size : instr.attrs.sizes) mark(size);
    mark(instr.attrs.start);
    mark(instr.attrs.step);
    mark(instr.attrs.value);
    mark(instr.attrs.value2);
    for (const CallArg& arg : instr.attrs.args) {
      for (const Number& number : arg.numbers) mark(number);
    }
  }

  const Trace& trace_;
  IdMap<InstrId, bool> live_;
  std::vector<bool> symbols_seen_;
  IdMap<Dim, bool> dim_seen_;
  std::vector<InstrId> work_;
};

}  // namespace

Trace remove_dead_code(const Trace& trace) {
  const IdMap<InstrId, bool> live = Marker(trace).run();
  Trace result;
  Copier copier(trace, result);
  for (uint32_t i = 0; i < trace.instrs.size(); ++i) {
    if (live[InstrId(i)]) copier.copy(InstrId(i));
  }
  copier.finish();
  return result;
}

}  // namespace escapement
