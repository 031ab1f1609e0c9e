// One pass forwards. A cat that can be distributed is not copied but remembered as its parts; the element-wise op that reads it
// remembers its own parts in turn, or makes the cat. Possible if the cat has the result's whole shape and the other operands are
// provably the same for all parts (absent or of size 1 along the axis), or provably as long as the cat: then each part meets a slice.
#include "kernels/distribute_cat.h"

#include <algorithm>
#include <unordered_map>

#include "trace/copier.h"

namespace escapement {
namespace {

struct Parts {
  std::vector<ValueId> values;  // in the new trace, of the cat's type
  int32_t axis = 0;
};

class DistributeCat {
 public:
  explicit DistributeCat(const Trace& from) : from_(from), copier_(from, to_) {}

  Trace run() {
    count_uses();
    for (uint32_t i = 0; i < from_.instrs.size(); ++i) {
      if (!distribute(InstrId(i))) copier_.copy(InstrId(i));
    }
    copier_.finish();
    to_.name = from_.name;
    return std::move(to_);
  }

 private:
  // Where a value is read: by exactly one instruction once, and nowhere else?
  void count_uses() {
    uses_.assign(from_.values.size(), 0);
    reader_.assign(from_.values.size(), InstrId());
    written_.assign(from_.storage_count, false);
    for (uint32_t i = 0; i < from_.instrs.size(); ++i) {
      const Instr& instr = from_.instrs[i];
      for (uint32_t k = 0; k < instr.operands.size(); ++k) note_use(instr, InstrId(i), k);
    }
    for (const Output& o : from_.outputs) {
      if (o.value) uses_[o.value] += 2;
    }
    for (uint32_t s = 0; s < from_.dims.symbol_count(); ++s) {
      if (const ValueId value = from_.dims.info(Symbol(s)).source.value) uses_[value] += 2;
    }
  }
  void note_use(const Instr& instr, InstrId id, uint32_t k) {
    const ValueId v = instr.operands[k];
    if (!v) return;
    ++uses_[v];
    reader_[v] = id;
    const bool writes = instr.op == Op::write ? k == 0 : std::find(instr.writes.begin(), instr.writes.end(), k) != instr.writes.end();
    if (writes && from_.type(v).storage) written_[from_.type(v).storage] = true;
  }

  bool distribute(InstrId id) {
    const Instr& instr = from_[id];
    if (instr.op == Op::cat) return start(instr);
    if (info(instr.op).kind != OpKind::pointwise) return false;
    for (ValueId v : instr.operands) {
      const auto found = parts_.find(v.index);
      if (found != parts_.end()) return apply(instr, v, found->second);
    }
    return false;
  }

  bool start(const Instr& cat) {
    const ValueId result = cat.results[0];
    if (!can_move_past(result, cat.attrs.axis)) return false;
    for (ValueId v : cat.operands) {  // the parts are read later than the cat did
      if (from_.type(v).storage && written_[from_.type(v).storage]) return false;
    }
    Parts parts{{}, cat.attrs.axis};
    for (ValueId v : cat.operands) parts.values.push_back(copier_.builder().cast(copier_[v], from_.type(result).dtype));
    parts_.emplace(result.index, std::move(parts));
    return true;
  }

  // The only reader of `v` is an element-wise op that can be done part by part.
  bool can_move_past(ValueId v, int32_t axis) const {
    if (uses_[v] != 1 || written_[from_.type(v).storage]) return false;
    const Instr& reader = from_[reader_[v]];
    if (info(reader.op).kind != OpKind::pointwise) return false;
    const auto& sizes = from_.type(v).sizes;
    if (from_.type(reader.results[0]).sizes != sizes) return false;
    for (ValueId other : reader.operands) {
      if (other == v) continue;
      if (parts_.contains(other.index)) return false;  // another cat that waits: its parts may differ
      const int64_t dim = own_axis(other, sizes.size(), axis);
      if (dim >= 0 && !from_.dims.same(from_.type(other).sizes[dim], sizes[axis])) return false;
    }
    return true;
  }

  // The operand's axis that runs along the cat's; -1 if it is the same for all parts.
  int64_t own_axis(ValueId v, size_t rank, int32_t axis) const {
    const auto& sizes = from_.type(v).sizes;
    const int64_t dim = axis - static_cast<int64_t>(rank - sizes.size());
    return dim < 0 || from_.dims.as_constant(sizes[dim]) == 1 ? -1 : dim;
  }

  ValueId part_of(ValueId v, size_t rank, int32_t axis, Dim start, Dim length) {
    const int64_t dim = own_axis(v, rank, axis);
    if (dim < 0) return copier_[v];
    Attrs attrs;
    attrs.axis = static_cast<int32_t>(dim);
    attrs.start = start;
    attrs.step = to_.dims.constant(1);
    attrs.sizes = {length};
    return copier_.builder().view(Op::slice, copier_[v], std::move(attrs));
  }

  bool apply(const Instr& instr, ValueId cat, const Parts& parts) {
    Parts results{{}, parts.axis};
    Dim start = to_.dims.constant(0);
    for (ValueId part : parts.values) {
      const std::vector<Dim> sizes = to_.type(part).sizes;
      std::vector<ValueId> operands;
      for (ValueId v : instr.operands)
        operands.push_back(v == cat ? part : part_of(v, sizes.size(), parts.axis, start, sizes[parts.axis]));
      start = to_.dims.add(start, sizes[parts.axis]);
      results.values.push_back(copier_.builder().pointwise(instr.op, operands, instr.attrs));
    }
    const ValueId result = instr.results[0];
    if (can_move_past(result, parts.axis)) {
      parts_.emplace(result.index, std::move(results));
      return true;
    }
    Attrs attrs;
    attrs.axis = parts.axis;
    copier_.replace(result, copier_.builder().combine(Op::cat, results.values, attrs, from_.type(result).strides));
    return true;
  }

  const Trace& from_;
  Trace to_;
  Copier copier_;
  IdMap<ValueId, uint32_t> uses_;
  IdMap<ValueId, InstrId> reader_;
  IdMap<Storage, bool> written_;
  std::unordered_map<uint32_t, Parts> parts_;  // by value of the old trace
};

}  // namespace

Trace distribute_cat(Trace trace) {
  const bool any = std::any_of(trace.instrs.begin(), trace.instrs.end(), [](const Instr& i) { return i.op == Op::cat; });
  if (!any) return trace;
  return DistributeCat(trace).run();
}

}  // namespace escapement
