// See verifier.h, which lists the invariants in the order of the functions here.
#include "trace/verifier.h"

#include <algorithm>
#include <set>

#include "support/error.h"
#include "trace/layout.h"
#include "trace/op_rules.h"

namespace escapement {
namespace {

class Verifier : public Demands {
 public:
  explicit Verifier(const Trace& trace) : t_(trace), dims_(trace.dims) {}

  void all() {
    check_ids();
    check_definitions();
    check_order();
    check_shapes();
    check_arity();
    check_rules();
    check_memory();
    check_effects();
    check_symbols();
    check_bound();
    check_guards();
    check_inputs();
    check_outputs();
  }

  // "demands": a rule asks; guards made of the same dims answer what the facts do not.
  void require(Guard::Kind kind, Dim left, Dim right, const std::string& because) override {
    if (known(kind, left, right)) return;
    const bool guarded = std::any_of(t_.guards.begin(), t_.guards.end(), [&](const Guard& guard) {
      return guard.kind == kind && dims_.same(guard.left, left) && dims_.same(guard.right, right);
    });
    if (!guarded)
      fail("demands", because + " needs a relation of " + dims_.to_string(left) + " and " + dims_.to_string(right) + " that is not known");
  }

 private:
  [[noreturn]] void fail(const char* invariant, const std::string& what) const {
    std::string place;
    if (current_) place = " in '" + to_string(t_, current_) + "'";
    throw InternalError("verify: " + std::string(invariant) + ": " + what + place);
  }

  void expect(bool condition, const char* invariant, const std::string& what) const {
    if (!condition) fail(invariant, what);
  }

  static std::string text(ValueId v) { return v ? "%" + std::to_string(v.index) : "none"; }

  template <class Visitor>
  void each_instr(Visitor visit) {
    for (uint32_t i = 0; i < t_.instrs.size(); ++i) {
      current_ = InstrId(i);
      visit(current_, t_.instrs[i]);
    }
    current_ = {};
  }

  // --- ids

  bool is_value(ValueId v) const { return v.index < t_.values.size(); }
  bool is_dim(Dim d) const { return d.index < t_.dims.size(); }

  void check_type_ids(ValueId id, const TensorType& type) const {
    const auto dims_ok = [&](const std::vector<Dim>& list) { return std::all_of(list.begin(), list.end(), [&](Dim d) { return is_dim(d); }); };
    expect(dims_ok(type.sizes) && dims_ok(type.strides) && is_dim(type.offset), "ids", text(id) + " has a size that is no dim of this trace");
    expect(is_value(type.root), "ids", text(id) + " has no root");
    expect(type.storage.index < t_.storage_count, "ids", text(id) + " has no storage");
  }

  void check_attr_ids(const Attrs& attrs, size_t operands) const {
    const auto number_ok = [&](const Number& n) { return n.kind != Number::Kind::dim || is_dim(n.dim); };
    bool ok = std::all_of(attrs.sizes.begin(), attrs.sizes.end(), [&](Dim d) { return is_dim(d); });
    ok = ok && (!attrs.start || is_dim(attrs.start)) && (!attrs.step || is_dim(attrs.step)) && number_ok(attrs.value) && number_ok(attrs.value2);
    for (const CallArg& arg : attrs.args) {
      ok = ok && std::all_of(arg.numbers.begin(), arg.numbers.end(), number_ok);
      for (int32_t operand : arg.operands) expect(operand >= -1 && operand < static_cast<int32_t>(operands), "ids", "an argument names an operand that is not there");
    }
    expect(ok, "ids", "an attribute holds a dim that is not of this trace");
  }

  void check_ids() {
    for (uint32_t i = 0; i < t_.values.size(); ++i)
      if (t_.values[i].kind == ValueKind::tensor) check_type_ids(ValueId(i), t_.values[i].type);
    for (const Input& input : t_.inputs)
      expect(input.kind == Input::Kind::tensor ? is_value(input.value) : is_dim(input.dim), "ids", "input " + input.name + " names nothing");
    for (const Guard& guard : t_.guards) {
      expect(is_dim(guard.left) && is_dim(guard.right), "ids", "a guard compares what is no dim of this trace");
      expect(!guard.after || guard.after.index < t_.instrs.size(), "ids", "a guard stands after an instruction that is not there");
    }
    for (const Instr& instr : t_.instrs) {
      for (ValueId operand : instr.operands) expect(is_value(operand) || (!operand && instr.op == Op::call), "ids", "operand " + text(operand) + " is no value");
      for (ValueId result : instr.results) expect(is_value(result), "ids", "a result is no value");
      check_attr_ids(instr.attrs, instr.operands.size());
    }
  }

