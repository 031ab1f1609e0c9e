// What every part of the trace parser stands on: the tokens, the trace so far, and how sizes, values and types are read. Private
// to parser.cpp, which adds the sections and instructions.
#pragma once

#include <map>

#include "support/error.h"
#include "support/text.h"
#include "trace/layout.h"
#include "trace/text_rules.h"

namespace escapement {

class TraceReader {
 protected:
  explicit TraceReader(std::string_view text) : tokens_(text) {}

  bool section(std::string_view name) { return tokens_.at_line_start() && tokens_.accept(name); }

  bool at_section() const {
    if (tokens_.at_end()) return true;
    if (!tokens_.at_line_start() || !tokens_.at_kind(Token::Kind::name)) return false;
    return tokens_.at("in") || tokens_.at("guards") || tokens_.at("do") || tokens_.at("out");
  }

  bool accept_here(std::string_view text) { return !tokens_.at_line_start() && tokens_.accept(text); }

  void end_line() {
    if (!tokens_.at_line_start()) tokens_.fail("unexpected " + tokens_.describe());
  }

  template <class ParseOne>
  void parse_list(ParseOne parse_one) {
    tokens_.expect("(");
    while (!tokens_.accept(")")) {
      parse_one();
      if (!tokens_.at(")")) tokens_.expect(",");
    }
  }

  // --- dims

  bool is_symbol(std::string_view name) const {
    for (uint32_t i = 0; i < dims().symbol_count(); ++i)
      if (dims().to_string(Symbol(i)) == name) return true;
    return false;
  }

  // The facts come after all symbols, so a name that is new and is no function defines a symbol.
  void parse_dims() {
    while (!at_section()) {
      const std::string_view text = tokens_.peek().text;
      const bool symbol_like = text.size() > 1 && std::string_view("suit").find(text[0]) != std::string_view::npos &&
                               text.find_first_not_of("0123456789", 1) == std::string_view::npos;
      if (symbol_like && !is_symbol(text)) parse_symbol();
      else parse_fact();
      end_line();
    }
  }

  static SymbolKind kind_of(char prefix) {
    switch (prefix) {
      case 'u': return SymbolKind::born;
      case 'i': return SymbolKind::integer;
      case 't': return SymbolKind::stride;
      default: return SymbolKind::size;
    }
  }

  void parse_symbol() {
    const Token token = tokens_.next();
    tokens_.expect("=");
    const Source source = parse_source();
    std::optional<Range> range;
    std::optional<int64_t> hint;
    if (accept_here("in")) range = parse_range();
    if (accept_here("hint")) hint = tokens_.integer("the value seen");
    const Dim symbol = dims().new_symbol(kind_of(token.text[0]), source, hint);
    if (dims().to_string(symbol) != token.text)
      Tokenizer::fail_at(token.line, token.column, "symbols of a kind are numbered in order: expected " + dims().to_string(symbol));
    if (range) learn(token, [&] { dims().assume_range(symbol, *range); });
  }

  // What contradicts itself is an error at its place.
  template <class Learn>
  void learn(const Token& start, Learn assume) {
    try {
      assume();
    } catch (const UserError& error) {
      Tokenizer::fail_at(start.line, start.column, error.what());
    }
  }

  Range parse_range() {
    Range range;
    tokens_.expect("[");
    range.low = parse_bound();
    tokens_.expect(",");
    range.high = parse_bound();
    tokens_.expect("]");
    return range;
  }

  int64_t parse_bound() {
    if (tokens_.accept("min")) return Range::kMin;
    if (tokens_.accept("max")) return Range::kMax;
    return tokens_.integer("a bound");
  }

  void parse_fact() {
    const Token start = tokens_.peek();
    DimFact fact;
    fact.left = parse_dim();
    if (tokens_.accept("==")) {
      fact.right = parse_dim();
    } else {
      tokens_.expect("in");
      fact.kind = DimFact::Kind::range;
      fact.range = parse_range();
    }
    learn(start, [&] { dims().restore(fact); });
  }

  uint32_t bracketed_number() {
    tokens_.expect("[");
    const uint32_t number = tokens_.unsigned_integer("an axis");
    tokens_.expect("]");
    return number;
  }

  Source parse_source() {
    if (tokens_.accept("none")) return {};
    if (tokens_.accept("item")) {
      tokens_.expect("(");
      const ValueId value = parse_value();
      tokens_.expect(")");
      return {Source::Kind::item, 0, value, 0};
    }
    if (tokens_.at("%")) return parse_value_source();
    return parse_input_source();
  }

  Source parse_value_source() {
    const ValueId value = parse_value();
    tokens_.expect(".");
    const bool size = tokens_.accept("size");
    if (!size) tokens_.expect("stride");
    return {size ? Source::Kind::value_size : Source::Kind::value_stride, 0, value, bracketed_number()};
  }

