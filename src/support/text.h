// The little that every text form of ours shares: a tokenizer that knows line and column, quoting, and numbers that read
// back to the same bits. Newlines are not tokens: a grammar that cares asks `at_line_start()`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace escapement {

struct Token {
  enum class Kind : uint8_t { end, name, integer, real, string, punctuation } kind = Kind::end;
  std::string_view text;   // as written; strings with their quotes
  int line = 1, column = 1;
  bool first_in_line = false;
};

// Tokens: names [A-Za-z_][A-Za-z0-9_]*; unsigned integers and reals; "strings" with \" \\ \n \t \xHH; everything else one
// character, except the pairs == != <= >= -> . A `#` starts a comment up to the end of the line unless a digit follows it.
class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text);

  const Token& peek() const { return token_; }
  Token next();                                    // returns the current token and goes on
  bool at_end() const { return token_.kind == Token::Kind::end; }
  bool at_line_start() const { return token_.first_in_line || at_end(); }
  bool at(std::string_view text) const { return token_.text == text && token_.kind != Token::Kind::string; }
  bool at_kind(Token::Kind kind) const { return token_.kind == kind; }
  bool accept(std::string_view text);              // goes on if the current token is `text`
  void expect(std::string_view text);              // as accept, else an error
  std::string_view name(std::string_view what);    // a name, or "line:column: expected <what>"
  std::string string(std::string_view what);       // a quoted string, unquoted
  int64_t integer(std::string_view what);          // with an optional minus sign
  uint32_t unsigned_integer(std::string_view what);
  double real(std::string_view what);              // also an integer, inf, nan, nan(0x...)
  std::string_view rest_of_word();                 // from the current token to the next blank; then goes on

  [[noreturn]] void fail(const std::string& message) const;                      // at the current token
  [[noreturn]] static void fail_at(int line, int column, const std::string& message);  // UserError "line:column: message"
  std::string describe() const;                    // the current token, for messages

 private:
  void advance();
  void skip_blanks();
  size_t scan_number(size_t at, Token::Kind& kind) const;
  size_t scan_string(size_t at) const;

  std::string_view text_;
  size_t position_ = 0;
  int line_ = 1;
  size_t line_start_ = 0;
  bool fresh_line_ = true;
  Token token_;
};

std::string quote(std::string_view text);
std::string unquote(std::string_view quoted);  // the inverse; the text must be well formed

// Shortest decimal that reads back to the same bits, always distinct from an integer: "1.0", "1e-05", "-0.0", "inf", "nan".
std::string real_to_text(double value);

// The names of a list with commas between them, as options and tools take it. No name is left out, so an empty one between two
// commas can be refused; an empty list has none, and a comma at the end adds none.
std::vector<std::string_view> names_in(std::string_view list);

template <class Range, class Print>
std::string join(const Range& range, std::string_view separator, Print print) {
  std::string result;
  bool first = true;
  for (const auto& element : range) {
    if (!first) result += separator;
    first = false;
    result += print(element);
  }
  return result;
}

}  // namespace escapement