  // --- definitions, order, shapes

  void check_definitions() {
    std::vector<int> count(t_.values.size());
    for (const Input& input : t_.inputs) {
      if (input.kind != Input::Kind::tensor) continue;
      ++count[input.value.index];
      expect(!t_[input.value].definition, "definitions", "input " + text(input.value) + " says that an instruction defines it");
    }
    each_instr([&](InstrId id, const Instr& instr) {
      for (uint32_t i = 0; i < instr.results.size(); ++i) {
        const Value& value = t_[instr.results[i]];
        ++count[instr.results[i].index];
        expect(value.definition == id && value.result == i, "definitions", text(instr.results[i]) + " does not know its definition");
      }
    });
    for (size_t i = 0; i < count.size(); ++i)
      expect(count[i] == 1, "definitions", text(ValueId(static_cast<uint32_t>(i))) + " is defined " + std::to_string(count[i]) + " times");
  }

  bool before(ValueId value, InstrId user) const { return !t_[value].definition || t_[value].definition < user; }

  void check_order() {
    each_instr([&](InstrId id, const Instr& instr) {
      for (ValueId operand : instr.operands)
        expect(!operand || before(operand, id), "order", text(operand) + " is used before it is defined");
      for (ValueId result : instr.results) {
        if (t_[result].kind == ValueKind::none) continue;
        const ValueId root = t_.type(result).root;
        expect(root == result || before(root, id), "order", text(result) + " lies in " + text(root) + ", which comes later");
      }
    });
  }

  void check_shapes() {
    for (uint32_t i = 0; i < t_.values.size(); ++i) {
      if (t_.values[i].kind == ValueKind::none) continue;
      const TensorType& type = t_.values[i].type;
      const std::string name = text(ValueId(i));
      expect(type.sizes.size() == type.strides.size(), "shapes", name + " has not as many strides as sizes");
      expect(t_.type(type.root).root == type.root, "shapes", "the root of " + name + " is no root");
    }
  }

  // --- arity, rules, memory

  void check_arity() {
    each_instr([&](InstrId, const Instr& instr) {
      expect(arity_fits(instr.op, instr.operands.size(), instr.attrs), "arity", std::to_string(instr.operands.size()) + " operands do not fit");
      const size_t results = instr.op == Op::write ? 0 : 1;
      expect(instr.op == Op::call || instr.results.size() == results, "arity", std::to_string(instr.results.size()) + " results do not fit");
    });
  }

  bool same(const std::vector<Dim>& a, const std::vector<Dim>& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](Dim x, Dim y) { return dims_.same(x, y); });
  }

  // Strides as far as they address anything: facts that were learned after the view was made may pin a size to 1 or 0, and the
  // rule then chooses its stride differently.
  bool same_layout(const TensorType& a, const TensorType& b) const {
    for (Dim size : a.sizes)
      if (dims_.as_constant(size) == 0) return true;
    for (size_t i = 0; i < a.sizes.size(); ++i)
      if (dims_.as_constant(a.sizes[i]) != 1 && !dims_.same(a.strides[i], b.strides[i])) return false;
    return true;
  }

  void check_rule(const Instr& instr) {
    std::vector<const TensorType*> operands;
    for (ValueId operand : instr.operands) operands.push_back(&t_.type(operand));
    TensorType expected;
    try {
      expected = infer(instr.op, operands, instr.attrs, dims_, *this);
    } catch (const UserError& error) {
      fail("rules", error.what());
    }
    if (instr.op == Op::write) return;
    const TensorType& type = t_.type(instr.results[0]);
    const bool creates = info(instr.op).kind == OpKind::create;
    expect(type.dtype == expected.dtype, "rules", "the dtype should be " + std::string(name_of(expected.dtype)));
    expect(creates || type.device == expected.device, "rules", "the device is not the operands'");
    expect(same(type.sizes, expected.sizes), "rules", "the type should be " + shown(expected));
    if (info(instr.op).kind != OpKind::view) return;
    expect(same_layout(type, expected), "rules", "the view should be " + shown(expected));
    expect(type.storage == expected.storage && type.root == expected.root, "rules", "a view lies in its operand's root");
    expect(dims_.same(type.offset, expected.offset), "rules", "the view's offset should be " + dims_.to_string(expected.offset));
  }

