// The header of safetensors (github.com/huggingface/safetensors): eight bytes that say how long it is, then a JSON object
// that says of each tensor its dtype, its shape and where its bytes lie behind the header.
//
// The text is not trusted: every length is checked against the bytes that are there, and as the format asks, the tensors
// cover the data without holes and without overlap. A breach is a UserError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace escapement {

struct SafeTensor {
  std::string name, dtype;  // "F32", "BF16", "I64", "U8", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, from the start of the data
};

struct SafeTensors {
  uint64_t data = 0;                                    // where the data start
  std::vector<SafeTensor> tensors;                      // sorted by name
  const SafeTensor* find(std::string_view name) const;  // null: there is none
};

SafeTensors read_safetensors(std::span<const std::byte> bytes);
// The header, padded so that the data start at a multiple of 64 bytes; `tensors` in the order of their data, without holes.
std::string safetensors_header(const std::vector<SafeTensor>& tensors);
int64_t safetensors_width(std::string_view dtype);  // bytes per element; 0: unknown

}  // namespace escapement
