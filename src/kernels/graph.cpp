// From trace to fusion graph: which instructions live, what each depends on. One pass backwards for liveness, one forwards for
// nodes and edges; memory order is tracked per storage that anything writes at all.
#include "kernels/graph.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "kernels/given_memory.h"
#include "support/error.h"
#include "trace/effects.h"

namespace escapement {
namespace {

bool is_node(OpKind kind) { return kind != OpKind::view; }

Role role_of(const Instr& instr) {
  switch (info(instr.op).kind) {
    case OpKind::pointwise: return Role::pointwise;
    case OpKind::reduce: return Role::reduce;
    case OpKind::create: return Role::create;
    case OpKind::index: return Role::index;
    case OpKind::combine: return Role::part;
    case OpKind::effect: return Role::write;
    case OpKind::contract:
    case OpKind::call: return Role::call;
    default: break;
  }
  throw InternalError("fusion sees composite op " + std::string(name_of(instr.op)));
}

// --- which instructions have to run
class Liveness {
 public:
  explicit Liveness(const Trace& trace) : trace_(trace), live_(trace.instrs.size(), false) {}

  IdMap<InstrId, bool> run() {
    for (const Output& o : trace_.outputs) {
      if (o.kind == Output::Kind::value) need(o.value);
    }
    for (size_t s = 0; s < trace_.dims.symbol_count(); ++s) {
      const Source& source = trace_.dims.info(Symbol(static_cast<uint32_t>(s))).source;
      if (source.value) need(source.value);
    }
    for (auto i = static_cast<uint32_t>(trace_.instrs.size()); i-- > 0;) visit(InstrId(i));
    return std::move(live_);
  }
  // Looked up for nobody, but the positions may lie outside, and that is told by who looks.
  const std::vector<ValueId>& lookups() const { return lookups_; }

 private:
  void visit(InstrId i) {
    const Instr& instr = trace_[i];
    if (instr.effect || !instr.writes.empty() || instr.op == Op::write || instr.op == Op::call) live_[i] = true;
    if (!live_[i] && info(instr.op).kind == OpKind::index) {
      live_[i] = true;
      lookups_.push_back(instr.results[0]);
    }
    if (!live_[i]) return;
    for (ValueId v : instr.operands) {
      if (v) need(v);
    }
  }
  void need(ValueId v) {
    const Value& value = trace_[v];
    if (value.definition) live_[value.definition] = true;
    const ValueId root = value.type.root;
    if (root && root != v && trace_[root].definition) live_[trace_[root].definition] = true;
  }

  const Trace& trace_;
  IdMap<InstrId, bool> live_;
  std::vector<ValueId> lookups_;
};

// --- nodes and edges
class GraphMaker {
 public:
  explicit GraphMaker(Trace& trace) : trace_(trace), given_(trace), graph_{trace, {}, {}, {}, {}} {}

  FuseGraph run() {
    Liveness liveness(trace_);
    const IdMap<InstrId, bool> live = liveness.run();
    find_written();
    find_born();
    graph_.first.assign(trace_.instrs.size(), kNoIndex);
    graph_.count.assign(trace_.instrs.size(), 0);
    waits_.assign(trace_.instrs.size(), InstrId());
    for (uint32_t i = 0; i < trace_.instrs.size(); ++i) {
      if (live[InstrId(i)] && is_node(info(trace_.instrs[i].op).kind)) add_instr(InstrId(i));
    }
    for (const Output& o : trace_.outputs) {
      if (o.kind == Output::Kind::value) store(o.value);
    }
    for (ValueId v : items_) store(v);
    for (ValueId v : liveness.lookups()) store(v);
    return std::move(graph_);
  }

 private:
  // The accesses to one storage so far. Only storages that are written somewhere are tracked.
  struct Accesses {
    std::vector<uint32_t> writers, readers;
  };

  void find_written() {
    graph_.written.assign(trace_.storage_count, false);
    for (const Instr& instr : trace_.instrs) {
      if (instr.op == Op::write) mark_written(instr.operands[0]);
      for (uint32_t k : instr.writes) mark_written(instr.operands[k]);
    }
  }
  void mark_written(ValueId v) {
    const Storage s = trace_.type(v).storage;
    if (s) graph_.written[s] = true;
  }
  void find_born() {
    for (size_t s = 0; s < trace_.dims.symbol_count(); ++s) {
      const Source& source = trace_.dims.info(Symbol(static_cast<uint32_t>(s))).source;
      if (!source.value) continue;
      born_[s] = source.value;
      if (source.kind == Source::Kind::item) items_.push_back(source.value);
    }
  }