  // The rule's type has dims of the copied table.
  std::string shown(const TensorType& type) const {
    std::string result(name_of(type.dtype));
    const auto list = [&](const std::vector<Dim>& dims, const char* open, const char* close) {
      result += open;
      for (size_t i = 0; i < dims.size(); ++i) result += (i ? ", " : "") + dims_.to_string(dims[i]);
      result += close;
    };
    list(type.sizes, "[", "]");
    list(type.strides, "{", "}");
    return result;
  }

  void check_rules() {
    each_instr([&](InstrId, const Instr& instr) {
      if (instr.op != Op::call) check_rule(instr);
    });
  }

  void check_memory() {
    std::vector<bool> used(t_.storage_count);
    for (const Input& input : t_.inputs)
      if (input.kind == Input::Kind::tensor) used[t_.type(input.value).storage.index] = true;
    each_instr([&](InstrId, const Instr& instr) {
      const OpKind kind = info(instr.op).kind;
      for (ValueId result : instr.results) {
        if (t_[result].kind == ValueKind::none) continue;
        const TensorType& type = t_.type(result);
        if (kind != OpKind::view && kind != OpKind::call) {
          expect(!used[type.storage.index], "memory", text(result) + " shares the storage of an earlier value");
          expect(type.root == result && dims_.as_constant(type.offset) == 0, "memory", text(result) + " should be its own root");
        }
        used[type.storage.index] = true;
      }
    });
  }

  // --- effects

  void check_effects() {
    each_instr([&](InstrId, const Instr& instr) {
      for (uint32_t operand : instr.writes) expect(operand < instr.operands.size(), "effects", "it writes an operand that is not there");
      expect(instr.writes.empty() || instr.effect, "effects", "it writes and has no effect");
      expect(instr.writes.empty() || instr.op == Op::write || instr.op == Op::call || info(instr.op).kind == OpKind::contract, "effects", "only write and calls may write");
      if (instr.op != Op::write) return;
      expect(instr.writes == std::vector<uint32_t>{0}, "effects", "write writes operand 0");
      expect(!may_overlap_partly(t_.dims, t_.type(instr.operands[0]), t_.type(instr.operands[1])), "effects",
             "write reads the memory that it writes, at other addresses: its source must be copied first");
    });
  }

  // --- symbols

  bool source_axis_ok(const Source& source) const {
    using Kind = Source::Kind;
    const bool of_input = source.kind == Kind::input_size || source.kind == Kind::input_stride || source.kind == Kind::input_offset;
    if (of_input) {
      if (source.input >= t_.inputs.size() || t_.inputs[source.input].kind != Input::Kind::tensor) return false;
      return source.kind == Kind::input_offset || source.dim < t_.type(t_.inputs[source.input].value).sizes.size();
    }
    if (source.kind == Kind::input_value) return source.input < t_.inputs.size();
    if (!is_value(source.value) || t_[source.value].kind == ValueKind::none) return false;
    return source.kind == Kind::item || source.dim < t_.type(source.value).sizes.size();
  }

  // Passes drop instructions and leave the symbols that those bound in the table: only symbols in use count.
  std::set<Symbol> used_symbols() const {
    std::set<Symbol> used;
    const auto use = [&](Dim dim) {
      if (!dim) return;
      for (Symbol s : t_.dims.symbols(dim)) used.insert(s);
    };
    for (const Value& value : t_.values) {
      if (value.kind == ValueKind::none) continue;
      for (Dim dim : value.type.sizes) use(dim);
      for (Dim dim : value.type.strides) use(dim);
      use(value.type.offset);
    }
    for (const Guard& guard : t_.guards) use(guard.left), use(guard.right);
    for (const Output& output : t_.outputs) use(output.dim);
    return used;
  }

  void check_symbols() {
    for (Symbol symbol : used_symbols()) {
      const SymbolInfo& info = t_.dims.info(symbol);
      const std::string name = t_.dims.to_string(symbol);
      expect(info.source.kind != Source::Kind::none, "symbols", name + " has no source");
      expect(source_axis_ok(info.source), "symbols", name + " is read from " + to_string(info.source) + ", which is not there");
      const bool from_input = info.source.kind <= Source::Kind::input_value;
      expect(info.kind != SymbolKind::size || from_input, "symbols", name + " is a size of an input, but read from a value");
    }
  }

