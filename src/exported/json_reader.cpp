// See json_reader.h.
#include "exported/json_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "support/error.h"

namespace escapement {

class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}

  JsonValue document() {
    JsonValue result = value(0);
    skip_blanks();
    if (at_ != text_.size()) fail("more text after the value");
    return result;
  }

 private:
  using Kind = JsonValue::Kind;

  [[noreturn]] void fail(const std::string& cause) const { throw UserError("at byte " + std::to_string(at_) + ": " +
      cause); }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool accept(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(at_ < text_.size() ? std::string("expected '") + c + "'" : "the text ends early");
  }

  JsonValue value(int depth) {
    if (depth > kMaxJsonDepth) fail("nested more than " + std::to_string(kMaxJsonDepth) + " deep");
    if (++values_ > kMaxJsonValues) fail("more than " + std::to_string(kMaxJsonValues) + " values");
    skip_blanks();
    switch (peek()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': return text();
      case 't': return word("true", Kind::boolean, true);
      case 'f': return word("false", Kind::boolean, false);
      case 'n': return word("null", Kind::null, false);
      default: return number();
    }
  }

  JsonValue word(std::string_view expected, Kind kind, bool truth) {
    if (text_.substr(at_, expected.size()) != expected) fail("expected a value");
    at_ += expected.size();
    JsonValue v;
    v.kind_ = kind;
    v.truth_ = truth;
    return v;
  }

  JsonValue array(int depth) {
    JsonValue v;
    v.kind_ = Kind::array;
    expect('[');
    if (accept(']')) return v;
    do v.items_.push_back(value(depth + 1));
    while (accept(','));
    expect(']');
    return v;
  }

  JsonValue object(int depth) {
    JsonValue v;
    v.kind_ = Kind::object;
    expect('{');
    if (accept('}')) return v;
    do {
      skip_blanks();
      std::string name = string();
      expect(':');
      v.members_.push_back({std::move(name), value(depth + 1)});
    } while (accept(','));
    expect('}');
    sort(v.members_);
    return v;
  }

  void sort(std::vector<JsonValue::Member>& members) const {
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(members.begin(), members.end(),
        [](const auto& a, const auto& b) { return a.name == b.name; });
    if (twice != members.end()) fail("the name \"" + twice->name + "\" stands twice in an object");
  }

  JsonValue text() {
    JsonValue v;
    v.kind_ = Kind::string;
    v.text_ = string();
    return v;
  }

  bool digits() {
    const size_t start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > start;
  }

  // -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
  JsonValue number() {
    const size_t start = at_;
    if (peek() == '-') ++at_;
    const size_t first = at_;
    if (!digits()) fail(at_ < text_.size() ? "expected a value" : "the text ends early");
    if (text_[first] == '0' && at_ > first + 1) fail("a number starts with 0");
    bool whole = true;
    if (peek() == '.') {
      ++at_, whole = false;
      if (!digits()) fail("a number ends early");
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_, whole = false;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) fail("a number ends early");
    }
    return number_of(text_.substr(start, at_ - start), whole);
  }

  JsonValue number_of(std::string_view digits, bool whole) const {
    JsonValue v;
    v.kind_ = whole ? Kind::integer : Kind::real;
    const char* const end = digits.data() + digits.size();
    const auto read = whole ? std::from_chars(digits.data(), end, v.integer_) : std::from_chars(digits.data(), end, v.real_);
    if (read.ec != std::errc() || read.ptr != end)
      fail("the number " + std::string(digits.substr(0, 40)) + " is out of range");
    return v;
  }

  std::string string() {
    if (peek() != '"') fail("expected a string");
    ++at_;
    std::string out;
    for (;;) {
      if (at_ >= text_.size()) fail("a string has no end");
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') return ++at_, out;
      if (c < 0x20) fail("a control character in a string");
      if (c == '\\') escape(out);
      else if (c < 0x80) out += text_[at_++];
      else sequence(out, c);
    }
  }

  void escape(std::string& out) {
    static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const char letter = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    at_ += 2;
    if (letter == 'u') return append(out, escaped_point());
    const size_t which = letter == '\0' ? std::string_view::npos : kLetters.find(letter);
    if (which == std::string_view::npos) fail("an unknown escape in a string");
    out += kMeanings[which];
  }

  uint32_t hex4() {
    uint32_t unit = 0;
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    if (digits.size() != 4 || read.ec != std::errc() || read.ptr != digits.data() + 4) fail("a bad \\u escape in a string");
    at_ += 4;
    return unit;
  }

  uint32_t escaped_point() {
    const uint32_t unit = hex4();
    if (unit < 0xD800 || unit > 0xDFFF) return unit;
    if (unit > 0xDBFF || text_.substr(std::min(at_, text_.size()), 2) != "\\u") fail("half of a surrogate pair in a string");
    at_ += 2;
    const uint32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair in a string");
    return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  }

  static void append(std::string& out, uint32_t point) {
    const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
    if (point < 0x80) return put(point);
    if (point < 0x800) return put(0xC0 | (point >> 6)), put(0x80 | (point & 0x3F));
    if (point < 0x10000) put(0xE0 | (point >> 12));
    else put(0xF0 | (point >> 18)), put(0x80 | ((point >> 12) & 0x3F));
    put(0x80 | ((point >> 6) & 0x3F)), put(0x80 | (point & 0x3F));
  }

  // A UTF-8 sequence of two to four bytes: shortest form, no surrogates, at most U+10FFFF.
  void sequence(std::string& out, unsigned char lead) {
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    static constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    uint32_t point = lead & (0x3F >> more);
    bool good = lead >= 0xC2 && lead <= 0xF4 && text_.size() - at_ > static_cast<size_t>(more);
    for (int i = 1; good && i <= more; ++i) {
      const auto c = static_cast<unsigned char>(text_[at_ + static_cast<size_t>(i)]);
      good = (c & 0xC0) == 0x80;
      point = (point << 6) | (c & 0x3F);
    }
    if (!good || point < kLeast[more] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
      fail("a string is not UTF-8");
    out += text_.substr(at_, static_cast<size_t>(more) + 1);
    at_ += static_cast<size_t>(more) + 1;
  }

  std::string_view text_;
  size_t at_ = 0;
  int64_t values_ = 0;
};