  uint32_t new_node(InstrId i, Role role) {
    GraphNode node;
    node.instr = i;
    node.role = role;
    graph_.nodes.push_back(std::move(node));
    ++graph_.count[i];
    return static_cast<uint32_t>(graph_.nodes.size() - 1);
  }

  void add_instr(InstrId i) {
    const Instr& instr = trace_[i];
    graph_.first[i] = static_cast<uint32_t>(graph_.nodes.size());
    const Role role = role_of(instr);
    if (role != Role::part) {
      add_single(new_node(i, role));
    } else if (instr.op == Op::pad) {
      add_pad(i);
    } else {
      for (uint32_t k = 0; k < instr.operands.size(); ++k) add_part(i, k);
    }
    const std::vector<uint32_t> births = births_before(i);
    for (uint32_t n = graph_.first[i]; n < graph_.nodes.size(); ++n) {
      graph_.nodes[n].after.insert(graph_.nodes[n].after.end(), births.begin(), births.end());
      finish_node(n);
    }
    note_accesses(i);
  }

  void add_single(uint32_t n) {
    GraphNode& node = graph_.nodes[n];
    const Instr& instr = trace_[node.instr];
    if (node.role == Role::reduce) {
      node.shape = trace_.type(instr.operands[0]).sizes;
    } else if (node.role == Role::write) {
      node.shape = trace_.type(instr.operands[0]).sizes;
    } else if (node.role != Role::call) {
      node.shape = trace_.type(instr.results[0]).sizes;
    }
    for (uint32_t k = 0; k < instr.operands.size(); ++k) add_edges(n, k);
  }

  void add_part(InstrId i, uint32_t k) {
    const uint32_t n = new_node(i, Role::part);
    graph_.nodes[n].part = k;
    graph_.nodes[n].shape = trace_.type(trace_[i].operands[k]).sizes;
    add_edges(n, k);
  }

  void add_pad(InstrId i) {
    const uint32_t fill = new_node(i, Role::fill);
    graph_.nodes[fill].shape = trace_.type(trace_[i].results[0]).sizes;
    add_part(i, 0);
    GraphNode& inside = graph_.nodes.back();
    inside.after.push_back(fill);
    const auto& pairs = trace_[i].attrs.sizes;
    const Dim zero = trace_.dims.constant(0);
    if (std::all_of(pairs.begin(), pairs.end(), [&](Dim d) { return trace_.dims.less_equal(zero, d) == Truth::yes; })) return;
    crop(inside, pairs);
  }

  // Some amount may be negative: a slice of the operand goes inside.
  void crop(GraphNode& inside, const std::vector<Dim>& pairs) {
    DimTable& dims = trace_.dims;
    const Dim zero = dims.constant(0);
    inside.crop.assign(inside.shape.size(), zero);
    for (size_t p = 0; 2 * p < pairs.size(); ++p) {
      const size_t axis = inside.shape.size() - 1 - p;
      const Dim cut = dims.add(dims.min(pairs[2 * p], zero), dims.min(pairs[2 * p + 1], zero));
      inside.shape[axis] = dims.max(dims.add(inside.shape[axis], cut), zero);
      inside.crop[axis] = dims.max(dims.neg(pairs[2 * p]), zero);
    }
    for (Edge& e : inside.inputs) {
      e.memory = true;
      e.why = Reason::apart_slice;
      graph_.nodes[e.producer].must_store = true;
    }
  }

  bool reads_memory_only(const GraphNode& node, uint32_t k) const {
    return node.role == Role::call || (node.role == Role::index && k == 0) || (node.role == Role::write && k == 0);
  }

  void add_edges(uint32_t n, uint32_t k) {
    const ValueId v = trace_[graph_.nodes[n].instr].operands[k];
    if (!v || trace_[v].kind == ValueKind::none) return;
    const ValueId root = trace_.type(v).root;
    const InstrId definition = root ? trace_[root].definition : trace_[v].definition;
    if (!definition) return;
    const uint32_t first = graph_.first[definition], count = graph_.count[definition];
    ESCAPEMENT_CHECK(first != kNoIndex, "an operand's root is defined by a node");
    const Storage s = trace_.type(v).storage;
    const bool changed = s && graph_.written[s] && accesses_.contains(s.index) && !accesses_[s.index].writers.empty();
    for (uint32_t p = first; p < first + count; ++p) {
      Edge e;
      e.producer = p;
      e.operand = k;
      e.value = v;
      const Role role = graph_.nodes[p].role;
      e.memory = changed || reads_memory_only(graph_.nodes[n], k) || role == Role::call || role == Role::part || role == Role::fill;
      e.why = reason_of(graph_.nodes[n], role, changed);
      if (e.memory) graph_.nodes[p].must_store = true;
      graph_.nodes[n].inputs.push_back(e);
    }
  }

