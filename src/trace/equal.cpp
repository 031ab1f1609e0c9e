// Equality of traces, field by field. Dims belong to different tables, so they compare by their text; storages and locations are
// numbered freely, so they compare by what they stand for.
#include <unordered_map>

#include "trace/trace.h"

namespace escapement {
namespace {

class Comparison {
 public:
  Comparison(const Trace& a, const Trace& b) : a_(a), b_(b) {}

  bool all() {
    return a_.name == b_.name && symbols() && facts() && each(a_.values, b_.values) && each(a_.inputs, b_.inputs) &&
           each(a_.guards, b_.guards) && each(a_.instrs, b_.instrs) && each(a_.outputs, b_.outputs);
  }

 private:
  template <class T>
  bool each(const std::vector<T>& x, const std::vector<T>& y) {
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (!same(x[i], y[i])) return false;
    return true;
  }

  bool symbols() const {
    if (a_.dims.symbol_count() != b_.dims.symbol_count()) return false;
    for (uint32_t i = 0; i < a_.dims.symbol_count(); ++i) {
      const SymbolInfo &x = a_.dims.info(Symbol(i)), &y = b_.dims.info(Symbol(i));
      if (x.kind != y.kind || x.number != y.number || x.range != y.range || x.hint != y.hint || !(x.source == y.source)) return false;
    }
    return true;
  }

  bool facts() const {
    if (a_.dims.facts().size() != b_.dims.facts().size()) return false;
    for (size_t i = 0; i < a_.dims.facts().size(); ++i) {
      const DimFact &x = a_.dims.facts()[i], &y = b_.dims.facts()[i];
      if (x.kind != y.kind || !same(x.left, y.left) || !same(x.right, y.right) || x.range != y.range) return false;
    }
    return true;
  }

  bool same(Dim x, Dim y) const { return a_.dims.to_string(x) == b_.dims.to_string(y); }
  bool same(const std::vector<Dim>& x, const std::vector<Dim>& y) const {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](Dim p, Dim q) { return same(p, q); });
  }

  bool same(Location x, Location y) const {
    const auto text = [](const Trace& trace, Location l) { return l.index < trace.locations.size() ? trace.locations[l.index] : std::string(); };
    return text(a_, x) == text(b_, y);
  }

  bool same(Storage x, Storage y) {
    const auto forth = storages_.try_emplace(x.index, y.index), back = storages_back_.try_emplace(y.index, x.index);
    return forth.first->second == y.index && back.first->second == x.index;
  }

  bool same(const TensorType& x, const TensorType& y) {
    return x.dtype == y.dtype && x.device == y.device && same(x.sizes, y.sizes) && same(x.strides, y.strides) &&
           same(x.storage, y.storage) && x.root == y.root && same(x.offset, y.offset);
  }

  bool same(const Value& x, const Value& y) {
    if (x.kind != y.kind || x.definition != y.definition || x.result != y.result) return false;
    return x.kind == ValueKind::none || same(x.type, y.type);
  }

  bool same(const Input& x, const Input& y) const {
    return x.kind == y.kind && x.value == y.value && (x.kind == Input::Kind::tensor || same(x.dim, y.dim)) &&
           x.contiguous == y.contiguous && x.stride_order == y.stride_order && x.parameter == y.parameter && x.foreign == y.foreign &&
           x.name == y.name;
  }

  bool same(const Guard& x, const Guard& y) const {
    return x.kind == y.kind && same(x.left, y.left) && same(x.right, y.right) && x.after == y.after && x.because == y.because &&
           same(x.location, y.location);
  }

  bool same(const CallArg& x, const CallArg& y) const {
    if (x.kind != y.kind || x.operands != y.operands || x.text != y.text || x.code != y.code) return false;
    return std::equal(x.numbers.begin(), x.numbers.end(), y.numbers.begin(), y.numbers.end(), [&](const Number& p, const Number& q) {
      return to_string(p, a_.dims) == to_string(q, b_.dims);
    });
  }

  bool same(const Instr& x, const Instr& y) {
    return x.op == y.op && x.operands == y.operands && x.results == y.results && x.writes == y.writes && x.effect == y.effect &&
           x.why == y.why && same(x.location, y.location) && x.attrs.target == y.attrs.target && each(x.attrs.args, y.attrs.args) &&
           to_string(x.attrs, a_.dims) == to_string(y.attrs, b_.dims);
  }

  bool same(const Output& x, const Output& y) const { return x.kind == y.kind && x.value == y.value && same(x.dim, y.dim); }

  const Trace &a_, &b_;
  std::unordered_map<uint32_t, uint32_t> storages_, storages_back_;
};

}  // namespace

bool equal(const Trace& a, const Trace& b) { return Comparison(a, b).all(); }

}  // namespace escapement
