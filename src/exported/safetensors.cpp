// See safetensors.h.
#include "exported/safetensors.h"

#include <algorithm>

#include "exported/json_reader.h"
#include "support/error.h"
#include "support/json.h"
#include "support/text.h"

namespace escapement {

namespace {

constexpr uint64_t kMaxHeader = uint64_t{100} << 20;
constexpr size_t kMaxRank = 64;
constexpr uint64_t kAlignment = 64;

uint64_t length_of(std::span<const std::byte> bytes) {
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return length;
}

uint64_t offset(const JsonValue& json) {
  const int64_t value = json.integer();
  if (value < 0) throw UserError("an offset is negative");
  return static_cast<uint64_t>(value);
}

void check_size(const SafeTensor& tensor) {
  int64_t bytes = safetensors_width(tensor.dtype);
  if (bytes == 0) throw UserError("the dtype " + quote(tensor.dtype.substr(0, 40)) + " is unknown");
  for (const int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) throw UserError("its shape is no tensor's");
  }
  if (tensor.end < tensor.begin || tensor.end - tensor.begin != static_cast<uint64_t>(bytes))
    throw UserError("its shape and its bytes differ");
}

SafeTensor read_tensor(const std::string& name, const JsonValue& json) {
  SafeTensor tensor;
  tensor.name = name;
  tensor.dtype = json["dtype"].string();
  if (json["shape"].array().size() > kMaxRank) throw UserError("more than 64 dims");
  for (const JsonValue& size : json["shape"].array()) tensor.shape.push_back(size.integer());
  const auto& offsets = json["data_offsets"].array();
  if (offsets.size() != 2) throw UserError("two offsets are expected");
  tensor.begin = offset(offsets[0]);
  tensor.end = offset(offsets[1]);
  check_size(tensor);
  return tensor;
}

void check_cover(std::vector<SafeTensor> tensors, uint64_t size) {
  std::sort(tensors.begin(), tensors.end(),
            [](const SafeTensor& a, const SafeTensor& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t covered = 0;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.begin != covered) throw UserError("the tensor " + quote(tensor.name) + " leaves a hole or overlaps another");
    covered = tensor.end;
  }
  if (covered != size) throw UserError("the tensors do not cover the data: it is truncated, or has too many bytes");
}

}  // namespace

int64_t safetensors_width(std::string_view dtype) {
  static constexpr std::pair<std::string_view, int64_t> kWidths[] = {
      {"F64", 8},  {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4}, {"U32", 4}, {"F16", 2},
      {"BF16", 2}, {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}};
  for (const auto& [name, width] : kWidths) {
    if (name == dtype) return width;
  }
  return 0;
}

const SafeTensor* SafeTensors::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const SafeTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

SafeTensors read_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < 8) throw UserError("it is too short for a header");
  const uint64_t length = length_of(bytes);
  if (length > kMaxHeader || length > bytes.size() - 8) throw UserError("its header is longer than what is there");
  const JsonValue header = JsonValue::parse({reinterpret_cast<const char*>(bytes.data()) + 8, length});
  SafeTensors result;
  result.data = 8 + length;
  for (const auto& [name, json] : header.members()) {
    if (name == "__metadata__") continue;
    try {
      result.tensors.push_back(read_tensor(name, json));
    } catch (const UserError& error) {
      throw UserError("the tensor " + quote(name) + ": " + error.what());
    }
  }
  check_cover(result.tensors, bytes.size() - result.data);
  return result;
}

std::string safetensors_header(const std::vector<SafeTensor>& tensors) {
  Json json;
  json.open_object().key("__metadata__").open_object().field("format", "pt").close();
  for (const SafeTensor& tensor : tensors) {
    json.key(tensor.name).open_object().field("dtype", tensor.dtype).key("shape").open_array();
    for (const int64_t size : tensor.shape) json.value(size);
    json.close().key("data_offsets").open_array();
    json.value(static_cast<int64_t>(tensor.begin)).value(static_cast<int64_t>(tensor.end)).close().close();
  }
  json.close();
  std::string text = json.text();
  text.resize((text.size() + 8 + kAlignment - 1) / kAlignment * kAlignment - 8, ' ');
  std::string header;
  for (int i = 0; i < 8; ++i) header += static_cast<char>(text.size() >> (8 * i));
  return header + text;
}

}  // namespace escapement
