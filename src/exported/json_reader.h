// JsonValue: a JSON text as a tree, read strictly (RFC 8259; UTF-8; no duplicate names; integers are int64) from a source
// that is not trusted: nesting and the number of values are limited. What is missing or of another kind is a UserError that
// names it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace escapement {

class JsonValue {
 public:
  enum class Kind : uint8_t { null, boolean, integer, real, string, array, object };
  struct Member;

  static JsonValue parse(std::string_view text);   // UserError "at byte N: ..."

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  const std::vector<JsonValue>& array() const;
  const std::vector<Member>& members() const;      // sorted by name
  const std::string& string() const;
  int64_t integer() const;
  double real() const;                             // also an integer, and torch's "Infinity", "-Infinity", "NaN"
  bool boolean() const;
  const JsonValue& operator[](std::string_view name) const;   // there must be one
  const JsonValue* find(std::string_view name) const;         // null: none, or a JSON null

 private:
  friend class JsonParser;
  [[noreturn]] void wrong(const char* expected) const;

  Kind kind_ = Kind::null;
  bool truth_ = false;
  union {
    int64_t integer_ = 0;
    double real_;
  };
  std::string text_;
  std::vector<JsonValue> items_;
  std::vector<Member> members_;
};

struct JsonValue::Member {
  std::string name;
  JsonValue value;
};

inline constexpr int kMaxJsonDepth = 64;
inline constexpr int64_t kMaxJsonValues = 8'000'000;

}  // namespace escapement