  Source parse_input_source() {
    const Token token = tokens_.peek();
    const std::string_view name = tokens_.name("a source");
    if (!name.starts_with("arg") || name.size() == 3)
      Tokenizer::fail_at(token.line, token.column, "expected a source such as arg0.size[1], found '" + std::string(name) + "'");
    Tokenizer digits(name.substr(3));
    const uint32_t input = digits.unsigned_integer("the number of an input");
    if (!tokens_.accept(".")) return {Source::Kind::input_value, input, {}, 0};
    if (tokens_.accept("offset")) return {Source::Kind::input_offset, input, {}, 0};
    const bool size = tokens_.accept("size");
    if (!size) tokens_.expect("stride");
    return {size ? Source::Kind::input_size : Source::Kind::input_stride, input, {}, bracketed_number()};
  }

  // --- values and types

  DimTable& dims() { return trace_.dims; }
  const DimTable& dims() const { return trace_.dims; }
  Dim parse_dim() { return dims().parse(tokens_); }

  ValueId parse_value() {
    tokens_.expect("%");
    return ValueId(tokens_.unsigned_integer("the number of a value"));
  }

  ValueId parse_defined_value() {
    const Token start = tokens_.peek();
    const ValueId value = parse_value();
    if (!defined_.contains(value.index)) Tokenizer::fail_at(start.line, start.column, "%" + std::to_string(value.index) + " is not defined here");
    return value;
  }

  std::vector<Dim> parse_dim_list(std::string_view close) {
    std::vector<Dim> result;
    while (!tokens_.at(close)) {
      result.push_back(parse_dim());
      if (!tokens_.at(close)) tokens_.expect(",");
    }
    tokens_.expect(close);
    return result;
  }

  DType parse_dtype() {
    const Token token = tokens_.peek();
    const auto dtype = dtype_from_name(tokens_.name("a dtype"));
    if (!dtype) Tokenizer::fail_at(token.line, token.column, "unknown dtype '" + std::string(token.text) + "'");
    return *dtype;
  }

  // `%3: f32[s0]{2} cuda #1 of %0[4]`
  ValueId parse_typed_value() {
    const Token start = tokens_.peek();
    const ValueId id = parse_value();
    if (defined_.contains(id.index)) Tokenizer::fail_at(start.line, start.column, "%" + std::to_string(id.index) + " is defined twice");
    tokens_.expect(":");
    Value value;
    if (tokens_.accept("none")) value.kind = ValueKind::none;
    else value.type = parse_type(id);
    defined_.emplace(id.index, start);
    if (id.index >= trace_.values.size()) {
      if (id.index > 4 * defined_.size() + 1024) Tokenizer::fail_at(start.line, start.column, "values must be numbered without large gaps");
      trace_.values.resize(id.index + 1);
    }
    trace_.values[id.index] = std::move(value);
    return id;
  }

  TensorType parse_type(ValueId self) {
    const Token start = tokens_.peek();
    TensorType type;
    type.dtype = parse_dtype();
    tokens_.expect("[");
    type.sizes = parse_dim_list("]");
    type.strides = tokens_.accept("{") ? parse_dim_list("}") : contiguous_strides(dims(), type.sizes);
    if (type.strides.size() != type.sizes.size()) Tokenizer::fail_at(start.line, start.column, "a type has as many strides as sizes");
    for (size_t i = 0; i < std::size(kDeviceNames); ++i)
      if (tokens_.accept(kDeviceNames[i])) type.device = static_cast<DeviceKind>(i);
    if (tokens_.accept("#")) type.storage = Storage(tokens_.unsigned_integer("the number of a storage"));
    parse_place(type, self);
    storages_.used(type.storage);
    return type;
  }

  void parse_place(TensorType& type, ValueId self) {
    type.root = self;
    type.offset = dims().constant(0);
    if (tokens_.accept("of")) {
      type.root = parse_place_root(self);
      if (tokens_.accept("[")) {
        type.offset = parse_dim();
        tokens_.expect("]");
      }
    }
    if (!type.storage) type.storage = type.root == self ? Storage(storages_.next()) : trace_.type(type.root).storage;
  }

  ValueId parse_place_root(ValueId self) {
    const Token start = tokens_.peek();
    const ValueId root = parse_value();
    if (root != self && !defined_.contains(root.index)) Tokenizer::fail_at(start.line, start.column, "%" + std::to_string(root.index) + " is not defined here");
    return root;
  }

  Tokenizer tokens_;
  Trace trace_;
  StorageNumbers storages_;
  std::map<uint32_t, Token> defined_;
};

}  // namespace escapement