  // --- bound

  void expect_bound(Dim dim, InstrId at, bool inclusive, const std::string& user) const {
    if (!dim) return;
    for (Symbol s : t_.dims.symbols(dim)) {
      const ValueId value = t_.dims.info(s).source.value;
      if (!value) continue;
      const InstrId definition = t_[value].definition;
      const bool bound = !definition || (at && (definition < at || (inclusive && definition == at)));
      expect(bound, "bound", user + " uses " + t_.dims.to_string(s) + ", which is bound later");
    }
  }

  void check_bound() {
    each_instr([&](InstrId id, const Instr& instr) {
      for (Dim dim : instr.attrs.sizes) expect_bound(dim, id, false, "an attribute");
      for (Dim dim : {instr.attrs.start, instr.attrs.step, instr.attrs.value.dim, instr.attrs.value2.dim}) expect_bound(dim, id, false, "an attribute");
      for (const CallArg& arg : instr.attrs.args)
        for (const Number& number : arg.numbers) expect_bound(number.dim, id, false, "an argument");
      const bool own = instr.op == Op::call;  // a call may bind the sizes of its results
      for (ValueId result : instr.results)
        for (Dim dim : t_.type(result).sizes) expect_bound(dim, id, own, text(result));
    });
    for (const Guard& guard : t_.guards)
      for (Dim dim : {guard.left, guard.right}) expect_bound(dim, guard.after, true, "a guard");
  }

  // --- guards, inputs, outputs

  void check_guards() {
    for (const Guard& guard : t_.guards)
      expect(!guard.because.empty(), "guards", "the guard on " + t_.dims.to_string(guard.left) + " does not say why");
  }

  void check_inputs() {
    for (const Input& input : t_.inputs) {
      if (input.kind == Input::Kind::integer) {
        const auto symbols = t_.dims.symbols(input.dim);
        const SymbolKind kind = symbols.size() == 1 ? t_.dims.info(symbols[0]).kind : SymbolKind::size;
        const bool one = symbols.size() == 1 && dims_.of(symbols[0]) == input.dim;
        expect(one && (kind == SymbolKind::integer || kind == SymbolKind::born), "inputs", "integer input " + input.name + " is no i or u symbol");
        continue;
      }
      expect(t_.type(input.value).root == input.value, "inputs", "input " + input.name + " should be its own root");
      expect(input.foreign < 0 || t_.type(input.value).dtype == DType::other, "inputs", "input " + input.name + " has two dtypes");
      std::vector<int32_t> order = input.stride_order;
      std::sort(order.begin(), order.end());
      for (size_t i = 0; i < order.size(); ++i)
        expect(order.size() == t_.type(input.value).sizes.size() && order[i] == static_cast<int32_t>(i), "inputs", "the stride order of " + input.name + " is no permutation");
    }
  }

  void check_outputs() {
    for (const Output& output : t_.outputs) {
      const bool value = output.kind == Output::Kind::value;
      const bool dim = output.kind == Output::Kind::integer || output.kind == Output::Kind::boolean;
      expect(!value || is_value(output.value), "outputs", "an output is no value");
      expect(!dim || is_dim(output.dim), "outputs", "an output is no dim");
      if (dim) expect_bound(output.dim, InstrId(static_cast<uint32_t>(t_.instrs.size())), false, "an output");
    }
  }

  bool known(Guard::Kind kind, Dim left, Dim right) const {
    switch (kind) {
      case Guard::Kind::equal: return dims_.equal(left, right) == Truth::yes;
      case Guard::Kind::not_equal: return dims_.equal(left, right) == Truth::no;
      case Guard::Kind::less: return dims_.less(left, right) == Truth::yes;
      case Guard::Kind::less_equal: return dims_.less_equal(left, right) == Truth::yes;
    }
    return false;
  }

  const Trace& t_;
  DimTable dims_;  // a copy: rules make dims
  InstrId current_;
};

}  // namespace

void verify(const Trace& trace) { Verifier(trace).all(); }

void verify_text(const Trace& trace) {
  const std::string text = print(trace);
  const Trace again = parse_trace(text);
  if (!equal(trace, again)) throw InternalError("verify: text: reading the trace back gives another trace:\n" + print(again));
  if (print(again) != text) throw InternalError("verify: text: printing the trace again gives another text:\n" + print(again));
}

}  // namespace escapement
