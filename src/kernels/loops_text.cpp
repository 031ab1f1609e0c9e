// Loop nests as text, one fact a line; print(parse(print(n))) == print(n). Example:
//
//   nest row
//   axis parallel
//   axis reduced
//   param f32 in unit
//   param f32 out unit
//   row f32
//   stage element
//     input 0 load 0
//     %0 = input:f32 0
//     reduce sum %0 row 0
//   stage element
//     input 0 load 0
//     input 1 row 0
//     %0 = input:f32 0
//     %1 = input:f32 1
//     %2 = div:f32 %0 %1
//     store 1 %2
//   end
#include <charconv>
#include <sstream>

#include "kernels/loops.h"
#include "support/error.h"

namespace escapement {
namespace {

constexpr std::string_view kScheduleNames[] = {"map", "row", "column"};
constexpr std::string_view kInputNames[] = {"load", "gather", "index", "row"};

bool has_bits(ScalarOp op) {
  return op == ScalarOp::input || op == ScalarOp::param || op == ScalarOp::constant || op == ScalarOp::round_to;
}

void print_node(std::ostream& out, size_t number, const ScalarNode& n) {
  out << "  %" << number << " = " << name_of(n.op) << ":" << name_of(n.type);
  const Reg operands[] = {n.a, n.b, n.c};
  for (int i = 0; i < arity_of(n.op); ++i) out << " %" << operands[i];
  if (has_bits(n.op)) {
    if (n.op == ScalarOp::constant) {
      out << " 0x" << std::hex << n.bits << std::dec;
    } else {
      out << " " << n.bits;
    }
  }
  out << "\n";
}

void print_input(std::ostream& out, size_t number, const LoopInput& input) {
  out << "  input " << number << " " << kInputNames[static_cast<int>(input.kind)] << " " << input.number;
  if (input.kind == LoopInput::Kind::gather) {
    out << " at %" << input.position << " below " << input.bound << (input.wrap ? " wrap" : "");
  }
  out << "\n";
}

void print_stage(std::ostream& out, const Stage& stage) {
  out << "stage " << (stage.kind == Stage::Kind::each_element ? "element" : "row") << "\n";
  for (size_t i = 0; i < stage.inputs.size(); ++i) print_input(out, i, stage.inputs[i]);
  for (size_t i = 0; i < stage.body.nodes().size(); ++i) print_node(out, i, stage.body.nodes()[i]);
  for (const LoopStore& s : stage.stores) out << "  store " << s.param << " %" << s.value << "\n";
  for (const LoopReduction& r : stage.reductions) out << "  reduce " << name_of(r.op) << " %" << r.value << " row " << r.row_value << "\n";
  for (const RowKeep& k : stage.keeps) out << "  keep %" << k.value << " row " << k.row_value << "\n";
}

// --- reading: words of one line; every error names its line
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool next_line() {  // skips empty lines and comments; false at the end
    while (!rest_.empty()) {
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++number_;
      line_ = line_.substr(0, line_.find("//"));
      if (line_.find_first_not_of(" \t\r") != std::string_view::npos) return true;
    }
    return false;
  }

  std::string_view word() {  // empty at the end of the line
    const size_t begin = line_.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return line_ = {};
    const size_t end = std::min(line_.find_first_of(" \t\r", begin), line_.size());
    const std::string_view found = line_.substr(begin, end - begin);
    line_.remove_prefix(end);
    return found;
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw UserError("loop nest, line " + std::to_string(number_) + ": " + std::string(what));
  }

  uint64_t number() { return number_of(word()); }
  Reg reg() {
    const std::string_view w = word();
    if (w.empty() || w[0] != '%') fail("expected a register");
    return static_cast<Reg>(number_of(w.substr(1)));
  }
  void expect(std::string_view wanted) {
    if (word() != wanted) fail("expected '" + std::string(wanted) + "'");
  }
  DType dtype_of(std::string_view name) const {
    const auto type = dtype_from_name(name);
    if (!type) fail("unknown type '" + std::string(name) + "'");
    return *type;
  }
  DType dtype() { return dtype_of(word()); }

 private:
  uint64_t number_of(std::string_view w) const {
    const bool hex = w.starts_with("0x");
    if (hex) w.remove_prefix(2);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), value, hex ? 16 : 10);
    if (error != std::errc() || end != w.data() + w.size()) fail("expected a number");
    return value;
  }

  std::string_view rest_, line_;
  int number_ = 0;
};

