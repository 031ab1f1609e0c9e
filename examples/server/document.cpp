// See document.h.
#include "document.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "reply.h"

namespace server {

namespace {

constexpr size_t kDepth = 16;       // of anything
constexpr size_t kValues = 10'000;  // outside of data
constexpr size_t kToken = 64 << 10;  // bytes of one string or number

[[noreturn]] void out_of_range() { throw BadRequest("a number is out of the datatype's range"); }

template <class Scalar>
Scalar narrow(int64_t value) {
  if constexpr (std::is_integral_v<Scalar>) {
    if (!std::in_range<std::conditional_t<std::is_same_v<Scalar, bool>, uint8_t, Scalar>>(value)) out_of_range();
    if (std::is_same_v<Scalar, bool> && value > 1) out_of_range();
  }
  return static_cast<Scalar>(value);
}

template <class Scalar>
Scalar round_to(double value) {
  const auto rounded = static_cast<Scalar>(value);
  if (!std::isfinite(static_cast<double>(rounded))) out_of_range();
  return rounded;
}

// The parser copies a token several times, and quotes it where it is wrong.
void refuse_long_tokens(std::string_view text) {
  if (text.size() <= kToken) return;
  bool in_string = false;
  for (size_t i = 0, start = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}' || c == ':' || c <= ' ') {
      in_string = c == '"';
      start = i;
    }
    if (i - start > kToken) throw BadRequest("a string or a number of the JSON is too long");
  }
}

// Takes what the parser tells. Returning false ends it; `error` says why.
class Reader {
 public:
  Document document;
  std::string error;

  bool null() { return in_data() ? not_a_number() : value(nullptr); }
  bool boolean(bool flag) { return in_data() ? number(flag) : value(flag); }
  bool number_integer(int64_t integer) { return in_data() ? number(integer) : value(integer); }
  bool number_unsigned(uint64_t integer) {
    if (!in_data()) return value(integer);
    return std::in_range<int64_t>(integer) ? number(static_cast<int64_t>(integer)) : number(static_cast<double>(integer));
  }
  bool number_float(double real, const std::string&) { return in_data() ? number(real) : value(real); }
  bool string(std::string& text) { return in_data() ? not_a_number() : value(std::move(text)); }
  bool binary(Json::binary_t&) { return fail("binary values are not JSON"); }
  bool start_object(size_t) { return in_data() ? not_a_number() : open(Json::object()); }
  bool end_object() { return close(); }
  bool start_array(size_t) {
    if (!in_data()) return open(Json::array());
    return ++nesting_ <= kDepth || fail("data are nested too deeply");
  }
  bool end_array() {
    if (nesting_ == 0) return close();
    return --nesting_ > 0 || end_data();
  }
  bool key(std::string& name) {
    key_ = std::move(name);
    if (open_.back()->contains(key_)) return fail("a name stands twice in an object");
    if (open_.size() == 1) in_inputs_ = key_ == "inputs";
    awaits_data_ = in_inputs_ && open_.size() == 3 && open_[1]->is_array() && key_ == "data";
    if (awaits_data_) document.data.emplace_back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception& exception) { return fail(exception.what()); }

 private:
  bool in_data() const { return awaits_data_; }
  bool fail(const char* text) {
    error = text;
    return false;
  }
  bool not_a_number() { return fail("data are no numbers of the datatype"); }

  template <class Value>
  bool number(Value value) {
    document.data.back().add(value);
    return nesting_ > 0 || end_data();
  }
  bool end_data() {
    awaits_data_ = false;
    return value(document.data.size() - 1);
  }

  Json* place(Json item) {
    if (open_.empty()) return &(document.json = std::move(item));
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(item));
    return &((*open_.back())[key_] = std::move(item));
  }
  bool value(Json item) {
    if (++values_ > kValues) return fail("there are too many values outside of data");
    place(std::move(item));
    return true;
  }
  bool open(Json item) {
    if (open_.size() >= kDepth) return fail("values are nested too deeply");
    if (++values_ > kValues) return fail("there are too many values outside of data");
    open_.push_back(place(std::move(item)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;  // objects and arrays from the root on; only the last one grows, so that none of them moves
  std::string key_;
  size_t values_ = 0, nesting_ = 0;
  bool in_inputs_ = false, awaits_data_ = false;
};

}  // namespace

void Numbers::add(int64_t value) {
  bits_.push_back(floats_ ? std::bit_cast<int64_t>(static_cast<double>(value)) : value);
}

void Numbers::add(double value) {
  if (!floats_) {
    for (int64_t& bits : bits_) bits = std::bit_cast<int64_t>(static_cast<double>(bits));
  }
  floats_ = true;
  bits_.push_back(std::bit_cast<int64_t>(value));
}

void Numbers::add(bool value) {
  add(int64_t{value});
  flags_ = true;
}

template <class Scalar>
void Numbers::write(Scalar* to) const {
  constexpr bool whole = std::is_integral_v<Scalar>;
  if ((whole && floats_) || (flags_ && !std::is_same_v<Scalar, bool>))
    throw BadRequest("data are no numbers of the datatype");
  for (const int64_t bits : bits_) {
    if constexpr (whole)
      *to++ = narrow<Scalar>(bits);
    else
      *to++ = round_to<Scalar>(floats_ ? std::bit_cast<double>(bits) : static_cast<double>(bits));
  }
}

template void Numbers::write(float*) const;
template void Numbers::write(double*) const;
template void Numbers::write(c10::Half*) const;
template void Numbers::write(c10::BFloat16*) const;
template void Numbers::write(int64_t*) const;
template void Numbers::write(int32_t*) const;
template void Numbers::write(int16_t*) const;
template void Numbers::write(int8_t*) const;
template void Numbers::write(uint8_t*) const;
template void Numbers::write(bool*) const;

Document read_document(std::string_view text) {
  refuse_long_tokens(text);
  Reader reader;
  if (!Json::sax_parse(text.begin(), text.end(), &reader))
    throw BadRequest("not the JSON that the protocol asks for: " + reader.error);
  return std::move(reader.document);
}

}  // namespace server
