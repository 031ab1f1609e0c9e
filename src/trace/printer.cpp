// Trace to text. The grammar is in docs/ir.md; parser.cpp is the inverse. Expressions are printed as written, never in their
// canonical form, so that reading them back gives the same ids.
#include "support/text.h"
#include "trace/guard_relation.h"
#include "trace/layout.h"
#include "trace/text_rules.h"

namespace escapement {
namespace {

std::string value_text(ValueId value) { return value ? "%" + std::to_string(value.index) : "none"; }

std::string location_text(const Trace& trace, Location location) {
  if (location.index >= trace.locations.size()) return {};
  const std::string& text = trace.locations[location.index];
  const bool plain_start = !text.empty() && (std::isalnum(static_cast<unsigned char>(text[0])) || std::string_view("_/<.").find(text[0]) != std::string_view::npos);
  const bool bare = plain_start && text.find_first_of(" \t\r\n\"") == std::string::npos;
  return "  @" + (bare ? text : quote(text));
}

class Printer {
 public:
  explicit Printer(const Trace& trace) : trace_(trace), dims_(trace.dims) {}

  std::string all() {
    out_ = "trace " + quote(trace_.name) + "\n";
    print_dims();
    print_inputs();
    print_guards();
    if (!trace_.instrs.empty()) out_ += "do\n";
    for (uint32_t i = 0; i < trace_.instrs.size(); ++i) print_instr(trace_.instrs[i]);
    out_ += "out";
    std::string separator = " ";
    for (const Output& output : trace_.outputs) out_ += separator + output_text(output), separator = ", ";
    return out_ + "\n";
  }

  std::string type_text(const TensorType& type) {
    const auto list = [&](const std::vector<Dim>& dims) { return join(dims, ", ", [&](Dim dim) { return dims_.to_string(dim); }); };
    std::string text = std::string(name_of(type.dtype)) + "[" + list(type.sizes) + "]";
    if (!scratch_) scratch_ = dims_;
    if (type.strides != contiguous_strides(*scratch_, type.sizes)) text += "{" + list(type.strides) + "}";
    if (type.device != DeviceKind::cpu) text += " " + std::string(kDeviceNames[static_cast<size_t>(type.device)]);
    return text;
  }

  std::string instr_text(const Instr& instr) {
    std::string text(name_of(instr.op));
    if (printed_as_call(instr)) text += " " + call_text(instr);
    else if (!instr.operands.empty()) text += " " + join(instr.operands, ", ", value_text);
    const std::string attrs = to_string(instr.attrs, dims_);
    const bool first = instr.operands.empty() && !printed_as_call(instr);
    if (!attrs.empty()) text += (first ? " " : ", ") + attrs;
    return text + modifiers_text(instr);
  }

 private:
  // --- sections

  static std::string bound_text(int64_t bound) {
    if (bound == Range::kMin) return "min";
    return bound == Range::kMax ? "max" : std::to_string(bound);
  }
  static std::string range_text(Range range) { return " in [" + bound_text(range.low) + ", " + bound_text(range.high) + "]"; }

  void print_dims() {
    if (dims_.symbol_count() > 0) out_ += "dims\n";
    for (uint32_t i = 0; i < dims_.symbol_count(); ++i) {
      const SymbolInfo& info = dims_.info(Symbol(i));
      out_ += "  " + dims_.to_string(Symbol(i)) + " = " + to_string(info.source);
      const Range standard{info.kind == SymbolKind::size ? 0 : Range::kMin, Range::kMax};
      if (info.range != standard) out_ += range_text(info.range);
      if (info.hint) out_ += " hint " + std::to_string(*info.hint);
      out_ += "\n";
    }
    for (const DimFact& fact : dims_.facts()) {
      out_ += "  " + dims_.to_string(fact.left);
      out_ += fact.kind == DimFact::Kind::equal ? " == " + dims_.to_string(fact.right) : range_text(fact.range);
      out_ += "\n";
    }
  }

  void print_inputs() {
    if (!trace_.inputs.empty()) out_ += "in\n";
    for (const Input& input : trace_.inputs) {
      if (input.kind == Input::Kind::integer) {
        out_ += "  " + dims_.to_string(input.dim) + " = " + quote(input.name) + "\n";
        continue;
      }
      out_ += "  " + result_text(input.value) + " = " + quote(input.name);
      if (input.parameter) out_ += " parameter";
      if (!input.contiguous) out_ += " strided";
      if (input.foreign >= 0) out_ += " dtype=" + std::to_string(input.foreign);
      if (!input.stride_order.empty())
        out_ += " order=[" + join(input.stride_order, ", ", [](int32_t axis) { return std::to_string(axis); }) + "]";
      out_ += "\n";
    }
  }

  void print_guards() {
    if (!trace_.guards.empty()) out_ += "guards\n";
    for (const Guard& guard : trace_.guards) {
      out_ += "> " + dims_.to_string(guard.left) + " " + std::string(relation_text(guard.kind)) + " " +
              dims_.to_string(guard.right);
      if (guard.after) out_ += after_text(guard.after);
      if (!guard.because.empty()) out_ += "  because " + quote(guard.because);
      out_ += location_text(trace_, guard.location) + "\n";
    }
  }

