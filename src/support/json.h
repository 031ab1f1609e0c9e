// Json: a writer for reports. Values are appended in order; text is escaped; numbers print exactly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace escapement {

class Json {
 public:
  Json& open_object() { return open('{', '}'); }
  Json& open_array() { return open('[', ']'); }
  Json& close();
  Json& key(std::string_view name);
  Json& value(std::string_view text);
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(int64_t number);
  Json& value(double number);
  Json& value(bool truth);
  Json& null();
  template <class T>
  Json& field(std::string_view name, const T& v) { return key(name).value(v); }
  const std::string& text() const { return text_; }

 private:
  Json& open(char begin, char end);
  void separate();

  std::string text_;
  std::vector<char> ends_;
  bool first_ = true;
  bool after_key_ = false;
};

}  // namespace escapement
