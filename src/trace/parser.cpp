// Text to Trace; the inverse of printer.cpp. The text says everything, no rule is applied: what it means and whether that is
// allowed is the verifier's business, so that broken traces can be written down as tests.
#include "trace/guard_relation.h"
#include "trace/trace_reader.h"

namespace escapement {
namespace {

class Parser : private TraceReader {
 public:
  explicit Parser(std::string_view text) : TraceReader(text) {}

  Trace parse() {
    tokens_.expect("trace");
    trace_.name = tokens_.string("the trace's name");
    if (section("dims")) parse_dims();
    if (section("in")) while (!at_section()) parse_input();
    if (section("guards")) while (tokens_.at(">")) parse_guard();
    if (section("do")) while (!at_section()) parse_instr();
    parse_outputs();
    if (!tokens_.at_end()) tokens_.fail("unexpected " + tokens_.describe() + " after the outputs");
    finish();
    return std::move(trace_);
  }

 private:
  // --- inputs and guards

  void parse_input() {
    Input input;
    if (tokens_.at("%")) {
      input.value = parse_typed_value();
    } else {
      input.kind = Input::Kind::integer;
      input.dim = parse_dim();
    }
    tokens_.expect("=");
    input.name = tokens_.string("the input's name");
    while (!tokens_.at_line_start()) parse_input_flag(input);
    trace_.inputs.push_back(std::move(input));
  }

  void parse_input_flag(Input& input) {
    if (tokens_.accept("parameter")) input.parameter = true;
    else if (tokens_.accept("strided")) input.contiguous = false;
    else if (tokens_.accept("dtype")) {
      tokens_.expect("=");
      input.foreign = static_cast<int32_t>(tokens_.integer("the number of a dtype"));
    } else if (tokens_.accept("order")) {
      tokens_.expect("=");
      tokens_.expect("[");
      while (!tokens_.accept("]")) {
        input.stride_order.push_back(static_cast<int32_t>(tokens_.integer("an axis")));
        if (!tokens_.at("]")) tokens_.expect(",");
      }
    } else {
      tokens_.fail("unexpected " + tokens_.describe() + "; an input may be parameter, strided, dtype=N, order=[...]");
    }
  }

  void parse_guard() {
    Guard guard;
    tokens_.expect(">");
    guard.left = parse_dim();
    guard.kind = parse_relation();
    guard.right = parse_dim();
    // Instructions come later in the text: the place is resolved at the end.
    if (accept_here("after")) {
      const Token place = tokens_.peek();
      pending_after_.emplace_back(trace_.guards.size(), place, parse_after());
    }
    if (accept_here("because")) guard.because = tokens_.string("the reason");
    guard.location = parse_location();
    end_line();
    trace_.guards.push_back(std::move(guard));
  }

  Guard::Kind parse_relation() {
    for (size_t i = 0; i < std::size(kRelations); ++i)
      if (tokens_.accept(kRelations[i])) return static_cast<Guard::Kind>(i);
    tokens_.fail("expected a relation (==, !=, <, <=), found " + tokens_.describe());
  }

  struct After {
    bool is_value;
    uint32_t number;
  };
  After parse_after() {
    if (tokens_.at("%")) return {true, parse_value().index};
    return {false, tokens_.unsigned_integer("a value or the number of an instruction")};
  }

  Location parse_location() {
    if (!accept_here("@")) return {};
    const std::string text = tokens_.at_kind(Token::Kind::string) ? tokens_.string("a place") : std::string(tokens_.rest_of_word());
    const auto [entry, inserted] = locations_.try_emplace(text, static_cast<uint32_t>(trace_.locations.size()));
    if (inserted) trace_.locations.push_back(text);
    return Location{entry->second};
  }

  // --- instructions

  void parse_instr() {
    std::vector<ValueId> results;
    if (tokens_.at("%")) {
      do results.push_back(parse_typed_value());
      while (tokens_.accept(","));
      tokens_.expect("=");
    }
    const Token token = tokens_.peek();
    const auto op = op_from_name(tokens_.name("an op"));
    if (!op) Tokenizer::fail_at(token.line, token.column, "unknown op '" + std::string(token.text) + "'");
    Instr instr = blank_instr(*op);
    instr.results = std::move(results);
    if (!tokens_.at_line_start()) parse_operands(instr);
    parse_modifiers(instr);
    instr.location = parse_location();
    end_line();
    append(std::move(instr));
  }

  void append(Instr instr) {
    const InstrId id(static_cast<uint32_t>(trace_.instrs.size()));
    for (uint32_t i = 0; i < instr.results.size(); ++i) {
      Value& value = trace_.values[instr.results[i].index];
      value.definition = id;
      value.result = i;
    }
    trace_.instrs.push_back(std::move(instr));
  }

  bool at_operand_end() const { return tokens_.at_line_start() || tokens_.at("!") || tokens_.at("@"); }

  void parse_operands(Instr& instr) {
    const bool called = tokens_.at_kind(Token::Kind::string);
    if (called) parse_call(instr);
    bool first = !called;
    while (!at_operand_end()) {
      if (!first) tokens_.expect(",");
      first = false;
      if (tokens_.at("%")) {
        instr.operands.push_back(parse_defined_value());
      } else if (tokens_.accept("none")) {
        instr.operands.push_back(ValueId());
      } else {
        parse_attribute(instr);
      }
    }
  }