  Reason reason_of(const GraphNode& consumer, Role producer, bool changed) const {
    if (consumer.role == Role::call || producer == Role::call) return Reason::apart_library_call;
    if (consumer.role == Role::index) return Reason::apart_indexing;
    if (changed || consumer.role == Role::write) return Reason::apart_write_order;
    return Reason::apart_domain;
  }

  void finish_node(uint32_t n) {
    GraphNode& node = graph_.nodes[n];
    const Instr& instr = trace_[node.instr];
    if (node.role == Role::part || node.role == Role::fill || node.role == Role::write) node.must_store = true;
    if (node.role == Role::call && instr.effect) {
      if (last_effect_ != kNoIndex) node.after.push_back(last_effect_);
      last_effect_ = n;
    }
    order_refusals(n);
    order_memory(n);
  }

  // What may refuse its arguments (a library call, an index) and what the caller can see (a write to its memory, numbers drawn) stay in the
  // program's order, and in different kernels: where a call ends with an error, exactly that has happened which would have in eager. Nodes of
  // one kind are not ordered among themselves; each waits for those of the other kind that stand directly before its own.
  void order_refusals(uint32_t n) {
    GraphNode& node = graph_.nodes[n];
    const bool refuses = node.role == Role::call || node.role == Role::index, acts = is_seen_outside(trace_[node.instr]);
    if (!refuses && !acts) return;
    if (latest_.empty() || (refuses && acts) || refuses != latest_refuse_ || acts != latest_act_) {
      earlier_ = std::exchange(latest_, {});
      latest_refuse_ = refuses;
      latest_act_ = acts;
    }
    latest_.push_back(n);
    node.after.insert(node.after.end(), earlier_.begin(), earlier_.end());
    if (!acts) return;
    for (const uint32_t p : earlier_) graph_.nodes[p].must_store |= graph_.nodes[p].role == Role::index;   // not computed again beside the write
  }

  bool is_seen_outside(const Instr& instr) const {
    const auto is_given = [&](uint32_t k) { return given_.holds(instr.operands[k]); };
    return acts_outside(instr) || std::any_of(instr.writes.begin(), instr.writes.end(), is_given);
  }

  // The nodes that bear a symbol of an instruction's sizes: asked once for all parts of a cat, which wait for the sizes of all.
  std::vector<uint32_t> births_before(InstrId i) {
    if (born_.empty()) return {};
    const Instr& instr = trace_[i];
    Births births{i, {}};
    for (uint32_t n = graph_.first[i]; n < graph_.nodes.size(); ++n)
      for (Dim d : graph_.nodes[n].shape) wait_for(births, d);
    for (ValueId v : instr.results) wait_for_type(births, v);
    for (ValueId v : instr.operands) wait_for_type(births, v);
    for (Dim d : instr.attrs.sizes) wait_for(births, d);
    for (Dim d : {instr.attrs.start, instr.attrs.step, instr.attrs.value.dim, instr.attrs.value2.dim}) wait_for(births, d);
    for (const CallArg& arg : instr.attrs.args) {
      for (const Number& number : arg.numbers) wait_for(births, number.dim);
    }
    return std::move(births.nodes);
  }

  struct Births {
    InstrId of;
    std::vector<uint32_t> nodes;
  };

  void wait_for_type(Births& births, ValueId v) {
    if (!v || trace_[v].kind == ValueKind::none) return;
    const TensorType& type = trace_.type(v);
    for (Dim d : type.sizes) wait_for(births, d);
    for (Dim d : type.strides) wait_for(births, d);
    wait_for(births, type.offset);
  }

  // A size that is born at run time exists only once the instruction that bears it has run.
  void wait_for(Births& births, Dim d) {
    if (!d) return;
    for (const InstrId by : bearers(d)) {
      if (by == births.of || graph_.first[by] == kNoIndex) continue;
      if (std::exchange(waits_[by], births.of) == births.of) continue;  // another dim of this instruction said so
      for (uint32_t p = 0; p < graph_.count[by]; ++p) births.nodes.push_back(graph_.first[by] + p);
    }
  }

