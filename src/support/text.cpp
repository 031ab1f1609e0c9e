// See text.h. One pass over the text, no copies; a token is a view into it.
#include "support/text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "support/error.h"

namespace escapement {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_start(c) || is_digit(c); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

constexpr uint64_t kQuietNan = 0x7ff8000000000000u;

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Tokenizer::Tokenizer(std::string_view text) : text_(text) { advance(); }

void Tokenizer::fail_at(int line, int column, const std::string& message) {
  throw UserError(std::to_string(line) + ":" + std::to_string(column) + ": " + message);
}

void Tokenizer::fail(const std::string& message) const { fail_at(token_.line, token_.column, message); }

std::string Tokenizer::describe() const {
  return at_end() ? "the end of the text" : "'" + std::string(token_.text) + "'";
}

void Tokenizer::skip_blanks() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    const bool comment = c == '#' && !(position_ + 1 < text_.size() && is_digit(text_[position_ + 1]));
    if (comment) {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (is_blank(c)) {
      ++position_;
      if (c == '\n') ++line_, line_start_ = position_, fresh_line_ = true;
    } else {
      return;
    }
  }
}

size_t Tokenizer::scan_number(size_t at, Token::Kind& kind) const {
  auto digits = [&] {
    while (at < text_.size() && is_digit(text_[at])) ++at;
  };
  kind = Token::Kind::integer;
  digits();
  if (at + 1 < text_.size() && text_[at] == '.' && is_digit(text_[at + 1])) kind = Token::Kind::real, ++at, digits();
  if (at < text_.size() && text_[at] == 'e') {
    size_t exponent = at + 1;
    if (exponent < text_.size() && (text_[exponent] == '-' || text_[exponent] == '+')) ++exponent;
    if (exponent < text_.size() && is_digit(text_[exponent])) kind = Token::Kind::real, at = exponent, digits();
  }
  return at;
}

size_t Tokenizer::scan_string(size_t at) const {
  const int column = static_cast<int>(at - line_start_) + 1;
  for (++at; at < text_.size() && text_[at] != '\n'; ++at) {
    if (text_[at] == '"') return at + 1;
    if (text_[at] == '\\') ++at;
  }
  fail_at(line_, column, "this string does not end on its line");
}

void Tokenizer::advance() {
  skip_blanks();
  token_ = Token{Token::Kind::end, {}, line_, static_cast<int>(position_ - line_start_) + 1, fresh_line_};
  fresh_line_ = false;
  if (position_ >= text_.size()) return;
  const char c = text_[position_];
  size_t end = position_ + 1;
  token_.kind = Token::Kind::punctuation;
  if (is_name_start(c)) {
    token_.kind = Token::Kind::name;
    while (end < text_.size() && is_name(text_[end])) ++end;
  } else if (is_digit(c)) {
    end = scan_number(position_, token_.kind);
  } else if (c == '"') {
    token_.kind = Token::Kind::string;
    end = scan_string(position_);
  } else if (end < text_.size() && ((text_[end] == '=' && std::string_view("=!<>").find(c) != std::string_view::npos) ||
                                    (c == '-' && text_[end] == '>'))) {
    ++end;
  }
  token_.text = text_.substr(position_, end - position_);
  position_ = end;
}

Token Tokenizer::next() {
  Token result = token_;
  advance();
  return result;
}

bool Tokenizer::accept(std::string_view text) {
  if (!at(text)) return false;
  advance();
  return true;
}

void Tokenizer::expect(std::string_view text) {
  if (!accept(text)) fail("expected '" + std::string(text) + "', found " + describe());
}

std::string_view Tokenizer::name(std::string_view what) {
  if (!at_kind(Token::Kind::name)) fail("expected " + std::string(what) + ", found " + describe());
  return next().text;
}

std::string Tokenizer::string(std::string_view what) {
  if (!at_kind(Token::Kind::string)) fail("expected " + std::string(what) + " in quotes, found " + describe());
  std::string result = unquote(token_.text);
  advance();
  return result;
}

int64_t Tokenizer::integer(std::string_view what) {
  const bool negative = accept("-");
  if (!at_kind(Token::Kind::integer)) fail("expected " + std::string(what) + ", found " + describe());
  const std::string digits = (negative ? "-" : "") + std::string(token_.text);
  int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
    fail("the number " + digits + " does not fit in 64 bits");
  advance();
  return value;
}

uint32_t Tokenizer::unsigned_integer(std::string_view what) {
  const Token start = token_;
  const int64_t value = integer(what);
  if (value < 0 || value >= std::numeric_limits<uint32_t>::max())
    fail_at(start.line, start.column, "expected " + std::string(what) + ", found " + std::to_string(value));
  return static_cast<uint32_t>(value);
}

double Tokenizer::real(std::string_view what) {
  const double sign = accept("-") ? -1.0 : 1.0;
  if (accept("inf")) return sign * std::numeric_limits<double>::infinity();
  if (accept("nan")) {
    uint64_t bits = kQuietNan | (sign < 0 ? uint64_t{1} << 63 : 0);
    if (accept("(")) {
      const std::string hexadecimal = string("the bits of a nan");
      if (std::from_chars(hexadecimal.data(), hexadecimal.data() + hexadecimal.size(), bits, 16).ec != std::errc())
        fail("these are not the bits of a nan");
      expect(")");
    }
    return std::bit_cast<double>(bits);
  }
  if (!at_kind(Token::Kind::integer) && !at_kind(Token::Kind::real)) fail("expected " + std::string(what) + ", found " + describe());
  double value = 0;
  std::from_chars(token_.text.data(), token_.text.data() + token_.text.size(), value);
  advance();
  return sign * value;
}

std::string_view Tokenizer::rest_of_word() {
  const size_t start = static_cast<size_t>(token_.text.data() - text_.data());
  if (at_end()) return {};
  position_ = start;
  while (position_ < text_.size() && !is_blank(text_[position_])) ++position_;
  const std::string_view word = text_.substr(start, position_ - start);
  advance();
  return word;
}

std::string quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string result = "\"";
  for (char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') result += '\\', result += c;
    else if (c == '\n') result += "\\n";
    else if (c == '\t') result += "\\t";
    else if (code < 32 || code == 127) result += "\\x", result += kHex[code >> 4], result += kHex[code & 15];
    else result += c;
  }
  return result + '"';
}

std::string unquote(std::string_view quoted) {
  std::string result;
  for (size_t i = 1; i + 1 < quoted.size(); ++i) {
    if (quoted[i] != '\\') { result += quoted[i]; continue; }
    const char c = quoted[++i];
    if (c == 'n') result += '\n';
    else if (c == 't') result += '\t';
    else if (c == 'x' && i + 3 < quoted.size() && hex_digit(quoted[i + 1]) >= 0 && hex_digit(quoted[i + 2]) >= 0)
      result += static_cast<char>(hex_digit(quoted[i + 1]) * 16 + hex_digit(quoted[i + 2])), i += 2;
    else result += c;
  }
  return result;
}

std::vector<std::string_view> names_in(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    names.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

std::string real_to_text(double value) {
  if (std::isnan(value)) {
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    if (bits == kQuietNan) return "nan";
    char buffer[20];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, bits, 16).ptr;
    return "nan(\"" + std::string(buffer, end) + "\")";
  }
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string result(buffer, end);
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

}  // namespace escapement