  void parse_attribute(Instr& instr) {
    const Token key = tokens_.peek();
    const std::string_view name = tokens_.name("an operand or attribute");
    tokens_.expect("=");
    if (!parse_attr(tokens_, name, instr.attrs, dims()))
      Tokenizer::fail_at(key.line, key.column, "unknown attribute '" + std::string(name) + "'");
  }

  void parse_modifiers(Instr& instr) {
    while (accept_here("!")) {
      if (tokens_.accept("effect")) instr.effect = true;
      else if (tokens_.accept("pure")) instr.effect = false, instr.writes.clear();
      else if (tokens_.accept("writes")) instr.writes = parse_numbers();
      else if (tokens_.accept("why")) instr.why = parse_why();
      else tokens_.fail("expected effect, pure, writes or why, found " + tokens_.describe());
    }
  }

  std::vector<uint32_t> parse_numbers() {
    std::vector<uint32_t> result;
    parse_list([&] { result.push_back(tokens_.unsigned_integer("an operand's number")); });
    return result;
  }

  Reason parse_why() {
    tokens_.expect("(");
    const Token token = tokens_.peek();
    const auto reason = reason_from_name(tokens_.name("a reason"));
    if (!reason) Tokenizer::fail_at(token.line, token.column, "unknown reason '" + std::string(token.text) + "'");
    tokens_.expect(")");
    return *reason;
  }

  // --- calls

  void parse_call(Instr& instr) {
    instr.attrs.target = tokens_.string("the target");
    parse_list([&] { instr.attrs.args.push_back(parse_arg(instr)); });
    if (!accept_here("with")) return;
    parse_list([&] { instr.operands.push_back(tokens_.accept("none") ? ValueId() : parse_defined_value()); });
  }

  int32_t parse_operand(Instr& instr) {
    if (tokens_.accept("none")) return -1;
    if (tokens_.accept("$")) return static_cast<int32_t>(tokens_.unsigned_integer("an operand's number"));
    instr.operands.push_back(parse_defined_value());
    return static_cast<int32_t>(instr.operands.size()) - 1;
  }

  CallArg parse_arg(Instr& instr) {
    CallArg arg;
    const auto as = [&](CallArg::Kind kind) { arg.kind = kind; return arg; };
    const auto numbers = [&] { parse_list([&] { arg.numbers.push_back(parse_number(tokens_, dims())); }); };
    if (tokens_.accept("none")) return arg;
    if (tokens_.at("%") || tokens_.at("$")) return arg.operands.push_back(parse_operand(instr)), as(CallArg::Kind::tensor);
    if (tokens_.accept("tensors")) return parse_list([&] { arg.operands.push_back(parse_operand(instr)); }), as(CallArg::Kind::tensors);
    if (tokens_.accept("numbers")) return numbers(), as(CallArg::Kind::numbers);
    if (tokens_.accept("boolean")) return numbers(), as(CallArg::Kind::boolean);
    if (tokens_.accept("booleans")) return numbers(), as(CallArg::Kind::booleans);
    if (tokens_.at_kind(Token::Kind::string)) return arg.text = tokens_.string("a text"), as(CallArg::Kind::text);
    if (tokens_.accept("dtype")) return arg.code = parse_code(), as(CallArg::Kind::dtype);
    if (tokens_.accept("host")) return arg.code = parse_code(), as(CallArg::Kind::host);
    if (tokens_.accept("device")) return parse_list([&] { arg.text = tokens_.string("a device"); }), as(CallArg::Kind::device);
    arg.numbers.push_back(parse_number(tokens_, dims()));
    return as(CallArg::Kind::number);
  }

  int32_t parse_code() {
    int32_t code = 0;
    parse_list([&] { code = static_cast<int32_t>(tokens_.integer("a number")); });
    return code;
  }

  // --- outputs and the end

  void parse_outputs() {
    if (!tokens_.at_line_start()) tokens_.fail("unexpected " + tokens_.describe());
    tokens_.expect("out");
    while (!tokens_.at_line_start()) {
      trace_.outputs.push_back(parse_output());
      if (!tokens_.at_line_start()) tokens_.expect(",");
    }
  }

  Output parse_output() {
    Output output;
    if (tokens_.at("%")) {
      output.value = parse_defined_value();
    } else if (tokens_.accept("input")) {
      output.kind = Output::Kind::input;
      parse_list([&] { output.value = tokens_.accept("none") ? ValueId() : parse_defined_value(); });
    } else if (tokens_.at("dim") || tokens_.at("bool")) {
      output.kind = tokens_.next().text == "dim" ? Output::Kind::integer : Output::Kind::boolean;
      parse_list([&] { output.dim = parse_dim(); });
    } else {
      tokens_.expect("none");
      output.kind = Output::Kind::none;
    }
    return output;
  }

  void finish() {
    for (uint32_t i = 0; i < trace_.values.size(); ++i)
      if (!defined_.contains(i)) Tokenizer::fail_at(1, 1, "value %" + std::to_string(i) + " is never defined");
    for (const auto& [guard, token, after] : pending_after_) {
      const bool known = after.number < (after.is_value ? trace_.values.size() : trace_.instrs.size());
      if (!known) Tokenizer::fail_at(token.line, token.column, "a guard stands after something that is not there");
      trace_.guards[guard].after = after.is_value ? trace_.values[after.number].definition : InstrId(after.number);
    }
    trace_.storage_count = storages_.next();
  }

  std::map<std::string, uint32_t> locations_;
  std::vector<std::tuple<size_t, Token, After>> pending_after_;
};

}  // namespace

Trace parse_trace(std::string_view text) { return Parser(text).parse(); }

}  // namespace escapement
