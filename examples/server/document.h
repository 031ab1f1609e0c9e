// A request's JSON, read without building what a client may make as large as it likes: numbers of tensors go into flat
// vectors, nesting has an end, and so has what else there is.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace server {

using Json = nlohmann::json;

// What stood under "data" of an input, nested or flat, in order.
class Numbers {
 public:
  void add(int64_t value);
  void add(double value);  // all become floating point
  void add(bool value);
  size_t size() const { return bits_.size(); }
  // BadRequest where a number is none of the type, or out of its range.
  template <class Scalar>
  void write(Scalar* to) const;

 private:
  std::vector<int64_t> bits_;  // of doubles where `floats_`
  bool floats_ = false, flags_ = false;
};

struct Document {
  Json json;                  // each input's "data" is a position in `data`
  std::vector<Numbers> data;
};

// BadRequest where the text is no JSON, or more than a request needs.
Document read_document(std::string_view text);

}  // namespace server