JsonValue JsonValue::parse(std::string_view text) { return JsonParser(text).document(); }

void JsonValue::wrong(const char* expected) const {
  static constexpr const char* kNames[] = {"null", "a truth value", "an integer", "a real number", "a string", "an array",
      "an object"};
  throw UserError(std::string("expected ") + expected + ", found " + kNames[static_cast<size_t>(kind_)]);
}

const std::vector<JsonValue>& JsonValue::array() const {
  if (kind_ != Kind::array) wrong("an array");
  return items_;
}

const std::vector<JsonValue::Member>& JsonValue::members() const {
  if (kind_ != Kind::object) wrong("an object");
  return members_;
}

const std::string& JsonValue::string() const {
  if (kind_ != Kind::string) wrong("a string");
  return text_;
}

int64_t JsonValue::integer() const {
  if (kind_ != Kind::integer) wrong("an integer");
  return integer_;
}

double JsonValue::real() const {
  if (kind_ == Kind::integer) return static_cast<double>(integer_);
  if (kind_ == Kind::real) return real_;
  if (kind_ == Kind::string && text_ == "Infinity") return std::numeric_limits<double>::infinity();
  if (kind_ == Kind::string && text_ == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (kind_ == Kind::string && text_ == "NaN") return std::numeric_limits<double>::quiet_NaN();
  wrong("a number");
}

bool JsonValue::boolean() const {
  if (kind_ != Kind::boolean) wrong("a truth value");
  return truth_;
}

const JsonValue* JsonValue::find(std::string_view name) const {
  const auto& all = members();
  const auto at = std::lower_bound(all.begin(), all.end(), name,
      [](const Member& m, std::string_view n) { return m.name < n; });
  return at != all.end() && at->name == name && !at->value.is_null() ? &at->value : nullptr;
}

const JsonValue& JsonValue::operator[](std::string_view name) const {
  if (const JsonValue* found = find(name)) return *found;
  throw UserError("\"" + std::string(name) + "\" is missing");
}

}  // namespace escapement
