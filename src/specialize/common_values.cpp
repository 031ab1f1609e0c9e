// Common-value sharing by value numbering over memory versions: two instructions are equal if op, attributes, operands and the
// versions of the operands' memory are. A value whose memory is written later, or that leaves the program, is never merged
// away: eager gives such values memory of their own, and the caller may write to it. Nor is a view that leaves the program: the caller
// gets a tensor for each.
#include <unordered_map>
#include <vector>

#include "specialize/passes.h"
#include "trace/copier.h"

namespace escapement {
namespace {

struct Key {
  Op op;
  std::vector<ValueId> operands;
  std::vector<uint32_t> versions;
  std::vector<Dim> layout;  // result sizes and strides: the same op may be asked for two layouts
  Attrs attrs;
  friend bool operator==(const Key&, const Key&) = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t h = hash(key.attrs) * 31 + static_cast<uint64_t>(key.op);
    for (const ValueId operand : key.operands) h = h * 1000003 + operand.index;
    for (const uint32_t version : key.versions) h = h * 1000003 + version;
    for (const Dim dim : key.layout) h = h * 1000003 + dim.index;
    return h;
  }
};

bool is_pure(const Instr& instr) {
  if (instr.effect || !instr.writes.empty() || instr.results.size() != 1) return false;
  switch (info(instr.op).kind) {
    case OpKind::pointwise: case OpKind::reduce: case OpKind::view: case OpKind::create: case OpKind::index:
    case OpKind::combine: case OpKind::composite: return true;
    default: return false;
  }
}

// Storages that must keep an identity of their own.
IdMap<Storage, bool> pinned_storages(const Trace& trace) {
  IdMap<Storage, bool> pinned(trace.storage_count);
  for (const Output& output : trace.outputs) {
    if (output.value) pinned[trace.type(output.value).storage] = true;
  }
  for (const Instr& instr : trace.instrs) {
    for (const uint32_t operand : instr.writes) pinned[trace.type(instr.operands.at(operand)).storage] = true;
  }
  return pinned;
}

class Sharer {
 public:
  explicit Sharer(const Trace& trace)
      : trace_(trace), copier_(trace, result_), versions_(trace.storage_count), pinned_(pinned_storages(trace)), leaves_(trace.values.size()) {
    for (const Output& output : trace.outputs) {
      if (output.value) leaves_[output.value] = true;
    }
  }

  Trace run() {
    for (uint32_t i = 0; i < trace_.instrs.size(); ++i) visit(InstrId(i));
    copier_.finish();
    return std::move(result_);
  }

 private:
  void visit(InstrId id) {
    const Instr& instr = trace_[id];
    if (!is_pure(instr) || is_pinned(instr)) {
      copier_.copy(id);
      for (const uint32_t operand : instr.writes) ++versions_[trace_.type(instr.operands[operand]).storage];
      return;
    }
    const Key key = key_of(instr);
    if (const auto found = seen_.find(key); found != seen_.end()) {
      copier_.replace(instr.results[0], found->second);
      return;
    }
    copier_.copy(id);
    seen_.emplace(key, copier_[instr.results[0]]);
  }

  // A view of pinned memory is still the same view; only a fresh value is pinned by its storage.
  bool is_pinned(const Instr& instr) const {
    if (leaves_[instr.results.at(0)]) return true;
    return info(instr.op).kind != OpKind::view && pinned_[trace_.type(instr.results[0]).storage];
  }

  Key key_of(const Instr& instr) const {
    Key key{instr.op, {}, {}, {}, instr.attrs};
    for (const ValueId operand : instr.operands) {
      key.operands.push_back(operand ? copier_[operand] : operand);
      key.versions.push_back(operand ? versions_[trace_.type(operand).storage] : 0);
    }
    const TensorType& type = trace_.type(instr.results[0]);
    key.layout = type.sizes;
    key.layout.insert(key.layout.end(), type.strides.begin(), type.strides.end());
    return key;
  }

  const Trace& trace_;
  Trace result_;
  Copier copier_;
  IdMap<Storage, uint32_t> versions_;
  IdMap<Storage, bool> pinned_;
  IdMap<ValueId, bool> leaves_;
  std::unordered_map<Key, ValueId, KeyHash> seen_;
};

}  // namespace

Trace share_common_values(const Trace& trace) { return Sharer(trace).run(); }

}  // namespace escapement