  std::string after_text(InstrId id) const {
    const bool named = id.index < trace_.instrs.size() && !trace_[id].results.empty();
    return "  after " + (named ? value_text(trace_[id].results[0]) : std::to_string(id.index));
  }

  void print_instr(const Instr& instr) {
    out_ += "  " + join(instr.results, ", ", [&](ValueId result) { return result_text(result); });
    if (!instr.results.empty()) out_ += " = ";
    out_ += instr_text(instr) + location_text(trace_, instr.location) + "\n";
  }

  // --- values

  std::string result_text(ValueId id) {
    const Value& value = trace_[id];
    if (value.kind == ValueKind::none) return value_text(id) + ": none";
    const TensorType& type = value.type;
    const bool own_root = !type.root || type.root == id;
    const uint32_t standard = own_root ? storages_.next() : trace_.type(type.root).storage.index;
    std::string text = value_text(id) + ": " + type_text(type);
    if (type.storage && type.storage.index != standard) text += " #" + std::to_string(type.storage.index);
    if (type.storage) storages_.used(type.storage);
    const std::string offset = type.offset ? dims_.to_string(type.offset) : "0";
    if (!own_root || offset != "0") text += " of " + value_text(type.root) + (offset == "0" ? "" : "[" + offset + "]");
    return text;
  }

  // --- calls

  std::string operand_text(const Instr& instr, int32_t operand, bool direct) const {
    if (operand == -1) return "none";
    return direct ? value_text(instr.operands[static_cast<size_t>(operand)]) : "$" + std::to_string(operand);
  }

  std::string arg_text(const Instr& instr, const CallArg& arg, bool direct) const {
    const auto operand = [&](int32_t i) { return operand_text(instr, i, direct); };
    const auto number = [&](const Number& n) { return to_string(n, dims_); };
    switch (arg.kind) {
      case CallArg::Kind::none: return "none";
      case CallArg::Kind::tensor: return join(arg.operands, ", ", operand);
      case CallArg::Kind::tensors: return "tensors(" + join(arg.operands, ", ", operand) + ")";
      case CallArg::Kind::number: return join(arg.numbers, ", ", number);
      case CallArg::Kind::numbers: return "numbers(" + join(arg.numbers, ", ", number) + ")";
      case CallArg::Kind::boolean: return "boolean(" + join(arg.numbers, ", ", number) + ")";
      case CallArg::Kind::booleans: return "booleans(" + join(arg.numbers, ", ", number) + ")";
      case CallArg::Kind::text: return quote(arg.text);
      case CallArg::Kind::dtype: return "dtype(" + std::to_string(arg.code) + ")";
      case CallArg::Kind::device: return "device(" + quote(arg.text) + ")";
      case CallArg::Kind::host: return "host(" + std::to_string(arg.code) + ")";
    }
    return {};
  }

  std::string call_text(const Instr& instr) const {
    const bool direct = operands_in_order(instr);
    std::string text = quote(instr.attrs.target) + "(" +
                       join(instr.attrs.args, ", ", [&](const CallArg& arg) { return arg_text(instr, arg, direct); }) + ")";
    if (!direct) text += " with (" + join(instr.operands, ", ", value_text) + ")";
    return text;
  }

  static std::string modifiers_text(const Instr& instr) {
    const Instr standard = blank_instr(instr.op);
    std::string text;
    if (instr.effect != standard.effect || instr.writes != standard.writes) {
      if (standard.effect) text += " !pure";  // start from nothing
      if (instr.effect) text += " !effect";
      if (!instr.writes.empty()) text += " !writes(" + join(instr.writes, ", ", [](uint32_t i) { return std::to_string(i); }) + ")";
    }
    if (instr.why != standard.why) text += " !why(" + std::string(reason_name(instr.why)) + ")";
    return text;
  }

  std::string output_text(const Output& output) const {
    switch (output.kind) {
      case Output::Kind::value: return value_text(output.value);
      case Output::Kind::input: return "input(" + value_text(output.value) + ")";
      case Output::Kind::integer: return "dim(" + dims_.to_string(output.dim) + ")";
      case Output::Kind::boolean: return "bool(" + dims_.to_string(output.dim) + ")";
      case Output::Kind::none: return "none";
    }
    return {};
  }

  const Trace& trace_;
  const DimTable& dims_;
  std::optional<DimTable> scratch_;  // a copy: contiguous strides are made in it to be compared
  StorageNumbers storages_;
  std::string out_;
};

}  // namespace

Instr blank_instr(Op op) {
  Instr instr{};
  instr.op = op;
  if (op == Op::write) instr.effect = true, instr.writes = {0};
  if (info(op).kind == OpKind::contract) instr.why = Reason::call_contraction;
  return instr;
}

std::string print(const Trace& trace) { return Printer(trace).all(); }
std::string to_string(const Trace& trace, const TensorType& type) { return Printer(trace).type_text(type); }
std::string to_string(const Trace& trace, InstrId id) { return Printer(trace).instr_text(trace[id]); }

}  // namespace escapement
