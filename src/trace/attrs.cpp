// Hana reflects the three structs once; printing, parsing, hashing and equality walk the reflection, so a new field is in all
// four or in none. `text_of`, `read`, `mix` and `equal` say what one field's type means; a type without them does not compile.
#include "trace/attrs.h"

#include <bit>
#include <boost/hana/accessors.hpp>
#include <boost/hana/adapt_struct.hpp>
#include <boost/hana/first.hpp>
#include <boost/hana/for_each.hpp>
#include <boost/hana/second.hpp>
#include <boost/hana/string.hpp>

#include "support/text.h"

BOOST_HANA_ADAPT_STRUCT(escapement::Number, kind, integer, real, dim);
BOOST_HANA_ADAPT_STRUCT(escapement::CallArg, kind, operands, numbers, text, code);
BOOST_HANA_ADAPT_STRUCT(escapement::Attrs, axes, axis, keepdim, sizes, start, step, value, value2, dtype, eps, correction,
                        mode, target, args);

namespace escapement {
namespace {

namespace hana = boost::hana;

template <class T, class Visitor>
void for_each_field(Visitor visit) {
  hana::for_each(hana::accessors<T>(), [&](auto accessor) {
    visit(std::string_view(hana::to<char const*>(hana::first(accessor))), hana::second(accessor));
  });
}

// --- equality: doubles by bits, everything else by value

bool equal(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }
template <class T>
bool equal(const T& a, const T& b) { return a == b; }

template <class T>
bool equal_fields(const T& a, const T& b) {
  bool result = true;
  for_each_field<T>([&](std::string_view, auto get) { result = result && equal(get(a), get(b)); });
  return result;
}

// --- hashing

void mix(uint64_t& seed, uint64_t value) { seed = (seed ^ value) * 0x9e3779b97f4a7c15u + (seed >> 29); }
void mix(uint64_t& seed, bool value) { mix(seed, uint64_t{value}); }
void mix(uint64_t& seed, int32_t value) { mix(seed, static_cast<uint64_t>(static_cast<int64_t>(value))); }
void mix(uint64_t& seed, int64_t value) { mix(seed, static_cast<uint64_t>(value)); }
void mix(uint64_t& seed, double value) { mix(seed, std::bit_cast<uint64_t>(value)); }
void mix(uint64_t& seed, Dim value) { mix(seed, uint64_t{value.index}); }
void mix(uint64_t& seed, Number::Kind kind) { mix(seed, static_cast<uint64_t>(kind)); }
void mix(uint64_t& seed, CallArg::Kind kind) { mix(seed, static_cast<uint64_t>(kind)); }
void mix(uint64_t& seed, const std::string& value) { mix(seed, uint64_t{std::hash<std::string>{}(value)}); }
void mix(uint64_t& seed, std::optional<DType> value) { mix(seed, value ? 1 + static_cast<uint64_t>(*value) : uint64_t{0}); }
void mix(uint64_t& seed, const Number& value);
void mix(uint64_t& seed, const CallArg& value);
template <class T>
void mix(uint64_t& seed, const std::vector<T>& values) {
  mix(seed, uint64_t{values.size()});
  for (const T& value : values) mix(seed, value);
}
template <class T>
void mix_fields(uint64_t& seed, const T& object) {
  for_each_field<T>([&](std::string_view, auto get) { mix(seed, get(object)); });
}
void mix(uint64_t& seed, const Number& value) { mix_fields(seed, value); }
void mix(uint64_t& seed, const CallArg& value) { mix_fields(seed, value); }

// --- text of one field

std::string text_of(bool value, const DimTable&) { return value ? "true" : "false"; }
std::string text_of(int32_t value, const DimTable&) { return std::to_string(value); }
std::string text_of(double value, const DimTable&) { return real_to_text(value); }
std::string text_of(Dim value, const DimTable& dims) { return dims.to_string(value); }
std::string text_of(const std::string& value, const DimTable&) { return quote(value); }
std::string text_of(const Number& value, const DimTable& dims) { return to_string(value, dims); }
std::string text_of(std::optional<DType> value, const DimTable&) { return std::string(name_of(*value)); }
std::string text_of(const std::vector<CallArg>&, const DimTable&) { return {}; }  // the printer's: see attrs.h
template <class T>
std::string text_of(const std::vector<T>& values, const DimTable& dims) {
  return "[" + join(values, ", ", [&](const T& value) { return text_of(value, dims); }) + "]";
}

void read(Tokenizer& tokens, bool& value, DimTable&) {
  value = tokens.accept("true");
  if (!value) tokens.expect("false");
}
void read(Tokenizer& tokens, int32_t& value, DimTable&) { value = static_cast<int32_t>(tokens.integer("an integer")); }
void read(Tokenizer& tokens, double& value, DimTable&) { value = tokens.real("a number"); }
void read(Tokenizer& tokens, Dim& value, DimTable& dims) { value = dims.parse(tokens); }
void read(Tokenizer& tokens, std::string& value, DimTable&) { value = tokens.string("a text"); }
void read(Tokenizer& tokens, Number& value, DimTable& dims) { value = parse_number(tokens, dims); }
void read(Tokenizer& tokens, std::optional<DType>& value, DimTable&) {
  const Token token = tokens.peek();
  value = dtype_from_name(tokens.name("a dtype"));
  if (!value) Tokenizer::fail_at(token.line, token.column, "unknown dtype '" + std::string(token.text) + "'");
}
void read(Tokenizer& tokens, std::vector<CallArg>&, DimTable&) { tokens.fail("args cannot be written as an attribute"); }
template <class T>
void read(Tokenizer& tokens, std::vector<T>& values, DimTable& dims) {
  tokens.expect("[");
  while (!tokens.at("]")) {
    read(tokens, values.emplace_back(), dims);
    if (!tokens.at("]")) tokens.expect(",");
  }
  tokens.expect("]");
}

bool is_call_field(std::string_view name) { return name == "target" || name == "args"; }

}  // namespace

bool operator==(const Number& a, const Number& b) { return equal_fields(a, b); }
bool operator==(const CallArg& a, const CallArg& b) { return equal_fields(a, b); }
bool operator==(const Attrs& a, const Attrs& b) { return equal_fields(a, b); }

uint64_t hash(const Attrs& attrs) {
  uint64_t seed = 0x51ed270b35ae5d2fu;
  mix_fields(seed, attrs);
  return seed;
}

std::string to_string(const Number& number, const DimTable& dims) {
  switch (number.kind) {
    case Number::Kind::none: return "none";
    case Number::Kind::boolean: return number.integer != 0 ? "true" : "false";
    case Number::Kind::integer: return std::to_string(number.integer);
    case Number::Kind::real: return real_to_text(number.real);
    case Number::Kind::dim: return "dim(" + dims.to_string(number.dim) + ")";
  }
  return {};
}

Number parse_number(Tokenizer& tokens, DimTable& dims) {
  Number result;
  auto as = [&](Number::Kind kind) { result.kind = kind; return result; };
  if (tokens.accept("none")) return result;
  if (tokens.accept("true")) { result.integer = 1; return as(Number::Kind::boolean); }
  if (tokens.accept("false")) return as(Number::Kind::boolean);
  if (tokens.accept("dim")) {
    tokens.expect("(");
    result.dim = dims.parse(tokens);
    tokens.expect(")");
    return as(Number::Kind::dim);
  }
  const bool negative = tokens.at("-");
  if (negative) tokens.next();
  if (tokens.at_kind(Token::Kind::integer)) {
    // The minus is a token of its own, and the smallest integer has no positive counterpart: read both together.
    const std::string digits = (negative ? "-" : "") + std::string(tokens.peek().text);
    Tokenizer both(digits);
    result.integer = both.integer("a number");
    tokens.next();
    return as(Number::Kind::integer);
  }
  const double magnitude = tokens.real("a number");
  result.real = negative ? -magnitude : magnitude;
  return as(Number::Kind::real);
}

std::string to_string(const Attrs& attrs, const DimTable& dims) {
  const Attrs standard;
  std::string result;
  for_each_field<Attrs>([&](std::string_view name, auto get) {
    if (is_call_field(name) || equal(get(attrs), get(standard))) return;
    if (!result.empty()) result += ", ";
    result += std::string(name) + "=" + text_of(get(attrs), dims);
  });
  return result;
}

bool parse_attr(Tokenizer& tokens, std::string_view key, Attrs& attrs, DimTable& dims) {
  bool found = false;
  for_each_field<Attrs>([&](std::string_view name, auto get) {
    if (name != key || is_call_field(name)) return;
    found = true;
    read(tokens, get(attrs), dims);
  });
  return found;
}

}  // namespace escapement