ScalarOp scalar_op(const Reader& in, std::string_view name) {
#define SCALAR_OP(op, arity) \
  if (name == #op) return ScalarOp::op;
#include "trace/scalar.def"
#undef SCALAR_OP
  in.fail("unknown operation '" + std::string(name) + "'");
}

void parse_node(Reader& in, std::string_view target, ScalarProgram& body) {
  if (target != "%" + std::to_string(body.nodes().size())) in.fail("registers are numbered in order");
  in.expect("=");
  const std::string_view what = in.word();
  const size_t colon = what.find(':');
  if (colon == std::string_view::npos) in.fail("expected operation:type");
  const ScalarOp op = scalar_op(in, what.substr(0, colon));
  const DType type = in.dtype_of(what.substr(colon + 1));
  Reg operands[3] = {0, 0, 0};
  for (int i = 0; i < arity_of(op); ++i) {
    operands[i] = in.reg();
    if (operands[i] >= body.nodes().size()) in.fail("operand is not defined yet");
  }
  body.emit(op, type, operands[0], operands[1], operands[2], has_bits(op) ? in.number() : 0);
}

LoopInput parse_input(Reader& in) {
  LoopInput input;
  const std::string_view kind = in.word();
  for (int i = 0; i < 4; ++i) {
    if (kind == kInputNames[i]) input.kind = static_cast<LoopInput::Kind>(i);
  }
  if (kind != kInputNames[static_cast<int>(input.kind)]) in.fail("unknown kind of input");
  input.number = static_cast<uint32_t>(in.number());
  if (input.kind == LoopInput::Kind::gather) {
    in.expect("at");
    input.position = in.reg();
    in.expect("below");
    input.bound = static_cast<uint32_t>(in.number());
    input.wrap = in.word() == "wrap";
  }
  return input;
}

void parse_stage_line(Reader& in, std::string_view word, Stage& stage) {
  if (word == "input") {
    if (in.number() != stage.inputs.size()) in.fail("inputs are numbered in order");
    stage.inputs.push_back(parse_input(in));
  } else if (word == "store") {
    const auto param = static_cast<uint32_t>(in.number());
    stage.stores.push_back({param, in.reg()});
  } else if (word == "reduce") {
    const auto op = op_from_name(in.word());
    if (!op) in.fail("unknown reduction");
    const Reg value = in.reg();
    in.expect("row");
    stage.reductions.push_back({*op, value, static_cast<uint32_t>(in.number())});
  } else if (word == "keep") {
    const Reg value = in.reg();
    in.expect("row");
    stage.keeps.push_back({value, static_cast<uint32_t>(in.number())});
  } else if (word.starts_with("%")) {
    parse_node(in, word, stage.body);
  } else {
    in.fail("unknown line '" + std::string(word) + "'");
  }
}

LoopAxis parse_axis(Reader& in) {
  LoopAxis axis;
  const std::string_view kind = in.word();
  if (kind != "parallel" && kind != "reduced") in.fail("expected 'parallel' or 'reduced'");
  axis.reduced = kind == "reduced";
  axis.indexed = in.word() == "indexed";
  return axis;
}

LoopParam parse_param(Reader& in) {
  LoopParam param;
  param.dtype = in.dtype();
  param.written = in.word() == "out";
  param.inner = in.word() == "zero" ? InnerStride::zero : InnerStride::unit;
  return param;
}

Schedule parse_schedule(Reader& in) {
  const std::string_view name = in.word();
  for (int i = 0; i < 3; ++i) {
    if (name == kScheduleNames[i]) return static_cast<Schedule>(i);
  }
  in.fail("unknown schedule");
}

}  // namespace

std::string print(const LoopNest& nest) {
  std::ostringstream out;
  out << "nest " << kScheduleNames[static_cast<int>(nest.schedule)] << "\n";
  for (const LoopAxis& a : nest.axes) out << "axis " << (a.reduced ? "reduced" : "parallel") << (a.indexed ? " indexed" : "") << "\n";
  for (const LoopParam& p : nest.params) {
    out << "param " << name_of(p.dtype) << (p.written ? " out " : " in ") << (p.inner == InnerStride::zero ? "zero" : "unit") << "\n";
  }
  for (DType t : nest.scalars) out << "scalar " << name_of(t) << "\n";
  for (DType t : nest.row_values) out << "row " << name_of(t) << "\n";
  for (const Stage& s : nest.stages) print_stage(out, s);
  out << "end\n";
  return out.str();
}

LoopNest parse_loop_nest(std::string_view text) {
  Reader in(text);
  LoopNest nest;
  if (!in.next_line()) in.fail("expected 'nest'");
  in.expect("nest");
  nest.schedule = parse_schedule(in);
  while (in.next_line()) {
    const std::string_view word = in.word();
    if (word == "end") return nest;
    if (word == "stage") {
      nest.stages.emplace_back().kind = in.word() == "row" ? Stage::Kind::each_row : Stage::Kind::each_element;
    } else if (!nest.stages.empty()) {
      parse_stage_line(in, word, nest.stages.back());
    } else if (word == "axis") {
      nest.axes.push_back(parse_axis(in));
    } else if (word == "param") {
      nest.params.push_back(parse_param(in));
    } else if (word == "scalar") {
      nest.scalars.push_back(in.dtype());
    } else if (word == "row") {
      nest.row_values.push_back(in.dtype());
    } else {
      in.fail("unknown line '" + std::string(word) + "'");
    }
  }
  in.fail("expected 'end'");
}

}  // namespace escapement