  // The instructions that bear the symbols of a dim. The offsets of pieces have hundreds of symbols and are asked for again and again.
  const std::vector<InstrId>& bearers(Dim d) {
    if (bearers_of_.size() <= d.index) bearers_of_.resize(trace_.dims.size(), kNoIndex);
    uint32_t& known = bearers_of_[d.index];
    if (known == kNoIndex) {
      std::vector<InstrId> found = find_bearers(d);
      known = found.empty() ? 0 : static_cast<uint32_t>(bearers_.size());
      if (!found.empty()) bearers_.push_back(std::move(found));
    }
    return bearers_[known];
  }

  std::vector<InstrId> find_bearers(Dim d) const {
    std::vector<InstrId> found;
    for (Symbol s : trace_.dims.symbols(d)) {
      const auto born = born_.find(s.index);
      if (born == born_.end()) continue;
      const ValueId v = born->second;
      const InstrId by = trace_[trace_.type(v).root ? trace_.type(v).root : v].definition;
      if (by) found.push_back(by);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  bool writes_operand(const Instr& instr, uint32_t k) const {
    if (instr.op == Op::write) return k == 0;
    return std::find(instr.writes.begin(), instr.writes.end(), k) != instr.writes.end();
  }

  // Of a cat of thousands each part reads its own operand only.
  bool is_part_of_its_own(uint32_t n) const {
    return graph_.nodes[n].role == Role::part && trace_[graph_.nodes[n].instr].op != Op::pad;
  }

  void order_memory(uint32_t n) {
    GraphNode& node = graph_.nodes[n];
    const Instr& instr = trace_[node.instr];
    const bool one = is_part_of_its_own(n);
    for (uint32_t k = one ? node.part : 0, end = one ? k + 1 : static_cast<uint32_t>(instr.operands.size()); k < end; ++k) {
      const ValueId v = instr.operands[k];
      if (!v || trace_[v].kind == ValueKind::none) continue;
      const Storage s = trace_.type(v).storage;
      if (!s || !graph_.written[s]) continue;
      const Accesses& seen = accesses_[s.index];
      node.after.insert(node.after.end(), seen.writers.begin(), seen.writers.end());
      if (writes_operand(instr, k)) {
        node.before_write.insert(node.before_write.end(), seen.readers.begin(), seen.readers.end());
      }
    }
  }

  // After all nodes of an instruction: the parts of one cat do not wait for one another.
  void note_accesses(InstrId i) {
    const Instr& instr = trace_[i];
    const uint32_t first = graph_.first[i], end = static_cast<uint32_t>(graph_.nodes.size());
    for (uint32_t k = 0; k < instr.operands.size(); ++k) {
      const ValueId v = instr.operands[k];
      if (!v || trace_[v].kind == ValueKind::none) continue;
      const Storage s = trace_.type(v).storage;
      if (!s || !graph_.written[s]) continue;
      Accesses& seen = accesses_[s.index];
      const bool writes = writes_operand(instr, k);
      if (writes) seen = {};
      const bool one = first < end && is_part_of_its_own(first);
      for (uint32_t n = one ? first + k : first; n < (one ? first + k + 1 : end); ++n) (writes ? seen.writers : seen.readers).push_back(n);
    }
  }

  void store(ValueId v) {
    const ValueId root = trace_.type(v).root ? trace_.type(v).root : v;
    const InstrId by = trace_[root].definition;
    if (!by || graph_.first[by] == kNoIndex) return;
    for (uint32_t p = graph_.first[by], i = 0; i < graph_.count[by]; ++i) graph_.nodes[p + i].must_store = true;
  }

  Trace& trace_;
  const GivenMemory given_;
  FuseGraph graph_;
  std::unordered_map<uint32_t, Accesses> accesses_;
  std::unordered_map<size_t, ValueId> born_;
  CheckedVector<uint32_t> bearers_of_;                 // by Dim: its list in bearers_
  std::deque<std::vector<InstrId>> bearers_{{}};     // the first is empty
  IdMap<InstrId, InstrId> waits_;      // per instruction: the last one that was ordered after it
  std::vector<ValueId> items_;
  uint32_t last_effect_ = kNoIndex;
  std::vector<uint32_t> latest_, earlier_;  // of those that refuse or act: what stands last, all of one kind, and what stands before
  bool latest_refuse_ = false, latest_act_ = false;
};

}  // namespace

FuseGraph make_graph(Trace& trace) { return GraphMaker(trace).run(); }

}  // namespace escapement
